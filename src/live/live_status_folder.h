// The folders of the live status files: private to their user, and cleared of the files of dead
// processes.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/result.h"

namespace plimsoll::live {

// Creates the folder if necessary; returns an error unless it belongs to this user alone.
Status make_live_status_folder(const std::string& folder);
// Checks that the folder can be written only by this user.
Status check_live_status_folder(const std::string& folder);

// Returns -1 if the file is unavailable; see errno.
int open_live_status_file(const std::string& folder, int pid);

// The pids of the files, ascending; removes the files of dead processes.
std::vector<int> sweep_live_status_folder(const std::string& folder);

}  // namespace plimsoll::live

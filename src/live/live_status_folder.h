// The folders of the live status files: made so that nobody else can look into it or put a file
// there, and swept of what the dead have left.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/result.h"

namespace plimsoll::live {

// Makes the folder where it is not; an error if it is not this user's alone.
Status make_live_status_folder(const std::string& folder);
// Ours, a folder, and nobody else's to write.
Status check_live_status_folder(const std::string& folder);

// -1: the file is not to be had; errno tells why.
int open_live_status_file(const std::string& folder, int pid);

// The pids of the files; those that the dead have left are removed. By pid.
std::vector<int> sweep_live_status_folder(const std::string& folder);

}  // namespace plimsoll::live

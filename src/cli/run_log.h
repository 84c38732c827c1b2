// What `plimsoll run` learns from the processes of a program: a file into which each of them writes
// where it records, and the summary of those recordings once the program has ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plimsoll/result.h"

namespace plimsoll::cli {

// A temporary file, whose path the processes get through the environment. Lines: "loaded PID",
// "recording PID PATH", "failed PID WHY".
class RunLog {
 public:
  RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;
  ~RunLog();

  bool is_made() const { return is_made_; }
  const std::string& path() const { return path_; }
  void read();

  bool is_loaded = false;
  std::size_t processes = 0;            // that wanted to record
  std::vector<std::string> recordings;  // files that exist
  std::vector<std::string> failures;

 private:
  std::string path_;
  bool is_made_ = false;
};

// The output's absolute path; without one, that of plimsoll-PROGRAM-PID.plim.
std::string output_path(const std::string& output, const std::string& program);

// Whether a recording can begin at this absolute path: else the program would run for nothing.
// What only writing shows, such as a full disk, ends the recording and not the program. The same
// for scripts is in plimsoll/_command/launch.py.
Status check_output(const std::string& path);

// Removes an earlier trace, so that the program records into that path itself; not one that a
// process is still writing.
void remove_earlier(const std::string& path);

struct Printed {
  std::uint64_t events = 0;    // in all recordings
  bool is_incomplete = false;  // events are missing from one of them, or one cannot be read
};

// Prints a line for each recording, of a killed program too.
Printed print_recordings(const std::vector<std::string>& paths);

}  // namespace plimsoll::cli

// Collects where a program's processes record: each writes its recording's path to a log file, and
// a summary of the recordings is printed once the program has ended.
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
  std::size_t processes = 0;            // number of processes that tried to record
  std::vector<std::string> recordings;  // files that exist
  std::vector<std::string> failures;

 private:
  std::string path_;
  bool is_made_ = false;
};

// The absolute path of the output; by default, that of plimsoll-PROGRAM-PID.plim.
std::string output_path(const std::string& output, const std::string& program);

// Whether a recording can begin at this absolute path: checked before the program runs. Problems
// that only writing reveals, such as a full disk, end the recording but not the program.
// plimsoll/_command/launch.py does the same for scripts.
Status check_output(const std::string& path);

// Removes an earlier trace, so that the program records into that path itself, unless a process is
// still writing it.
void remove_earlier(const std::string& path);

struct Printed {
  std::uint64_t events = 0;    // in all recordings
  bool is_incomplete = false;  // events are missing from one of them, or one cannot be read
};

// Prints one line per recording, even if the program was killed.
Printed print_recordings(const std::vector<std::string>& paths);

}  // namespace plimsoll::cli

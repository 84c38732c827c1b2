// Collects where the processes of a program record. Each process writes the path of its recording
// to a log file; when the program has ended, a summary of the recordings is printed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plimsoll/result.h"

namespace plimsoll::cli {

// A temporary file whose path the processes receive in an environment variable. Its lines are
// "loaded PID", "recording PID PATH" or "failed PID WHY".
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
  std::size_t processes = 0;            // processes that tried to record
  std::vector<std::string> recordings;  // files that exist
  std::vector<std::string> failures;

 private:
  std::string path_;
  bool is_made_ = false;
};

// The absolute path of `output`; if that is empty, of plimsoll-PROGRAM-PID.plim.
std::string output_path(const std::string& output, const std::string& program);

// Checks, before the program runs, whether a recording can begin at this absolute path. Problems
// that only writing reveals, such as a full disk, end the recording but not the program.
// plimsoll/_command/launch.py checks the same for scripts.
Status check_output(const std::string& path);

// Removes an earlier trace, so that the program records to exactly this path. Keeps it if a process
// is still writing it.
void remove_earlier(const std::string& path);

struct Printed {
  std::uint64_t events = 0;    // sum over all recordings
  bool is_incomplete = false;  // events are missing from one of them, or one cannot be read
};

// Prints one line for each recording, even after the program was killed.
Printed print_recordings(const std::vector<std::string>& paths);

}  // namespace plimsoll::cli

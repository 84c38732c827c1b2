// Reports to `plimsoll run` that this process exists, and where it records. The list of processes
// is a text file that exists for the duration of the run ($PLIMSOLL_CUDA_PROCESSES). The first
// process into which the library is loaded writes "loaded PID"; each process that records writes
// "recording PID PATH" or "failed PID SENTENCE".
#pragma once

#include <string>

namespace plimsoll::cuda_driver {

// Reads the environment, because the program may change it later, and writes "loaded".
void announce_process() noexcept;

// $PLIMSOLL_CUDA_OUT or, without a list of processes, that path with ".PID" appended.
std::string wanted_path();

void report_recording(const char* path);

void report_failure(const char* sentence);

}  // namespace plimsoll::cuda_driver

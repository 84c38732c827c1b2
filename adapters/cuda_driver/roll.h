// Where this process records, and that it was there: the roll is a text file that `plimsoll run`
// makes for the time of the run ($PLIMSOLL_CUDA_ROLL). The first process into which the library is
// loaded writes "loaded PID"; each that records, "recording PID PATH" or "failed PID SENTENCE".
#pragma once

#include <string>

namespace plimsoll::cuda_driver {

// Reads the environment, which the program may change later. Writes "loaded".
void sign_in() noexcept;

// $PLIMSOLL_CUDA_OUT; where there is no roll, that and the process's number.
std::string wanted_path();

void tell_recording(const char* path);

void tell_failure(const char* sentence);

}  // namespace plimsoll::cuda_driver

// Where this process records, and that it was there: the roll is a text file that `plimsoll run`
// makes for the time of the run ($PLIMSOLL_CUDA_ROLL). The first process into which the library is
// loaded writes "loaded PID"; each that records, "recording PID PATH" or "failed PID SENTENCE".
#pragma once

#include <string>

namespace plimsoll::cuda_driver {

// Reads the environment, which the program may change later. Writes "loaded".
void sign_in() noexcept;

// The path for this process's recording: $PLIMSOLL_CUDA_OUT for the first process of the roll that
// records, for the others, and where there is no roll, that and the process's number.
std::string claim_path();

void tell_failure(const char* sentence);

}  // namespace plimsoll::cuda_driver

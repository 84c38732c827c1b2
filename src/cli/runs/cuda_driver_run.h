// plimsoll run --cuda-driver: runs a program with Plimsoll's library preloaded, which records the
// program's requests to the CUDA driver, and then reports where the recording is.
#pragma once

#include <string>
#include <vector>

namespace plimsoll::cli {

// `path`: the trace file. Returns the program's exit status, or ours if it cannot be run.
int run_with_cuda_driver(const std::string& path, const std::vector<std::string>& program);

}  // namespace plimsoll::cli

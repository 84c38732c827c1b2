// plimsoll run --cuda-driver: runs the program with our library preloaded, which records its
// requests to the CUDA driver, and finally reports where the recording is.
#pragma once

#include <string>
#include <vector>

namespace plimsoll::cli {

// `path`: the trace file. Returns the program's exit status, or ours if it cannot be run.
int run_with_cuda_driver(const std::string& path, const std::vector<std::string>& program);

}  // namespace plimsoll::cli

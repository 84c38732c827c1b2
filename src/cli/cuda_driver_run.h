// plimsoll run --cuda-driver: the program runs with our library preloaded, which records what it
// asks CUDA's driver for; at its end we say where that lies.
#pragma once

#include <string>
#include <vector>

namespace plimsoll::cli {

// `path`: the trace file. The program's exit status, or ours
// where it cannot be run.
int run_with_cuda_driver(const std::string& path, const std::vector<std::string>& program);

}  // namespace plimsoll::cli

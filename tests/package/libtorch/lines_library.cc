// A model in a shared library of its own, whose name begins like that of torch (lines_program.cc).
#include <torch/types.h>

[[gnu::noinline]] torch::Tensor in_library(std::int64_t count) {
  return torch::ones({count});  // line: library
}

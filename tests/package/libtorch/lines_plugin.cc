// A library that lines_program loads and unloads. It is built twice: the functions have other
// names, but the same addresses.
#include <torch/utils.h>

[[gnu::noinline]] static torch::Tensor PLUGIN_FUNCTION(std::int64_t count) {
  return torch::ones({count});
}

extern "C" void run_plugin(std::int64_t count, torch::Tensor& result) {
  result = PLUGIN_FUNCTION(count);
}

// Allocates in known lines with known dtypes, for the test of both.
//
//   lines_program PATH [fork | delete | sandbox | plugins LIBRARY...]
//
// fork: a child of the program allocates and records too, from functions that its parent has called
// and from others. delete: deletes its own executable first. sandbox: adds a seccomp filter that
// kills the program if it starts a process. plugins: loads, calls and unloads each library.
//
// Each tensor has a size of its own. A comment at the end of a line names it for the test.
#include <dlfcn.h>
#include <sys/wait.h>
#include <torch/nn/functional/activation.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "../../support/seccomp_filter.h"
#include "plimsoll/libtorch/memory_tracer.h"

torch::Tensor in_library(std::int64_t count);  // lines_library.cc

namespace {

std::vector<torch::Tensor> kept;

[[gnu::noinline]] torch::Tensor in_function(std::int64_t count) {
  return torch::zeros({count});  // line: zeros
}

inline torch::Tensor in_inlined_function(const torch::Tensor& given) {
  return torch::relu(given);  // line: relu
}

template <typename Body>
[[gnu::noinline]] void in_template(Body&& body) {
  kept.push_back(body() + 1);  // line: template
}

[[gnu::noinline]] void two_on_the_way(std::int64_t count) {
  const torch::Tensor first = torch::ones({count});
  kept.push_back(in_inlined_function(first));  // line: caller of relu
  kept.push_back(torch::sigmoid(first));       // line: sigmoid
  kept.push_back(torch::sigmoid(first));       // line: sigmoid again
}

[[gnu::noinline]] void in_module(torch::nn::Linear& layer) {
  torch::Tensor given = torch::empty({3, 5}).fill_(1);
  torch::Tensor loss = layer(given).sum();  // line: linear
  loss.backward();                          // line: backward
}

void keep_one_of_each_kind() {
  using torch::Tensor;
  const auto as = [](torch::ScalarType type) { return torch::TensorOptions().dtype(type); };
  const Tensor half = torch::zeros({1001}, as(torch::kHalf));
  kept.insert(kept.end(), {
                              half,
                              torch::ones({1002}, as(torch::kDouble)),
                              torch::empty({1003}, as(torch::kInt)),
                              torch::full({1004}, 2.5),
                              torch::full({1005}, 7),
                              torch::rand({1006}),
                              torch::randn({1007}, as(torch::kDouble)),
                              torch::randint(9, {1008}),
                              torch::arange(1009),
                              torch::arange(1010.0),
                              torch::linspace(0, 1, 1011),
                              torch::eye(32),
                              torch::zeros_like(half.repeat({2})),
                              torch::empty_strided({1013}, {2}, as(torch::kBFloat16)),
                              torch::tensor(std::vector<int>(1014, 3)),
                              torch::randperm(1015),
                              torch::ones({1016}).to(torch::kHalf),
                              half.new_empty({1017}),
                              torch::zeros({1018}, as(torch::kBool)),
                              torch::complex(torch::ones({1019}), torch::ones({1019})),
                          });
  for (const Tensor& part : torch::stack({half, half}).unbind()) kept.push_back(part);
}

void call_plugin(const char* path) {
  void* const library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void* const found = library != nullptr ? ::dlsym(library, "run_plugin") : nullptr;
  if (found == nullptr) {
    std::fprintf(stderr, "%s\n", ::dlerror());
    return;
  }
  torch::Tensor result;
  reinterpret_cast<void (*)(std::int64_t, torch::Tensor&)>(found)(2006, result);
  result.reset();
  ::dlclose(library);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) return 2;
  const std::string_view word = count > 2 ? arguments[2] : "";
  const bool forks = word == "fork";
  if (word == "delete") ::unlink(arguments[0]);
  if (word == "sandbox") plimsoll::tests::add_seccomp_filter(SECCOMP_RET_KILL_PROCESS);
  torch::set_num_threads(1);
  torch::nn::Linear layer(5, 7);
  using plimsoll::InChildren;
  plimsoll::MemoryTracer tracer(
      {.path = arguments[1],
       .in_children = forks ? InChildren::kFileOfTheirOwn : InChildren::kNothing});
  for (int step = 0; step < 3; ++step) {
    kept.push_back(in_function(2001));  // line: calls zeros
    if (forks && step == 1) ::fork();
    two_on_the_way(2002);                             // line: calls two
    in_template([] { return torch::ones({2003}); });  // line: lambda
    in_module(layer);                                 // line: calls module
    kept.push_back(in_library(2005));                 // line: calls library
  }
  if (word == "plugins") {
    for (int i = 3; i < count; ++i) call_plugin(arguments[i]);
  }
  keep_one_of_each_kind();
  tracer.stop();
  if (!tracer.error().empty()) std::fprintf(stderr, "%s\n", tracer.error().c_str());
  ::wait(nullptr);  // in the parent
}

// An unmodified LibTorch program that trains: steps_program [plain|named|own|two|leak]
//   named   the tracer knows the model, and so the names of its parameters
//   own     the program marks its own steps: one for two of the optimizer
//   two     two optimizers, as for a generator and a discriminator
//   leak    each step retains 8 MiB that are no tensor
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include <optional>
#include <string>
#include <vector>

#include "plimsoll/libtorch/memory_tracer.h"

namespace {

struct NetImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return second(torch::relu(first(x))); }

  torch::nn::Linear first = register_module("first", torch::nn::Linear(64, 256));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(256, 8));
};
TORCH_MODULE(Net);

constexpr int kSteps = 20;

}  // namespace

int main(int count, char** arguments) {
  const std::string how = count > 1 ? arguments[1] : "plain";
  std::optional<plimsoll::MemoryTracer> tracer;
  Net net;
  if (how == "named") {
    tracer.emplace(plimsoll::RecordingOptions{.path = arguments[2]});
    tracer->trace(*net, "Net");
  }
  torch::optim::Adam optimizer(net->parameters(), 1e-3);
  torch::optim::SGD other(net->parameters(), 1e-3);
  std::vector<std::string> kept;
  for (int step = 1; step <= kSteps; ++step) {
    optimizer.zero_grad();
    net(torch::randn({32, 64})).square().mean().backward();
    optimizer.step();
    if (how == "two") other.step();
    if (how == "own" && step % 2 == 0) plimsoll::step();
    if (how == "leak") kept.emplace_back(8u << 20, 'x');
  }
  return kept.size() > kSteps ? 1 : 0;
}

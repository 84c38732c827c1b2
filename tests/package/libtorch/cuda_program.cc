// Trains on a CUDA device, with MemoryTracer or without.
//
//   cuda_program [PATH|memory] [late] [lite] [results]
//
// late: the tracer starts before CUDA is used. It is compiled twice: with plimsoll::libtorch_cuda,
// and without.
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/utils.h>

#include <cstdint>
#include <cstdio>
#include <optional>
#include <set>
#include <string>

#include "plimsoll/libtorch/memory_tracer.h"

// The interface of the tests' fake device.
extern "C" {
void fake_initialize();
std::uint64_t fake_allocated(int device);
std::uint64_t fake_reserved(int device);
}

namespace {

void print_results(plimsoll::MemoryTracer& tracer) {
  for (const auto& [layer, stats] : tracer.get_layer_stats()) {
    std::printf("layer %s %llu %llu\n", layer.c_str(),
                static_cast<unsigned long long>(stats.peak_allocated),
                static_cast<unsigned long long>(stats.parameter_bytes));
  }
}

}  // namespace

int main(int count, char** arguments) {
  const std::set<std::string> words(arguments + 1, arguments + count);
  torch::manual_seed(0);
  torch::set_num_threads(1);
  std::optional<plimsoll::MemoryTracer> tracer;
  const auto start = [&] {
    if (count < 2) return;
    const std::string path = arguments[1];
    tracer.emplace(plimsoll::RecordingOptions{.path = path == "memory" ? "" : path},
                   words.contains("lite") ? PLIMSOLL_LIBTORCH_LITE : PLIMSOLL_LIBTORCH_FULL);
  };
  if (words.contains("late")) start();
  fake_initialize();
  torch::nn::Sequential net(torch::nn::Linear(256, 512), torch::nn::ReLU(),
                            torch::nn::Linear(512, 256));
  net->to(torch::kCUDA);
  if (!words.contains("late")) start();
  if (tracer) tracer->trace(*net, "Net");
  torch::optim::Adam optimizer(net->parameters());
  const torch::Tensor batch = torch::rand({64, 256}).to(torch::kCUDA);
  if (tracer) tracer->input(batch);
  for (int step = 0; step < 3; ++step) {
    const torch::Tensor loss = net->forward(batch).square().mean();
    optimizer.zero_grad();
    loss.backward();
    if (tracer) {
      tracer->step(optimizer);
    } else {
      optimizer.step();
    }
    std::printf("loss %.17g\n", loss.item<double>());
  }
  std::printf("allocated %llu reserved %llu\n", static_cast<unsigned long long>(fake_allocated(0)),
              static_cast<unsigned long long>(fake_reserved(0)));
  if (!tracer) return 0;
  tracer->stop();
  if (words.contains("results")) print_results(*tracer);
  if (!tracer->error().empty()) std::printf("error %s\n", tracer->error().c_str());
}

// A model whose source names no layer, recorded with its layers by MemoryTracer::trace().
//
//   layers_program PATH|memory [scope] [plain-step] [lite] [results:FOLDER]
//
// results: writes timeline.json and flame.json into the folder and prints the summary.
// scope: PLIMSOLL_LAYER around the forward; plain-step: optimizer.step() itself, not tracer.step().
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <cstdio>
#include <optional>
#include <set>
#include <string>

#include "plimsoll/libtorch/memory_tracer.h"

namespace {

constexpr std::int64_t kWidth = 64;

// Shares the embedding's matrix with its last layer, calls one layer through a view of its weight,
// and has its own parameter.
struct NetImpl : torch::nn::Module {
  NetImpl()
      : embedding(register_module("embedding", torch::nn::Embedding(kWidth, kWidth))),
        body(register_module(
            "body",
            torch::nn::Sequential(
                torch::nn::Linear(kWidth, 2 * kWidth), torch::nn::ReLU(),
                torch::nn::Linear(2 * kWidth, kWidth),
                torch::nn::BatchNorm1d(torch::nn::BatchNorm1dOptions(kWidth).affine(false))))),
        viewed(register_module("viewed", torch::nn::Linear(kWidth, kWidth))),
        head(register_module(
            "head", torch::nn::Linear(torch::nn::LinearOptions(kWidth, kWidth).bias(false)))),
        scale(register_parameter("scale", torch::ones({kWidth}))) {
    head->weight.set_data(embedding->weight);
  }

  torch::Tensor forward(torch::Tensor tokens) {
    torch::Tensor x = body->forward(embedding(tokens));
    x = x.matmul(viewed->weight.t()) + viewed->bias;
    return head(x * scale);
  }

  torch::nn::Embedding embedding;
  torch::nn::Sequential body;
  torch::nn::Linear viewed;
  torch::nn::Linear head;
  torch::Tensor scale;
};
TORCH_MODULE(Net);

// Results can be written before and after the end of the recording; this overwrites earlier ones.
void write_results(plimsoll::MemoryTracer& tracer, const std::string& folder) {
  const std::size_t before = tracer.events().size();
  tracer.stop();
  std::printf("events %zu then %zu\n", before, tracer.events().size());
  for (const auto& [layer, bytes] : tracer.get_peak_memory_per_layer()) {
    std::printf("peak %s %llu\n", layer.c_str(), static_cast<unsigned long long>(bytes));
  }
  for (const auto& [layer, ratio] : tracer.get_fragmentation_stats()) {
    std::printf("fragmentation %s %.3f\n", layer.c_str(), ratio);
  }
  const plimsoll::Status wrote[] = {tracer.export_timeline(folder + "/timeline.json"),
                                    tracer.export_flame_graph(folder + "/flame.json"),
                                    tracer.export_timeline(folder + "/no/such/folder.json")};
  for (const plimsoll::Status& status : wrote) {
    std::printf("export %s\n", status ? "done" : status.error().message.c_str());
  }
  tracer.print_summary();
}

}  // namespace

int main(int count, char** arguments) {
  const std::set<std::string> words(arguments + 1, arguments + count);
  torch::manual_seed(0);
  torch::set_num_threads(1);
  Net net;
  torch::optim::SGD optimizer(net->parameters(),
                              torch::optim::SGDOptions(0.01).weight_decay(0.1).momentum(0.9));
  std::optional<plimsoll::MemoryTracer> tracer;
  if (count > 1) {
    const std::string path = arguments[1];
    tracer.emplace(plimsoll::RecordingOptions{.path = path == "memory" ? "" : path},
                   words.contains("lite") ? PLIMSOLL_LIBTORCH_LITE : PLIMSOLL_LIBTORCH_FULL);
    tracer->trace(*net, "Net");
  }
  const torch::Tensor tokens = torch::arange(32) % kWidth;
  double last = 0;
  for (int step = 0; step < 3; ++step) {
    std::optional<plimsoll::LayerScope> scope;
    if (words.contains("scope")) scope.emplace("Scope");
    const torch::Tensor loss = net(tokens).square().mean();
    scope.reset();
    optimizer.zero_grad();
    loss.backward();
    if (tracer && !words.contains("plain-step")) {
      tracer->step(optimizer);
    } else {
      optimizer.step();
    }
    last = loss.item<double>();
  }
  std::printf("loss %.17g\n", last);
  for (const std::string& word : words) {
    if (word.starts_with("results:")) write_results(*tracer, word.substr(8));
  }
  if (tracer && !tracer->error().empty()) std::fprintf(stderr, "%s\n", tracer->error().c_str());
}

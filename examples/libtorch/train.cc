// A convolutional network learns, in C++, which way stripes run in noisy pictures, and records its
// own memory.
//
//   plimsoll_libtorch_train [--steps 120] [--batch-size 64] [--width 16] [--size 32] [--lr 0.003]
//                           [--seed 0] [--threads 0] [--trace train.plim]
//   plimsoll report train.plim
//
// Without --trace nothing is recorded and no hook is installed.
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>
#include <torch/optim/adam.h>
#include <torch/utils.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "memory_tracer.h"
#include "plimsoll/recorder.h"

namespace {

constexpr std::int64_t kDirections = 8;

// Halves the picture.
struct BlockImpl : torch::nn::Module {
  BlockImpl(std::int64_t channels_in, std::int64_t channels)
      : conv(register_module(
            "conv",
            torch::nn::Conv2d(
                torch::nn::Conv2dOptions(channels_in, channels, 3).padding(1).bias(false)))),
        norm(register_module("norm", torch::nn::BatchNorm2d(channels))) {}

  torch::Tensor forward(torch::Tensor x) {
    {
      PLIMSOLL_LAYER("conv");
      x = conv(x);
    }
    {
      PLIMSOLL_LAYER("norm");
      x = norm(x);
    }
    return torch::max_pool2d(torch::relu(x), 2);
  }

  torch::nn::Conv2d conv;
  torch::nn::BatchNorm2d norm;
};
TORCH_MODULE(Block);

struct NetImpl : torch::nn::Module {
  NetImpl(std::int64_t width, std::int64_t size)
      : block1(register_module("block1", Block(1, width))),
        block2(register_module("block2", Block(width, 2 * width))),
        head(register_module(
            "head", torch::nn::Linear(2 * width * (size / 4) * (size / 4), kDirections))) {}

  torch::Tensor forward(torch::Tensor x) {
    PLIMSOLL_LAYER("Net");
    {
      PLIMSOLL_LAYER("block1");
      x = block1(x);
    }
    {
      PLIMSOLL_LAYER("block2");
      x = block2(x);
    }
    PLIMSOLL_LAYER("head");
    return head(x.flatten(1));
  }

  Block block1;
  Block block2;
  torch::nn::Linear head;
};
TORCH_MODULE(Net);

struct Batch {
  torch::Tensor pictures;
  torch::Tensor directions;
};

// Stripes of a random direction, width and offset, under noise.
Batch draw(std::int64_t count, std::int64_t size) {
  const plimsoll::DataPhase phase;
  const torch::Tensor directions = torch::randint(kDirections, {count});
  const torch::Tensor angle = (directions * (M_PI / kDirections)).view({count, 1, 1});
  const torch::Tensor axis = torch::arange(size).to(torch::kFloat) - static_cast<double>(size) / 2;
  const torch::Tensor along =
      torch::cos(angle) * axis.view({1, 1, size}) + torch::sin(angle) * axis.view({1, size, 1});
  const torch::Tensor frequency = 0.4 + 0.8 * torch::rand({count, 1, 1});
  const torch::Tensor stripes = torch::sin(along * frequency + 6.28 * torch::rand({count, 1, 1}));
  return {(stripes + 0.7 * torch::randn({count, size, size})).unsqueeze(1), directions};
}

struct Options {
  std::map<std::string, std::string> values = {
      {"--steps", "120"}, {"--batch-size", "64"}, {"--width", "16"},  {"--size", "32"},
      {"--lr", "0.003"},  {"--seed", "0"},        {"--threads", "0"}, {"--trace", ""}};

  std::int64_t number(const char* flag) const { return std::stoll(values.at(flag)); }

  bool parse(int count, char** arguments) {
    for (int i = 1; i < count; i += 2) {
      const auto found = values.find(arguments[i]);
      if (found == values.end() || i + 1 == count) {
        std::fprintf(stderr, "What is %s? Flags, each with a value:", arguments[i]);
        for (const auto& [flag, value] : values) std::fprintf(stderr, " %s", flag.c_str());
        std::fprintf(stderr, "\n");
        return false;
      }
      found->second = arguments[i + 1];
    }
    return true;
  }
};

void train(const Options& options, plimsoll::MemoryTracer* tracer) {
  const std::int64_t size = options.number("--size");
  Net net(options.number("--width"), size);
  torch::optim::Adam optimizer(net->parameters(), std::stod(options.values.at("--lr")));
  if (tracer != nullptr) tracer->trace(*net, "Net");
  const std::int64_t steps = options.number("--steps");
  for (std::int64_t step = 1; step <= steps; ++step) {
    const Batch batch = draw(options.number("--batch-size"), size);
    if (tracer != nullptr) tracer->input(batch.pictures);
    const torch::Tensor logits = net(batch.pictures);
    const torch::Tensor loss = torch::nn::functional::cross_entropy(logits, batch.directions);
    optimizer.zero_grad();
    loss.backward();
    if (tracer != nullptr) {
      tracer->step(optimizer);
    } else {
      optimizer.step();
    }
    if (step % 20 == 0 || step == steps || step == 1) {
      PLIMSOLL_REGION("report");
      const double right =
          logits.argmax(1).eq(batch.directions).to(torch::kFloat).mean().item<double>();
      std::printf("step %lld  loss %.3f  right %.0f %%\n", static_cast<long long>(step),
                  loss.item<double>(), 100 * right);
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  Options options;
  if (!options.parse(count, arguments)) return 2;
  torch::manual_seed(static_cast<std::uint64_t>(options.number("--seed")));
  if (options.number("--threads") > 0) {
    torch::set_num_threads(static_cast<int>(options.number("--threads")));
  }
  const std::string& path = options.values.at("--trace");
  if (path.empty()) {
    train(options, nullptr);
    return 0;
  }
  plimsoll::MemoryTracer tracer({.path = path, .meta = {{"program", "train.cc"}}});
  train(options, &tracer);
  const plimsoll::RecordingState state = tracer.stop();
  if (!tracer.error().empty()) std::fprintf(stderr, "Not recorded: %s\n", tracer.error().c_str());
  std::printf("recorded %llu events, %llu bytes still live\n",
              static_cast<unsigned long long>(state.events),
              static_cast<unsigned long long>(state.live_bytes));
  return 0;
}

// A convolutional network in C++ that learns the direction of stripes in noisy pictures, and
// records or monitors its own memory.
//
//   plimsoll_libtorch_train [--steps 120] [--batch-size 64] [--width 16] [--size 32] [--lr 0.003]
//                           [--seed 0] [--threads 0] [--trace train.plim] [--monitor yes]
//                           [--output-dir folder] [--config config.yaml]
//   plimsoll report train.plim
//
// With --monitor (or PLIMSOLL_MONITOR_ENABLED=1), lines about memory are printed during training.
// With --output-dir, samples are also written there, as a text log and for TensorBoard.
// --config reads the same options from YAML, as in Python: docs/monitoring.md.
// Without these options and without --trace, nothing is recorded and no hook is installed.
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
#include <optional>
#include <string>

#include "plimsoll/libtorch/memory_tracer.h"
#include "plimsoll/monitor.h"
#include "plimsoll/monitor_config.h"
#include "plimsoll/monitor_options.h"
#include "plimsoll/recorder.h"
#include "plimsoll/training_monitor.h"

namespace {

constexpr std::int64_t kDirections = 8;

// A convolution that halves the width and height of a picture.
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

// Stripes of random direction, width and offset, with noise.
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
      {"--steps", "120"},  {"--batch-size", "64"}, {"--width", "16"},  {"--size", "32"},
      {"--lr", "0.003"},   {"--seed", "0"},        {"--threads", "0"}, {"--trace", ""},
      {"--monitor", "no"}, {"--output-dir", ""},   {"--config", ""}};

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

// All monitors of plimsoll/monitor.h that print: a point, checkpoints, a block, epochs, a batch.
class Monitors {
 public:
  // Starts monitoring if the options enable it.
  explicit Monitors(const plimsoll::MonitorOptions& options)
      : on_(options.enabled ? plimsoll::Monitoring::kOn : plimsoll::Monitoring::kOff),
        epoch_(on_, options.verbose_batches),
        first_batch_(on_) {
    if (!options.enabled) return;
    checkpoints_.emplace().record("initialization");
    whole_.emplace("training");
    if (options.profile_tensors || options.nvtx) samples_.emplace(options);
  }

  void model_created() {
    if (!checkpoints_) return;
    plimsoll::MemoryMonitor::print_memory_usage("After model creation: ");
    checkpoints_->record("after_model_creation");
  }
  void trained() {
    if (!checkpoints_) return;
    checkpoints_->record("after_training");
    checkpoints_->print_summary();
  }
  void begin(std::int64_t step) {
    if ((step - 1) % kStepsAnEpoch == 0) epoch_.on_epoch_start();
    reach("start");
  }
  // Marks a place within a step; only the first step has checkpoints.
  void reach(const char* place) { first_batch_.checkpoint(place); }
  void end(std::int64_t step, const torch::Tensor& loss) {
    first_batch_.print_summary();
    first_batch_.disable();
    const std::int64_t batch = (step - 1) % kStepsAnEpoch;
    epoch_.on_batch_end(batch, [&loss] { return loss.item<double>(); });
    if (batch + 1 == kStepsAnEpoch) epoch_.on_epoch_end();
    if (samples_) samples_->step(step, [&loss] { return loss.item<double>(); });
  }

 private:
  static constexpr std::int64_t kStepsAnEpoch = 40;

  plimsoll::Monitoring on_;
  plimsoll::EpochMemoryMonitor epoch_;
  plimsoll::BatchMemoryProfiler first_batch_;
  std::optional<plimsoll::MemoryTracker> checkpoints_;
  std::optional<plimsoll::TrackMemory> whole_;
  std::optional<plimsoll::TrainingMonitor> samples_;
};

// Reads the monitoring options from the configuration or else from the flags and the environment.
plimsoll::Status read(const Options& options, plimsoll::MonitorOptions& monitoring) {
  if (const std::string& file = options.values.at("--config"); !file.empty()) {
    PLIMSOLL_TRY_ASSIGN(monitoring, plimsoll::load_monitor_options(file));
    return {};
  }
  PLIMSOLL_TRY(monitoring.set("enabled", options.values.at("--monitor")));
  PLIMSOLL_TRY(monitoring.set("interval", "20"));
  if (const std::string& folder = options.values.at("--output-dir"); !folder.empty()) {
    PLIMSOLL_TRY(monitoring.set("output_dir", folder));
    PLIMSOLL_TRY(monitoring.set("tensorboard", "true"));
    PLIMSOLL_TRY(monitoring.set("profile_tensors", "true"));
  }
  return monitoring.set_from_environment();
}

// Starts watching, with separate hooks unless a tracer has installed some; returns the problem.
std::string watch(const plimsoll::MemoryTracer* tracer) {
  if (plimsoll::Status status = plimsoll::start_watching(); !status) return status.error().message;
  if (tracer != nullptr) return "";
  const char* problem = plimsoll_libtorch_attach(plimsoll_recorder(), PLIMSOLL_LIBTORCH_LITE);
  return problem == nullptr ? "" : problem;
}

void train(const Options& options, plimsoll::MemoryTracer* tracer, Monitors& monitors) {
  const std::int64_t size = options.number("--size");
  Net net(options.number("--width"), size);
  torch::optim::Adam optimizer(net->parameters(), std::stod(options.values.at("--lr")));
  if (tracer != nullptr) tracer->trace(*net, "Net");
  monitors.model_created();
  const std::int64_t steps = options.number("--steps");
  for (std::int64_t step = 1; step <= steps; ++step) {
    monitors.begin(step);
    const Batch batch = draw(options.number("--batch-size"), size);
    monitors.reach("data");
    if (tracer != nullptr) tracer->input(batch.pictures);
    const torch::Tensor logits = net(batch.pictures);
    const torch::Tensor loss = torch::nn::functional::cross_entropy(logits, batch.directions);
    monitors.reach("forward");
    optimizer.zero_grad();
    loss.backward();
    monitors.reach("backward");
    if (tracer != nullptr) {
      tracer->step(optimizer);
    } else {
      optimizer.step();
    }
    monitors.reach("optimizer");
    monitors.end(step, loss);
    if (step % 20 == 0 || step == steps || step == 1) {
      PLIMSOLL_REGION("report");
      const double right =
          logits.argmax(1).eq(batch.directions).to(torch::kFloat).mean().item<double>();
      std::printf("step %lld  loss %.3f  right %.0f %%\n", static_cast<long long>(step),
                  loss.item<double>(), 100 * right);
    }
  }
  monitors.trained();
}

}  // namespace

int main(int count, char** arguments) {
  Options options;
  if (!options.parse(count, arguments)) return 2;
  torch::manual_seed(static_cast<std::uint64_t>(options.number("--seed")));
  if (options.number("--threads") > 0) {
    torch::set_num_threads(static_cast<int>(options.number("--threads")));
  }
  plimsoll::MonitorOptions monitoring;
  if (const plimsoll::Status status = read(options, monitoring); !status) {
    std::fprintf(stderr, "%s\n", status.error().message.c_str());
    return 2;
  }
  const std::string& path = options.values.at("--trace");
  std::optional<plimsoll::MemoryTracer> tracer;
  if (!path.empty()) {
    tracer.emplace(plimsoll::RecordingOptions{.path = path, .meta = {{"program", "train.cc"}}});
  } else if (monitoring.enabled && (monitoring.profile_tensors || monitoring.nvtx)) {
    // The tracer names the tensors in samples; of its recording, only the newest events are kept.
    tracer.emplace(plimsoll::RecordingOptions{.max_events = 1000});
  }
  plimsoll::MemoryTracer* const recorder = tracer ? &*tracer : nullptr;
  if (monitoring.enabled) {
    const std::string problem = watch(recorder);
    if (!problem.empty()) std::fprintf(stderr, "Not watched: %s\n", problem.c_str());
  }
  {
    Monitors monitors(monitoring);
    train(options, recorder, monitors);
  }
  if (!tracer) return 0;
  const plimsoll::RecordingState state = tracer->stop();
  if (!tracer->error().empty()) std::fprintf(stderr, "Not recorded: %s\n", tracer->error().c_str());
  if (path.empty()) return 0;
  std::printf("recorded %llu events, %llu bytes still live\n",
              static_cast<unsigned long long>(state.events),
              static_cast<unsigned long long>(state.live_bytes));
  return 0;
}

// plimsoll::MemoryTracer: records the memory of a LibTorch program.
//
//   plimsoll::MemoryTracer tracer({.path = "train.plim"});
//   tracer.trace(*model, "Net");       // its parameters, gradients and buffers, by name
//   ...
//   tracer.input(images);
//   loss.backward();
//   optimizer.step();                  // tracer.step(optimizer) if it is not one of torch's
//
// trace() also names the layer of each operator that uses a parameter of the module; PLIMSOLL_LAYER
// in a forward function names everything inside it. error() reports what cannot be recorded;
// training continues as if there were no tracer. Link plimsoll::libtorch and torch;
// plimsoll::libtorch_cuda records CUDA devices too, from the first operator or trace() after CUDA
// was initialized.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operators.h"
#include "optimizer_steps.h"
#include "parameter_layers.h"
#include "parameters.h"
#include "plimsoll/recorder.h"
#include "plimsoll/tracer_results.h"
#include "plimsoll_libtorch.h"
#include "tensors.h"
#include "uses.h"

namespace plimsoll {

class MemoryTracer {
 public:
  // `device`, "cpu" or "cuda:1", is the one whose results the queries return; by default the first
  // CUDA device that was recorded, or the CPU. All devices are recorded. `uses`: in which steps the
  // last use of memory is recorded.
  explicit MemoryTracer(const RecordingOptions& options,
                        plimsoll_libtorch_mode mode = PLIMSOLL_LIBTORCH_FULL,
                        std::string device = "",
                        plimsoll_libtorch_uses uses = PLIMSOLL_LIBTORCH_USES_AUTO)
      : device_(std::move(device)), recording_(Recording::start(with_meta(options, mode, uses))) {
    if (recording_) path_ = recording_->path();
    if (!recording_) {
      error_ = recording_.error().message;
    } else if (const char* problem = plimsoll_libtorch_attach(plimsoll_recorder(), mode, uses)) {
      error_ = problem;
    } else {
      is_attached_ = true;
    }
  }
  MemoryTracer(const MemoryTracer&) = delete;
  MemoryTracer& operator=(const MemoryTracer&) = delete;
  ~MemoryTracer() { stop(); }

  // What is not recorded and why, in one sentence; empty if everything is recorded.
  const std::string& error() const { return error_; }

  // Names the module's parameters and buffers. From then on, operators that use them run in the
  // layer of the module that owns them, unless a PLIMSOLL_LAYER is open (full mode only;
  // parameter_layers.h says which operators). Call it again after they have been replaced.
  void trace(const torch::nn::Module& module, const std::string& name) {
    attempt([&] {
      const char* const problem = plimsoll_libtorch_renew();  // before the tensors are described
      std::vector<libtorch::ParameterLayers::Owned> owned;
      const auto own = [&](const at::Tensor& tensor, const std::string& path) {
        uses_cuda_ |= tensor.is_cuda();
        owned.push_back({tensor, path.substr(0, path.rfind('.'))});
      };
      for (const auto& parameter : module.named_parameters()) {
        const libtorch::Parameter known = named(name + "." + parameter.key());
        libtorch::parameters().add(parameter.value(), known);
        tag(parameter.value(), PLIMSOLL_ROLE_PARAMETER, known.name);
        own(parameter.value(), known.text);
      }
      for (const auto& buffer : module.named_buffers()) {
        const std::string path = name + "." + buffer.key();
        tag(buffer.value(), PLIMSOLL_ROLE_BUFFER, named(path).name);
        own(buffer.value(), path);
      }
      libtorch::parameter_layers().add(owned);
      libtorch::observe_inputs();
      note_cuda(problem);
    });
  }

  // Describes a batch, or another tensor that is an input of the model.
  void input(const at::Tensor& tensor) {
    attempt([&] {
      uses_cuda_ |= tensor.is_cuda();
      tag(tensor, PLIMSOLL_ROLE_INPUT, 0);
    });
  }

  // Runs the optimizer's step in the optimizer phase, tags its parameters, gradients and state, and
  // ends a step of the training loop. Arguments and result are those of optimizer.step(), which
  // does the same for torch's own optimizers, but does not update error().
  template <typename... Closure>
  at::Tensor step(torch::optim::Optimizer& optimizer, Closure&&... closure) {
    const StepEnd end{*this};
    const libtorch::OptimizerStep recorded(optimizer);
    return optimizer.step(std::forward<Closure>(closure)...);
  }

  void flush() {
    if (recording_) recording_->flush();
  }
  RecordingState state() const { return recording_ ? recording_->state() : RecordingState{}; }
  // The peak of live tensor bytes on all devices together.
  std::uint64_t peak_bytes() const { return recording_ ? recording_->peak_bytes() : 0; }

  // Removes the hooks and ends the recording.
  RecordingState stop() {
    // Detaching looks for holders, which needs some megabytes.
    if (recording_) recording_->read_process();
    if (std::exchange(is_attached_, false)) plimsoll_libtorch_detach();
    if (!recording_) return {};
    if (recording_->is_running()) results_.reset();
    if (path_.empty() && recording_->is_running()) trace_ = recording_->take();
    return recording_->stop();
  }

  // ---- Results, before and after stop(). A program that calls one of them links plimsoll::engine.

  // The results so far (plimsoll/tracer_results.h explains the figures). Analyzed on the calling
  // thread; repeated only after new events. If this fails, the queries below are empty.
  Result<TracerResults> results() {
    if (!recording_) return recording_.error();
    flush();
    const std::uint64_t bytes = state().written_bytes;
    if (results_ && bytes == results_bytes_) return *results_;
    Result<TracerResults> read = read_results();
    if (read) results_ = *read;
    results_bytes_ = bytes;
    return read;
  }
  std::vector<MemoryEvent> events() {
    const auto all = results();
    return all ? all->events() : std::vector<MemoryEvent>{};
  }
  std::map<std::string, LayerMemoryStats> get_layer_stats() {
    const auto all = results();
    return all ? all->get_layer_stats() : std::map<std::string, LayerMemoryStats>{};
  }
  std::map<std::string, std::uint64_t> get_peak_memory_per_layer() {
    const auto all = results();
    return all ? all->get_peak_memory_per_layer() : std::map<std::string, std::uint64_t>{};
  }
  std::map<std::string, double> get_fragmentation_stats() {
    const auto all = results();
    return all ? all->get_fragmentation_stats() : std::map<std::string, double>{};
  }
  Status export_flame_graph(const std::string& output_path) {
    const auto all = results();
    return all ? all->export_flame_graph(output_path) : Status(all.error());
  }
  Status export_timeline(const std::string& output_path) {
    const auto all = results();
    return all ? all->export_timeline(output_path) : Status(all.error());
  }
  // Prints to standard output.
  void print_summary(std::size_t top = 10) {
    if (const auto all = results()) {
      all->print_summary(top);
    } else {
      std::printf("%s\n", all.error().message.c_str());
    }
  }

 private:
  static RecordingOptions with_meta(RecordingOptions options, plimsoll_libtorch_mode mode,
                                    plimsoll_libtorch_uses uses) {
    options.marks_layer_calls = true;
    const bool has_uses = mode == PLIMSOLL_LIBTORCH_FULL;
    options.meta.emplace_back("uses",
                              libtorch::uses_text(has_uses ? uses : PLIMSOLL_LIBTORCH_USES_NEVER));
    return options;
  }

  Result<TracerResults> read_results() {
    if (!path_.empty()) return TracerResults::read(path_, device_);
    if (recording_->is_running()) return TracerResults::read_memory(recording_->copy(), device_);
    return TracerResults::read_memory(trace_, device_);
  }

  // After the optimizer's step.
  struct StepEnd {
    explicit StepEnd(MemoryTracer& of) : tracer(of) {}
    StepEnd(const StepEnd&) = delete;
    StepEnd& operator=(const StepEnd&) = delete;
    ~StepEnd() {
      tracer.attempt([this] {
        tracer.note_cuda(plimsoll_libtorch_renew());
        std::string error = libtorch::OptimizerStep::take_error();
        if (tracer.error_.empty()) tracer.error_ = std::move(error);
      });
    }
    MemoryTracer& tracer;
  };

  // States in error() why CUDA devices are not recorded, if the program uses CUDA.
  void note_cuda(const char* problem) {
    if (problem == nullptr || !uses_cuda_ || !error_.empty()) return;
    error_ = std::string("CUDA memory is not recorded: ") + problem;
  }

  static libtorch::Parameter named(std::string path) {
    libtorch::Parameter known;
    known.name = detail::name_of(path);
    known.layer = detail::name_of(std::string_view(path).substr(0, path.rfind('.')));
    known.text = std::move(path);
    return known;
  }

  static void tag(const at::Tensor& tensor, plimsoll_role role, std::uint32_t name) {
    if (tensor.defined()) libtorch::tag_tensor(libtorch::thread_state(), tensor, role, name);
  }

  // An error in the tracer must not stop the training.
  template <typename Action>
  void attempt(Action action) {
    if (!is_attached_) return;
    try {
      action();
    } catch (const std::exception& problem) {
      if (error_.empty()) error_ = problem.what();
    }
  }

  std::string path_;
  std::string device_;
  Result<Recording> recording_;
  std::vector<std::byte> trace_;  // of a recording into memory that was stopped
  std::optional<TracerResults> results_;
  std::uint64_t results_bytes_ = 0;  // recorded when results_ was read
  std::string error_;
  bool is_attached_ = false;
  bool uses_cuda_ = false;  // a tensor that it was given is on a CUDA device
};

}  // namespace plimsoll

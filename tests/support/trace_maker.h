// TraceMaker: a concise way to write small traces in tests. Events go to the device last named by
// on(). Times are one microsecond apart unless at() says otherwise.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/diagnostics.h"
#include "base/progress.h"
#include "model/trace.h"
#include "model/trace_builder.h"

namespace plimsoll::tests {

struct FrameText {
  std::string_view file;
  std::uint32_t line = 0;
  std::string_view function;
};

// What a native recording reports about an allocation, apart from its size.
struct Reported {
  std::string_view layer = {};
  std::string_view category = {};
  model::Phase phase = model::Phase::kOther;
  std::string_view op = {};
  std::string_view forward_op = {};
  model::LifetimeFlags flags = model::LifetimeFlags::kNothing;
  model::TensorId tensor = {};
  model::StackId stack = model::kNoStack;
  model::Autograd autograd = model::Autograd::kUnknown;
  model::LastUse use = {};
};

class TraceMaker {
 public:
  TraceMaker& on(model::Device device) {
    device_ = device;
    builder_.name_device(device);
    return *this;
  }
  // The time of the next event; later ones follow one microsecond apart.
  TraceMaker& at(std::int64_t time_ns) {
    time_ns_ = time_ns;
    return *this;
  }
  TraceMaker& without_times() {
    has_times_ = false;
    return *this;
  }

  // Innermost frame first.
  model::StackId stack(std::initializer_list<FrameText> frames) {
    return stack_of(std::vector<FrameText>(frames));
  }
  model::StackId stack_of(const std::vector<FrameText>& frames) {
    std::vector<model::FrameId> ids;
    for (const FrameText& text : frames) {
      model::Frame frame;
      frame.file = builder_.strings().intern(text.file);
      frame.function = builder_.strings().intern(text.function);
      frame.line = text.line;
      ids.push_back(builder_.stacks().intern_frame(frame));
    }
    return builder_.stacks().intern_stack(ids);
  }
  model::StringId string(std::string_view text) { return builder_.strings().intern(text); }

  TraceMaker& event(model::Event event) {
    if (has_times_) event.time_ns = time_ns_;
    time_ns_ += 1'000;
    if (event.action == model::Action::kAlloc) {
      builder_.add_alloc(device_, event, std::exchange(hindsight_, {}));
    } else {
      builder_.add_event(device_, event);
    }
    return *this;
  }
  TraceMaker& event(model::Action action, std::uint64_t address, std::uint64_t size_bytes,
                    model::StackId stack = model::kNoStack) {
    model::Event row;
    row.action = action;
    row.address = address;
    row.size_bytes = size_bytes;
    row.stack = stack;
    return event(row);
  }
  TraceMaker& alloc(std::uint64_t address, std::uint64_t size_bytes,
                    model::StackId stack = model::kNoStack) {
    return event(model::Action::kAlloc, address, size_bytes, stack);
  }
  TraceMaker& alloc_reported(std::uint64_t address, std::uint64_t size_bytes,
                             const Reported& reported) {
    model::Event row;
    row.action = model::Action::kAlloc;
    row.address = address;
    row.size_bytes = size_bytes;
    row.layer = string(reported.layer);
    row.phase = reported.phase;
    row.autograd = reported.autograd;
    row.op = string(reported.op);
    row.forward_op = string(reported.forward_op);
    hindsight_ = {string(reported.category), reported.tensor, reported.flags, reported.use};
    if (reported.use.is_known()) builder_.uses_known();
    row.stack = reported.stack;
    return event(row);
  }
  model::TensorId tensor(std::string_view name, std::string_view dtype = "float32",
                         std::string_view shape = {}) {
    return builder_.add_tensor(model::Tensor{string(name), string(dtype), string(shape)});
  }
  TraceMaker& source_line(std::string_view file, std::uint32_t line, std::string text,
                          std::uint64_t hash = 0) {
    builder_.source().add(model::SourceLine{string(file), line, hash, std::move(text)});
    return *this;
  }
  TraceMaker& function_start(std::string_view file, std::string_view function, std::uint32_t line) {
    builder_.source().add(model::FunctionStart{string(file), string(function), line});
    return *this;
  }
  TraceMaker& module(std::string_view path, std::string_view type, std::uint64_t bytes) {
    builder_.add_module({string(path), string(type), bytes});
    return *this;
  }
  // Marks are placed between the last event and the next one.
  TraceMaker& step(std::uint64_t number) { return mark(model::MarkKind::kStep, number, {}); }
  TraceMaker& begin_region(std::string_view name) {
    return mark(model::MarkKind::kRegionBegin, 0, name);
  }
  TraceMaker& end_region(std::string_view name) {
    return mark(model::MarkKind::kRegionEnd, 0, name);
  }
  TraceMaker& begin_backward() { return mark(model::MarkKind::kBackwardBegin, 0, {}); }
  TraceMaker& begin_uses() {
    builder_.uses_known();
    return mark(model::MarkKind::kUsesBegin, 0, {});
  }
  TraceMaker& end_uses() { return mark(model::MarkKind::kUsesEnd, 0, {}); }
  TraceMaker& end_backward() { return mark(model::MarkKind::kBackwardEnd, 0, {}); }

  // Begins a run of Python's garbage collector. Memory that it frees has the flag kCollected.
  TraceMaker& begin_collection(bool is_full) {
    builder_.collections_known();
    builder_.add_mark({model::MarkKind::kCollectionBegin, time_ns_, 0, {}, is_full});
    return *this;
  }
  TraceMaker& end_collection() { return mark(model::MarkKind::kCollectionEnd, 0, {}); }

  TraceMaker& enter_layer(std::string_view path) {
    builder_.layer_calls_known();
    return mark(model::MarkKind::kLayerBegin, 0, path);
  }
  TraceMaker& exit_layer(std::string_view path) {
    return mark(model::MarkKind::kLayerEnd, 0, path);
  }

  // Adds two events: requested and completed.
  TraceMaker& free(std::uint64_t address, std::uint64_t size_bytes,
                   model::StackId stack = model::kNoStack) {
    event(model::Action::kFreeRequested, address, size_bytes, stack);
    return event(model::Action::kFreeCompleted, address, size_bytes, stack);
  }

  // Adds one event, as the native recorder writes it for the CPU.
  TraceMaker& free_immediately(std::uint64_t address, std::uint64_t size_bytes) {
    return event(model::Action::kFree, address, size_bytes);
  }

  TraceMaker& segment(std::uint64_t address, std::uint64_t total_size,
                      const std::vector<model::Block>& blocks, model::PoolId pool = {}) {
    model::Segment row;
    row.device = device_;
    row.address = address;
    row.total_size = total_size;
    row.pool = pool;
    builder_.add_segment(row, blocks);
    return *this;
  }
  static model::Block block(std::uint64_t address, std::uint64_t size, std::uint64_t requested_size,
                            model::BlockState state = model::BlockState::kActiveAllocated,
                            model::StackId stack = model::kNoStack) {
    model::Block row;
    row.address = address;
    row.size = size;
    row.requested_size = requested_size;
    row.state = state;
    row.stack = stack;
    return row;
  }
  TraceMaker& annotation(std::string_view name, std::int64_t begin_ns, std::int64_t end_ns) {
    builder_.add_annotation(model::Annotation{string(name), device_, begin_ns, end_ns});
    return *this;
  }

  model::TraceBuilder& builder() { return builder_; }
  const base::Diagnostics& diagnostics() const { return diagnostics_; }
  std::int64_t time_ns() const { return time_ns_; }  // of the next event

  model::Trace finish() {
    base::Progress progress;
    auto trace = builder_.finish("made_by_hand", progress);
    EXPECT_TRUE(trace.ok()) << (trace.ok() ? "" : trace.error().message);
    return trace.ok() ? std::move(trace).value() : model::Trace{};
  }

 private:
  TraceMaker& mark(model::MarkKind kind, std::uint64_t step, std::string_view name) {
    builder_.add_mark(model::Mark{kind, time_ns_, step, string(name)});
    return *this;
  }

  base::Diagnostics diagnostics_;
  model::TraceBuilder builder_{diagnostics_};
  model::Device device_{model::DeviceType::kCuda, 0};
  model::Hindsight hindsight_;  // of the next alloc
  std::int64_t time_ns_ = 1'000'000;
  bool has_times_ = true;
};

}  // namespace plimsoll::tests

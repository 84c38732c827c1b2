// Random traces for property tests. The same seed gives the same trace on every machine. Recording
// begins late, frees may be missing, and the final segments agree with the events by default.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "model/trace.h"
#include "tests/support/trace_maker.h"

namespace plimsoll::tests {

struct RandomTraceOptions {
  std::uint32_t seed = 0;
  std::size_t events = 200;
  std::size_t lines = 5;
  enum class FinalState : std::uint8_t {
    kNone,
    kConsistent,
    kUnrelated
  } final_state = FinalState::kConsistent;
  // The data that the native recorder has: layers, categories, phases, tensors, flags and marks.
  enum class Reporting : std::uint8_t {
    kStacksOnly,
    kEverything
  } reporting = Reporting::kStacksOnly;
};

class RandomTrace {
 public:
  explicit RandomTrace(RandomTraceOptions options) : options_(options), random_(options.seed) {}

  model::Trace make() {
    for (std::size_t line = 0; line < options_.lines; ++line) {
      stacks_.push_back(maker_.stack({{"at::_ops::add::call", 0, "at::_ops::add::call"},
                                      {"/home/u/train.py", below(100) + 1, "f"}}));
    }
    for (std::uint64_t i = below(5); i > 0; --i) live_[next_address()] = {below(4096), stacks_[0]};
    while (maker_.builder().event_count() < options_.events) add_something();
    add_final_state();
    return maker_.finish();
  }

 private:
  struct Live {
    std::uint64_t size_bytes;
    model::StackId stack;
    bool is_pending = false;
  };

  // std::uniform_int_distribution is not used, because its results differ between libraries.
  std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(random_() % limit); }
  std::uint64_t next_address() { return last_address_ += 1 << 20; }

  void add_something() {
    if (options_.reporting == RandomTraceOptions::Reporting::kEverything && below(10) == 0) {
      add_mark();
    }
    const std::uint32_t what = below(100);
    if (what < 45) {
      const Live born{below(1 << 16), stacks_[below(static_cast<std::uint32_t>(stacks_.size()))]};
      const std::uint64_t address = next_address();
      live_[address] = born;
      if (options_.reporting == RandomTraceOptions::Reporting::kStacksOnly) {
        maker_.alloc(address, born.size_bytes, born.stack);
      } else {
        maker_.alloc_reported(address, born.size_bytes, something_reported(born.stack));
      }
    } else if (what < 90) {
      free_one();
    } else if (what < 94) {
      maker_.event(model::Action::kSegmentAlloc, below(1000), 1 << below(22));
    } else if (what < 98) {
      maker_.event(model::Action::kSegmentFree, below(1000), 1 << below(22));
    } else {
      maker_.event(what == 98 ? model::Action::kOom : model::Action::kUnknown, 7, 1 << 20);
    }
  }

  Reported something_reported(model::StackId stack) {
    static constexpr std::array<std::string_view, 7> kLayers = {
        "", "Net", "Net.down", "Net.down.0.conv", "Net.down.0", "Net.up.1", "Loss"};
    static constexpr std::array<std::string_view, 10> kCategories = {
        "",       "unknown",    "parameter",           "gradient",  "optimizer_state",
        "buffer", "activation", "activation_gradient", "temporary", "other"};
    static constexpr std::array<std::string_view, 3> kOps = {"", "aten::mm", "aten::conv2d"};
    static constexpr std::array<std::string_view, 4> kTensors = {
        "", "Net.down.weight", "Net.up.1.bias", "Net.down.weight.exp_avg"};
    Reported reported;
    reported.layer = kLayers[below(kLayers.size())];
    reported.category = kCategories[below(kCategories.size())];
    reported.op = kOps[below(kOps.size())];
    reported.phase = static_cast<model::Phase>(below(5));
    reported.flags = {static_cast<std::uint8_t>(below(8))};
    reported.stack = below(4) == 0 ? model::kNoStack : stack;
    if (below(2) == 0) {
      reported.tensor = maker_.tensor(kTensors[below(kTensors.size())],
                                      below(2) == 0 ? "float32" : "bfloat16", "[3]");
    }
    return reported;
  }
  void add_mark() {
    switch (below(6)) {
      case 0:
      case 1:
        maker_.step(++step_);
        break;
      case 2:
        maker_.begin_region(below(2) == 0 ? "outer" : "inner");
        break;
      case 3:
        maker_.end_region(below(2) == 0 ? "outer" : "inner");
        break;
      default:
        maker_.begin_backward();
    }
  }

  void free_one() {
    if (live_.empty()) return;
    auto chosen = live_.begin();
    std::advance(chosen, below(static_cast<std::uint32_t>(live_.size())));
    const Live live = chosen->second;
    if (!live.is_pending) {
      maker_.event(model::Action::kFreeRequested, chosen->first, live.size_bytes, live.stack);
      chosen->second.is_pending = true;
      if (below(4) == 0) return;
    }
    maker_.event(model::Action::kFreeCompleted, chosen->first, live.size_bytes, live.stack);
    live_.erase(chosen);
  }

  void add_final_state() {
    using FinalState = RandomTraceOptions::FinalState;
    if (options_.final_state == FinalState::kNone) return;
    std::vector<model::Block> blocks;
    for (const auto& [address, live] : live_) {
      if (options_.final_state == FinalState::kUnrelated && below(2) == 0) continue;
      const auto state = live.is_pending ? model::BlockState::kActivePendingFree
                                         : model::BlockState::kActiveAllocated;
      blocks.push_back(TraceMaker::block(address, (live.size_bytes + 511) / 512 * 512,
                                         live.size_bytes, state, live.stack));
      if (below(3) == 0) {
        blocks.push_back(
            TraceMaker::block(address + (1 << 19), 512, 99, model::BlockState::kInactive));
      }
    }
    maker_.segment(0, 1 << 30, blocks);
  }

  RandomTraceOptions options_;
  std::mt19937 random_;
  TraceMaker maker_;
  std::vector<model::StackId> stacks_;
  std::map<std::uint64_t, Live> live_;
  std::uint64_t last_address_ = 0;
  std::uint64_t step_ = 0;
};

inline model::Trace random_trace(RandomTraceOptions options) { return RandomTrace(options).make(); }

}  // namespace plimsoll::tests

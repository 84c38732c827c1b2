#include "analysis/oom/need.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "analysis/oom/changes.h"
#include "tests/support/trace_maker.h"
#include "tests/support/units.h"

namespace plimsoll::analysis::oom {
namespace {

using model::Action;
using model::Phase;
using tests::kMib;
using tests::Reported;
using tests::TraceMaker;

constexpr std::uint64_t kLayers = 4;
// The number of requests after which a step fails; kNowhere: it finishes.
constexpr std::uint64_t kNowhere = 1'000;

// A training loop of four layers. A step of n samples makes an input of n MiB and, for each layer,
// an activation of n MiB and scores of n × n MiB. Its backward makes, for each layer, a gradient of
// the activation, which replaces it, and a gradient of the parameters of 3 MiB, which the next step
// frees after its forward.
class Loop {
 public:
  Loop() {
    for (std::uint64_t layer = 0; layer < kLayers; ++layer) {
      take(3, {.category = "parameter", .phase = Phase::kOther, .op = "aten::to"});
    }
    maker.step(0);
  }

  // Returns the peak of live bytes, in MiB.
  std::uint64_t step(std::uint64_t n, std::uint64_t fails_at = kNowhere, bool has_workspace = false,
                     const char* line = "train") {
    fails_at_ = fails_at;
    peak_ = live_;
    call_ = maker.stack({{"/home/u/model.py", 3, "forward"}, {"/home/u/train.py", 9, line}});
    std::vector<std::uint64_t> kept, gradients;
    const std::uint64_t input =
        take(n, {.category = "input", .op = "aten::randn", .tensor = shape(n)});
    for (std::uint64_t layer = 0; layer < kLayers; ++layer) {
      const std::string path = "net.layers." + std::to_string(layer);
      kept.push_back(take(n, forward(path, "aten::linear")));
      kept.push_back(take(n * n, forward(path, "aten::matmul")));
    }
    for (const std::uint64_t gradient : gradients_) give(gradient);
    gradients_.clear();
    maker.begin_backward();
    for (std::uint64_t layer = kLayers; layer-- > 0;) {
      const std::string path = "net.layers." + std::to_string(layer);
      for (const std::uint64_t bytes : {n * n, n}) {
        const std::uint64_t gradient = take(bytes, backward(path, "activation_gradient"));
        if (gradient != 0) give(gradient);
        if (!kept.empty()) give(kept.back()), kept.pop_back();
      }
      if (has_workspace && layer == kLayers - 1) take(32, backward(path, "activation_gradient"));
      gradients_.push_back(take(3, backward(path, "gradient")));
    }
    maker.end_backward();
    give(input);
    if (fails_at == kNowhere) maker.step(++steps_);
    return peak_;
  }

  Need need() {
    const model::Trace trace = maker.finish();
    const model::UserLines lines(trace);
    const History history(trace, trace.devices[0], lines);
    return estimate_need(history, failure());
  }
  Failure failure() const { return {failed_event_, failed_bytes_}; }

  TraceMaker maker;

 private:
  model::TensorId shape(std::uint64_t n) {
    return maker.tensor("x", "float32", "[" + std::to_string(n) + ", 262144]");
  }
  Reported forward(const std::string& path, const char* op) {
    return {.layer = path,
            .category = "activation",
            .phase = Phase::kForward,
            .op = op,
            .stack = call_};
  }
  Reported backward(const std::string& path, const char* category) {
    return {.layer = path,
            .category = category,
            .phase = Phase::kBackward,
            .op = category == std::string("gradient") ? "MmBackward0" : "MulBackward0",
            .stack = call_};
  }

  // Returns the address, or 0 once the step has failed.
  std::uint64_t take(std::uint64_t mib, const Reported& reported) {
    if (fails_at_ == 0) {
      fails_at_ = kNowhere + 1;
      failed_event_ = events_;
      failed_bytes_ = mib * kMib;
      model::Event event;
      event.action = Action::kOom;
      event.size_bytes = mib * kMib;
      event.layer = maker.string(reported.layer);
      event.op = maker.string(reported.op);
      event.phase = reported.phase;
      event.stack = reported.stack;
      maker.event(event);
      ++events_;
    }
    if (fails_at_ == kNowhere + 1) return 0;
    if (fails_at_ < kNowhere) --fails_at_;
    const std::uint64_t address = next_ += 1 << 20;
    maker.alloc_reported(address, mib * kMib, reported);
    ++events_;
    sizes_[address] = mib;
    live_ += mib;
    peak_ = std::max(peak_, live_);
    return address;
  }

  void give(std::uint64_t address) {
    if (address == 0 || fails_at_ == kNowhere + 1) return;
    maker.free_immediately(address, sizes_[address] * kMib);
    ++events_;
    live_ -= sizes_[address];
  }

  std::map<std::uint64_t, std::uint64_t> sizes_;
  std::vector<std::uint64_t> gradients_;
  model::StackId call_;
  std::uint64_t next_ = 1 << 20, live_ = 0, peak_ = 0, steps_ = 0, fails_at_ = kNowhere;
  std::uint64_t failed_bytes_ = 0;
  std::uint32_t events_ = 0, failed_event_ = 0;
};

std::uint64_t peak_of_loop(std::initializer_list<std::uint64_t> batches) {
  Loop loop;
  std::uint64_t peak = 0;
  for (const std::uint64_t n : batches) peak = loop.step(n);
  return peak;
}

TEST(Need, is_the_peak_of_the_step_wherever_it_fails) {
  const std::uint64_t peak = peak_of_loop({2, 3, 8});
  for (const std::uint64_t fails_at : {1u, 2u, 5u, 8u, 9u, 12u, 18u}) {
    Loop loop;
    loop.step(2), loop.step(3), loop.step(8, fails_at);
    const Need need = loop.need();
    EXPECT_EQ(need.basis, "earlier_step") << fails_at;
    EXPECT_NEAR(static_cast<double>(need.bytes) / kMib, static_cast<double>(peak),
                0.02 * static_cast<double>(peak))
        << "fails at " << fails_at;
  }
}

TEST(Need, learns_from_two_steps_what_grows_with_the_square) {
  Loop loop;
  loop.step(2), loop.step(4), loop.step(8, 1);  // at the first linear layer, before any scores
  EXPECT_EQ(loop.need().bytes / kMib, peak_of_loop({2, 4, 8}));
}

TEST(Need, a_workspace_of_an_earlier_step_is_not_made_again) {
  Loop loop;
  loop.step(2, kNowhere, true), loop.step(8, 5);
  // The first step freed no older gradients, so the estimate counts both the old and the new ones.
  EXPECT_EQ(loop.need().bytes / kMib, peak_of_loop({2, 8}) + 32 + kLayers * 3);
}

TEST(Need, is_unknown_without_an_earlier_step) {
  Loop loop;
  loop.step(8, 5);
  const Need need = loop.need();
  EXPECT_EQ(need.basis, "unknown");
  EXPECT_FALSE(need.is_known());
  EXPECT_FALSE(need.why_unknown.empty());
}

TEST(Need, of_a_new_caller_is_that_of_its_forward) {
  Loop loop;
  loop.step(2), loop.step(4), loop.step(8, 5, false, "validate");
  const Need need = loop.need();
  EXPECT_EQ(need.basis, "earlier_forward");
  EXPECT_EQ(need.new_caller, "/home/u/train.py:9 (validate)");
  EXPECT_EQ(need.bytes / kMib, 12u + 12u + 8u + kLayers * (8u + 64u));
}

TEST(Need, the_largest_batch_that_fits_is_solved_for) {
  Need need;
  need.points = {{10, 30}, {20, 80}};
  EXPECT_DOUBLE_EQ(largest_share(need, 100), 1.0);
  EXPECT_DOUBLE_EQ(largest_share(need, 60), 0.5);
  EXPECT_DOUBLE_EQ(largest_share(need, 20), 0.0);
}

TEST(Need, changes_state_what_would_have_been_enough) {
  Loop loop;
  loop.step(2), loop.step(4), loop.step(8, 5);
  const model::Trace trace = loop.maker.finish();
  const model::UserLines lines(trace);
  const History history(trace, trace.devices[0], lines);
  const Need need = estimate_need(history, loop.failure());
  const auto changes = changes_for(history, need, 220 * kMib, 8);
  ASSERT_EQ(changes.size(), 3u);
  EXPECT_EQ(changes[0].change, "contiguous_memory");
  EXPECT_FALSE(changes[0].is_enough);
  EXPECT_EQ(changes[1].change, "smaller_batch");
  EXPECT_TRUE(changes[1].is_enough);
  EXPECT_LT(*changes[1].batch_size, 8u);
  EXPECT_LE(*changes[1].needed_bytes, 209 * kMib);
  EXPECT_EQ(changes[2].change, "checkpoint");
  EXPECT_EQ(changes[2].layers, "net.layers.0…3");
  EXPECT_TRUE(changes_for(history, need, 10'000 * kMib, 8)[0].is_enough);
}

// Adam, over eight parameters of 16 MiB with gradients.
class FirstStep {
 public:
  explicit FirstStep(const char* file, std::uint64_t made) {
    for (std::uint64_t i = 0; i < 8; ++i) take("parameter", {}, 16);
    for (std::uint64_t i = 0; i < 8; ++i) take("gradient", {}, 16);
    const auto first = maker.stack({{file, 178, "Adam._init_group"}, {"/u/t.py", 3, "main"}});
    const auto second = maker.stack({{file, 182, "Adam._init_group"}, {"/u/t.py", 3, "main"}});
    for (std::uint64_t i = 0; i < made; ++i) {
      take("optimizer_state", i % 2 == 0 ? first : second, 16);
    }
    model::Event event;
    event.action = Action::kOom;
    event.size_bytes = 16 * kMib;
    event.stack = made % 2 == 0 ? first : second;
    maker.event(event);
  }
  Need need() {
    const model::Trace trace = maker.finish();
    const model::UserLines lines(trace);
    const History history(trace, trace.devices[0], lines);
    return estimate_need(history, {next_, 16 * kMib});
  }
  TraceMaker maker;

 private:
  void take(const char* category, model::StackId stack, std::uint64_t mib) {
    maker.alloc_reported(std::uint64_t{++next_ + 1} << 30, mib * kMib,
                         {.category = category, .phase = Phase::kOptimizer, .stack = stack});
  }
  std::uint32_t next_ = 0;
};

TEST(Need, of_the_first_step_is_the_state_of_all_parameters) {
  constexpr const char* kAdam = "/home/u/venv/site-packages/torch/optim/adam.py";
  for (const std::uint64_t made : {0u, 1u, 5u, 15u}) {
    const Need need = FirstStep(kAdam, made).need();
    EXPECT_EQ(need.basis, "optimizer_state");
    EXPECT_EQ(need.state_bytes, (16 - made) * 16 * kMib) << made;
    EXPECT_EQ(need.scratch_bytes, 128 * kMib);
    EXPECT_EQ(need.bytes, kMib * 16 * (16 + 16 + 8));
  }
}

TEST(Need, of_an_unknown_optimizer_is_unknown) {
  const Need need = FirstStep("/home/u/my_optimizer.py", 5).need();
  EXPECT_EQ(need.basis, "unknown");
}

}  // namespace
}  // namespace plimsoll::analysis::oom

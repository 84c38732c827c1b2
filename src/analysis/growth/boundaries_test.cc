#include "analysis/growth/boundaries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/trace_maker.h"

namespace plimsoll::analysis::growth {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using tests::TraceMaker;

// Events every 10 µs from 0 on; steps end after the given times.
model::Trace with_steps(const std::string& name, std::initializer_list<std::int64_t> ends_us,
                        int events = 10) {
  TraceMaker maker;
  for (std::int64_t i = 0; i < events; ++i)
    maker.at(i * 10'000).alloc(static_cast<std::uint64_t>(i) + 1, 1);
  int number = 0;
  for (const std::int64_t end_us : ends_us) {
    const bool is_numbered = name == "ProfilerStep#";
    maker.annotation(is_numbered ? name + std::to_string(number++) : name, 0, end_us * 1'000);
  }
  return maker.finish();
}

TEST(Boundaries, steps_end_before_the_first_later_event) {
  const auto trace = with_steps("Optimizer.step#AdamW.step", {15, 20, 45, 50, 60, 70});
  const auto found = find_boundaries(trace, trace.devices[0]);
  EXPECT_EQ(found.name, "Optimizer.step#AdamW.step");
  EXPECT_THAT(found.events, ElementsAre(2, 3, 5, 6, 7, 8));
  EXPECT_EQ(found.steps_each, 1u);
}

TEST(Boundaries, a_step_that_ends_after_the_last_event_ends_the_recording) {
  const auto trace = with_steps("Optimizer.step#SGD.step", {15, 25, 35, 45, 55, 1000, 2000});
  EXPECT_THAT(find_boundaries(trace, trace.devices[0]).events, ElementsAre(2, 3, 4, 5, 6, 10));
}

TEST(Boundaries, steps_lost_before_the_first_event_do_not_count) {
  const auto trace = with_steps("Optimizer.step#SGD.step", {-30, -20, -10, 25, 35});
  const auto found = find_boundaries(trace, trace.devices[0]);
  EXPECT_THAT(found.events, IsEmpty());
  EXPECT_THAT(found.why_none, HasSubstr("has 2 steps: record at least 6"));
}

TEST(Boundaries, numbered_profiler_steps_are_one_kind) {
  const auto trace = with_steps("ProfilerStep#", {15, 25, 35, 45, 55, 65});
  const auto found = find_boundaries(trace, trace.devices[0]);
  EXPECT_EQ(found.name, "ProfilerStep");
  EXPECT_EQ(found.events.size(), 6u);
}

TEST(Boundaries, every_nth_of_many_steps_is_kept_including_the_last) {
  TraceMaker maker;
  for (int i = 0; i < 1003; ++i) {
    maker.alloc(static_cast<std::uint64_t>(i) + 1, 1);
    maker.annotation("Optimizer.step#SGD.step", 0, maker.time_ns() - 1);
  }
  const auto trace = maker.finish();
  const auto found = find_boundaries(trace, trace.devices[0]);
  EXPECT_EQ(found.steps_each, 8u);
  EXPECT_EQ(found.steps, 1003u);
  ASSERT_EQ(found.events.size(), 126u);
  EXPECT_EQ(found.events.front(), 3u);
  EXPECT_EQ(found.events.back(), 1003u);
}

TEST(Boundaries, unmarked_steps_are_the_valleys_of_the_total) {
  TraceMaker maker;
  for (std::uint64_t step = 0; step < 10; ++step) {
    for (std::uint64_t layer = 1; layer <= 5; ++layer) maker.alloc(layer, 1000);
    for (std::uint64_t layer = 1; layer <= 5; ++layer) maker.free(layer, 1000);
    maker.alloc(100 + step, 10);
  }
  const auto trace = maker.finish();
  const auto found = find_boundaries(trace, trace.devices[0]);
  EXPECT_EQ(found.name, "cycle");
  ASSERT_GE(found.events.size(), 8u);
  EXPECT_EQ((found.events[3] - found.events[2]) % 16, 0u);
}

// Each step allocates for a forward, and in the optimizer at `lines` of the program.
model::Trace with_optimizers(int steps, std::initializer_list<std::uint32_t> lines) {
  TraceMaker maker;
  const auto forward = maker.stack({{"/u/net.py", 12, "forward"}, {"/u/train.py", 5, "main"}});
  for (int step = 0; step < steps; ++step) {
    for (const std::uint32_t line : lines) {
      const auto stack =
          maker.stack({{"/x/site-packages/torch/optim/adamw.py", 300, "_multi_tensor_adamw"},
                       {"/x/site-packages/torch/optim/optimizer.py", 80, "_use_grad"},
                       {"/x/site-packages/torch/optim/optimizer.py", 490, "wrapper"},
                       {"/u/train.py", line, "main"}});
      maker.alloc(1, 100, forward).free(1, 100);
      maker.alloc(2, 50, stack).alloc(3, 50, stack).free(2, 50).free(3, 50);
      // one of two optimizers steps half as often
      if (step % 2 == 1) break;
    }
  }
  return maker.finish();
}

TEST(Boundaries, unmarked_steps_are_optimizer_steps_seen_in_the_stacks) {
  const auto trace = with_optimizers(6, {7});
  const auto found = find_boundaries(trace, trace.devices[0]);
  EXPECT_EQ(found.name, "optimizer step, by its stacks");
  EXPECT_THAT(found.events, ElementsAre(5, 14, 23, 32, 41, 50));
  const auto two = with_optimizers(7, {7, 8});
  EXPECT_EQ(find_boundaries(two, two.devices[0]).steps, 7u) << "those of the one at line 7";
}

// Each of 24 clients has its own optimizer, which steps three times. Only some of these steps are
// marked.
TEST(Boundaries, irregular_marks_that_cover_few_optimizer_steps_are_replaced) {
  for (const bool are_regular : {false, true}) {
    TraceMaker maker;
    const auto stack =
        maker.stack({{"/x/site-packages/torch/optim/adam.py", 300, "_single_tensor_adam"},
                     {"/x/site-packages/torch/optim/optimizer.py", 490, "wrapper"},
                     {"/u/federated.py", 20, "Client.train"}});
    std::uint64_t marks = 0;
    for (int step = 1; step <= 72; ++step) {
      maker.alloc(1, 100).free(1, 100).alloc(2, 50, stack).free(2, 50);
      const bool is_marked = are_regular ? step % 10 == 0 : step <= 3 || step % 24 == 0;
      if (is_marked) maker.step(++marks);
    }
    const auto trace = maker.finish();
    const auto found = find_boundaries(trace, trace.devices[0]);
    EXPECT_EQ(found.name, are_regular ? "step" : "optimizer step, by its stacks");
    EXPECT_EQ(found.steps, are_regular ? 7u : 72u);
  }
}

TEST(Boundaries, an_irregular_optimizer_shows_no_steps) {
  TraceMaker maker;
  const auto stack =
      maker.stack({{"/x/site-packages/torch/optim/adamw.py", 300, "_multi_tensor_adamw"},
                   {"/x/site-packages/torch/optim/optimizer.py", 490, "wrapper"},
                   {"/u/train.py", 9, "main"}});
  for (const int others : {1, 30, 2, 90, 1, 40, 200, 3, 1, 60}) {
    for (int i = 0; i < others; ++i) maker.alloc(1, 100);
    maker.alloc(2, 50, stack);
  }
  const auto trace = maker.finish();
  EXPECT_THAT(find_boundaries(trace, trace.devices[0]).events, IsEmpty());
}

TEST(Boundaries, a_few_optimizer_steps_are_not_enough) {
  const auto trace = with_optimizers(3, {7});
  const auto found = find_boundaries(trace, trace.devices[0]);
  EXPECT_THAT(found.events, IsEmpty());
  EXPECT_THAT(found.why_none, HasSubstr("has 3 steps: record at least 6"));
}

TEST(Boundaries, a_forward_that_keeps_every_activation_has_no_steps) {
  TraceMaker maker;
  for (std::uint64_t layer = 0; layer < 40; ++layer) {
    maker.alloc(layer + 1, 1000).alloc(1000, 800).free(1000, 800);
  }
  const auto trace = maker.finish();
  const auto found = find_boundaries(trace, trace.devices[0]);
  EXPECT_THAT(found.events, IsEmpty());
  EXPECT_THAT(found.why_none, HasSubstr("no steps are marked"));
}

TEST(Boundaries, a_device_without_events_has_no_steps) {
  TraceMaker maker;
  maker.on({model::DeviceType::kCuda, 0});
  const auto trace = maker.finish();
  EXPECT_THAT(find_boundaries(trace, trace.devices[0]).why_none, HasSubstr("needs events"));
}

// A device whose stacks show the optimizer's steps, and pinned host memory that grows by one
// allocation per step.
model::Trace with_pinned_memory(int steps) {
  TraceMaker maker;
  const model::StackId step = maker.stack({{"/x/torch/optim/adam.py", 9, "step"},
                                           {"/x/torch/optim/optimizer.py", 5, "wrapper"},
                                           {"/home/u/train.py", 7, "main"}});
  for (int i = 0; i < steps; ++i) {
    const auto address = static_cast<std::uint64_t>(i) * 16 + 1;
    maker.on(model::Device{});
    maker.alloc(address, 512).alloc(address + 1, 512, step).free(address + 1, 512);
    maker.free(address, 512);
    maker.on(model::Device{model::DeviceType::kPinnedHost, -2});
    maker.alloc(address + 2, 1 << 20);
  }
  return maker.finish();
}

TEST(Boundaries, a_device_without_a_rhythm_borrows_the_steps_of_another_by_time) {
  const auto trace = with_pinned_memory(8);
  const model::DeviceTrace& pinned = trace.devices.back();
  ASSERT_EQ(pinned.device.type, model::DeviceType::kPinnedHost);
  const auto found = find_boundaries(trace, pinned);
  EXPECT_EQ(found.name, "optimizer step, by its stacks");
  // The first step ends before the first event, so it cannot be compared with anything.
  EXPECT_THAT(found.events, ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(found.steps, 7u);
}

// A model on a GPU runs once for each pass; between its layers, the host computes what it needs.
model::Trace with_forwards(std::uint64_t passes) {
  TraceMaker maker;
  std::uint64_t address = 1;
  for (std::uint64_t pass = 0; pass < passes; ++pass) {
    for (int layer = 0; layer < 12; ++layer) {
      const std::uint64_t host = ++address;
      maker.on({model::DeviceType::kCpu, -1}).alloc(host, 1 << 20).free(host, 1 << 20);
      maker.on({model::DeviceType::kCuda, 0});
      maker.alloc_reported(
          ++address, 512,
          {.layer = "Net." + std::to_string(layer), .phase = model::Phase::kForward});
    }
    maker.alloc_reported(++address, 512, {.phase = model::Phase::kOther});
  }
  return maker.finish();
}

TEST(Boundaries, a_forward_is_one_step_whatever_another_device_does) {
  const auto once = with_forwards(1);
  ASSERT_EQ(to_string(once.devices[0].device), "cuda:0");
  EXPECT_EQ(find_boundaries(once, once.devices[1]).name, "cycle");
  const auto found = find_boundaries(once, once.devices[0]);
  EXPECT_THAT(found.events, IsEmpty());
  EXPECT_THAT(found.why_none, HasSubstr("no steps"));
}

TEST(Boundaries, a_device_states_why_it_cannot_be_judged) {
  const auto trace = with_pinned_memory(3);
  EXPECT_THAT(find_boundaries(trace, trace.devices.back()).why_none, HasSubstr("no steps"));
}

}  // namespace
}  // namespace plimsoll::analysis::growth

// Tensors that reference cycles retain until Python's garbage collector runs.
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/own_case.h"
#include "tests/support/steps_text.h"

namespace plimsoll::findings {
namespace {

using model::LifetimeFlags;
using model::Phase;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

struct Program {
  bool has_collector = true;        // else each step that frees does so directly
  bool is_used_at_step_8 = false;   // a full collection then frees nothing
  std::uint64_t steps_between = 1;  // two allocations
  std::vector<tests::FrameText> frames = {{"train.py", 9, "step"}};
};

// A model of 8 MiB, and 24 steps that retain 4 MiB each. Steps 10 and 20 free what earlier ones
// retain; step 10 also frees the model.
Case retained(const Program& program) {
  Case c;
  const auto line = c.maker.stack_of(program.frames);
  const auto flags = program.has_collector ? LifetimeFlags::kCollected : LifetimeFlags::kNothing;
  const auto begin = [&](bool is_full) {
    if (program.has_collector) c.maker.begin_collection(is_full);
  };
  const auto end = [&] {
    if (program.has_collector) c.maker.end_collection();
  };
  c.maker.alloc_reported(1, 8 * kMib, {.category = "parameter", .flags = flags, .stack = line});
  std::vector<std::uint64_t> live;
  for (std::uint64_t step = 0; step < 24; ++step) {
    if (program.is_used_at_step_8 && step == 8) {
      begin(true);
      end();
    }
    if (step > 0 && step % 10 == 0) {
      begin(false);
      if (step == 10) c.maker.free(1, 8 * kMib);
      for (const std::uint64_t address : live) c.maker.free(address, 4 * kMib);
      live.clear();
      end();
    }
    if (step % program.steps_between == 0) {
      c.maker.alloc_reported(100 + step, 4 * kMib,
                             {.category = "activation",
                              .phase = Phase::kForward,
                              .flags = step < 20 ? flags : LifetimeFlags::kNothing,
                              .stack = line});
      live.push_back(100 + step);
    }
    c.maker.step(step + 1);
  }
  c.peak_at_event = 9 / program.steps_between + 1;  // the last allocation before step 10
  c.peak_phase = "forward";
  return c;
}

TEST(ExplainGarbage, what_the_collector_frees_after_its_step_is_garbage) {
  const auto found = retained({}).run(explain_garbage);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].id, "garbage_in_cycles");
  EXPECT_EQ(found[0].title,
            "Garbage in reference cycles is 75.0% of the peak on cuda:0: 36.0 MiB of 48.0 MiB");
  EXPECT_EQ(found[0].evidence[0], "It is 9 tensors of 4.0 MiB, made at train.py:9 (step).");
  EXPECT_THAT(found[0].evidence[1],
              HasSubstr("2 runs of the collector freed 72.0 MiB, up to 10 "
                        "steps after it was allocated, and 12.0 MiB are still "
                        "live at the end."));
  EXPECT_EQ(found[0].saving_bytes(), 36 * kMib);
  EXPECT_THAT(steps_text(found[0]), HasSubstr("gc.collect()"));
}

TEST(ExplainGarbage, what_a_full_collection_did_not_free_was_in_use) {
  Case used = retained({.is_used_at_step_8 = true});
  used.peak_at_event = 8;
  EXPECT_THAT(used.run(explain_garbage), IsEmpty());
  // Memory that was in use at the collection may become garbage later.
  EXPECT_THAT(retained({.is_used_at_step_8 = true}).run(explain_garbage), SizeIs(1));
}

TEST(ExplainGarbage, what_is_not_made_at_every_step_is_garbage_when_it_is_made_again) {
  const auto found = retained({.steps_between = 3}).run(explain_garbage);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].title, HasSubstr("12.0 MiB of 24.0 MiB"));
}

TEST(ExplainGarbage, memory_that_the_program_frees_itself_is_not_garbage) {
  EXPECT_THAT(retained({.has_collector = false}).run(explain_garbage), IsEmpty());
}

TEST(ExplainGarbage, what_is_made_after_the_last_step_and_lives_on_is_not_garbage) {
  Case c;
  c.maker.begin_collection(true).end_collection();
  for (std::uint64_t step = 0; step < 6; ++step) c.maker.step(step + 1);
  const auto line = c.maker.stack({{"train.py", 9, "evaluate"}});
  for (std::uint64_t i = 0; i < 8; ++i) {
    c.maker.alloc_reported(100 + i, 4 * kMib, {.category = "activation", .stack = line});
  }
  EXPECT_THAT(c.run(explain_garbage), IsEmpty());
}

TEST(ExplainGarbage, the_advice_fits_the_cycle) {
  const auto advice = [](std::vector<tests::FrameText> frames) {
    const auto found = retained({.frames = std::move(frames)}).run(explain_garbage);
    return found.empty() ? std::string() : found[0].next_step();
  };
  EXPECT_THAT(advice({{"train.py", 9, "inner"}, {"site/torch/utils/checkpoint.py", 5, "forward"}}),
              HasSubstr("use_reentrant=False"));
  EXPECT_THAT(advice({{"train.py", 9, "forward"}, {"site/torch/autograd/function.py", 5, "apply"}}),
              HasSubstr("autograd.Function at train.py:9 (forward) to ctx.save_for_backward()"));
  EXPECT_THAT(advice({{"train.py", 9, "step"}}), HasSubstr("weakref"));
}

}  // namespace
}  // namespace plimsoll::findings

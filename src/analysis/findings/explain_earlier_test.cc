// Tensors that outlive the step that made them although no backward uses them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/own_case.h"

namespace plimsoll::analysis::findings {
namespace {

using model::Phase;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::uint64_t kEpochs = 4;
constexpr std::uint64_t kStepsOfEpoch = 5;

// How a program keeps the 8 MiB that it makes outside training in each epoch.
enum class Kept {
  kUntilTheNextEpoch,
  kForThreeEpochs,   // a queue: each epoch frees the oldest
  kForever,          // under attributes of another module each time
  kFromTheStart,     // made once
  kInEverySize,      // a cache: each has another size
  kUntilItsBackward  // which frees it
};

// Each step allocates 20 MiB in forward, which its backward frees. The peak is in the last step but
// one.
Findings of_program(Kept kept) {
  Case c;
  const auto line = c.maker.stack({{"eval.py", 13, "evaluate"}, {"train.py", 30, "main"}});
  const auto training = c.maker.stack({{"train.py", 20, "main"}});
  std::uint64_t events = 0;  // a free is two: requested and completed
  const auto size_of = [&](std::uint64_t epoch) {
    return kept == Kept::kInEverySize ? (8 + epoch) * kMib : 8 * kMib;
  };
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const std::uint64_t oldest = kept == Kept::kForThreeEpochs ? 3 : 1;
    const bool is_freed = kept == Kept::kUntilTheNextEpoch || kept == Kept::kForThreeEpochs;
    if (is_freed && epoch >= oldest) {
      c.maker.free(100 + epoch - oldest, 8 * kMib);
      events += 2;
    }
    if (epoch == 0 || kept != Kept::kFromTheStart) {
      c.maker.alloc_reported(100 + epoch, size_of(epoch),
                             {.layer = "Net",
                              .category = "activation",
                              .phase = Phase::kForward,
                              .op = "aten::linear",
                              .stack = line});
      ++events;
    }
    for (std::uint64_t step = 0; step < kStepsOfEpoch; ++step) {
      c.maker.alloc_reported(1, 20 * kMib,
                             {.layer = "Net",
                              .category = "activation",
                              .phase = Phase::kForward,
                              .op = "aten::linear",
                              .stack = training});
      ++events;
      if (epoch == kEpochs - 1 && step == kStepsOfEpoch - 2) c.peak_at_event = events - 1;
      c.maker.begin_backward();
      if (kept == Kept::kUntilItsBackward && step == kStepsOfEpoch - 1) {
        c.maker.free(100 + epoch, 8 * kMib);
        events += 2;
      }
      c.maker.free(1, 20 * kMib).end_backward();
      events += 2;
      c.maker.step(epoch * kStepsOfEpoch + step + 1);
    }
  }
  return c.run(explain_earlier);
}

TEST(ExplainEarlier, tensors_that_stay_through_later_steps_are_named_with_their_line) {
  const auto found = of_program(Kept::kUntilTheNextEpoch);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].id, "batches_kept");
  EXPECT_THAT(found[0].title, HasSubstr("outlive their step are 28.6% of the peak"));
  EXPECT_THAT(found[0].title, HasSubstr("8.0 MiB of 28.0 MiB, made at eval.py:13 (evaluate)"));
  EXPECT_THAT(found[0].evidence[1], HasSubstr("at least 5 later backwards"));
  EXPECT_EQ(found[0].saving_bytes(), 8 * kMib);
  const auto forever = of_program(Kept::kForever);
  ASSERT_THAT(forever, SizeIs(1));
  EXPECT_EQ(forever[0].saving_bytes(), 32 * kMib);
}

TEST(ExplainEarlier, queues_caches_data_and_what_a_backward_uses_are_not) {
  for (const Kept kept :
       {Kept::kForThreeEpochs, Kept::kFromTheStart, Kept::kInEverySize, Kept::kUntilItsBackward}) {
    EXPECT_THAT(of_program(kept), IsEmpty()) << static_cast<int>(kept);
  }
}

}  // namespace
}  // namespace plimsoll::analysis::findings

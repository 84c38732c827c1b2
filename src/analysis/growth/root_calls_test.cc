#include "analysis/growth/root_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/growth/boundaries.h"
#include "tests/support/trace_maker.h"

namespace plimsoll::analysis::growth {
namespace {

using model::Phase;
using testing::ElementsAre;
using testing::IsEmpty;
using tests::Reported;
using tests::TraceMaker;

// The two layers of a model, whose outputs die with the call, and what an observer retains of them.
void call(TraceMaker& maker, std::uint64_t number, Phase phase = Phase::kForward) {
  maker.alloc_reported(1, 100, {.layer = "Net.first", .phase = phase});
  maker.alloc_reported(1000 + number, 50, {.layer = "Net.first", .phase = phase});
  maker.alloc_reported(2, 100, {.layer = "Net.second", .phase = phase});
  maker.free(1, 100).free(2, 100);
}

TEST(RootCalls, a_call_ends_where_the_next_one_begins) {
  TraceMaker maker;
  for (std::uint64_t number = 0; number < 8; ++number) {
    maker.alloc(9, 10);  // the batch
    call(maker, number);
    maker.free(9, 10);
  }
  const auto trace = maker.finish();
  const RootCalls found = find_root_calls(trace, trace.devices[0]);
  EXPECT_EQ(found.root, "Net");
  EXPECT_THAT(found.ends, ElementsAre(11, 21, 31, 41, 51, 61, 71, 74));
  EXPECT_EQ(find_boundaries(trace, trace.devices[0]).name, "call of Net");
}

TEST(RootCalls, calls_with_nothing_between_begin_with_their_first_layer) {
  TraceMaker maker;
  for (std::uint64_t number = 0; number < 8; ++number) call(maker, number);
  const auto trace = maker.finish();
  EXPECT_THAT(find_root_calls(trace, trace.devices[0]).ends,
              ElementsAre(7, 14, 21, 28, 35, 42, 49, 52));
}

TEST(RootCalls, a_few_calls_are_not_enough) {
  TraceMaker maker;
  for (std::uint64_t number = 0; number < 7; ++number) call(maker, number);
  const auto trace = maker.finish();
  EXPECT_THAT(find_root_calls(trace, trace.devices[0]).ends, IsEmpty());
}

TEST(RootCalls, a_program_that_trains_has_other_steps) {
  for (const Phase phase : {Phase::kBackward, Phase::kOptimizer}) {
    TraceMaker maker;
    for (std::uint64_t number = 0; number < 12; ++number) call(maker, number);
    maker.alloc_reported(3, 100, {.layer = "Net.first", .phase = phase});
    const auto trace = maker.finish();
    EXPECT_THAT(find_root_calls(trace, trace.devices[0]).ends, IsEmpty());
  }
}

TEST(RootCalls, irregular_calls_are_not_steps) {
  TraceMaker maker;
  std::uint64_t number = 0;
  for (const int others : {1, 30, 2, 90, 1, 40, 200, 3, 1, 60}) {
    for (int i = 0; i < others; ++i) maker.alloc(9, 10).free(9, 10);
    call(maker, number++);
  }
  const auto trace = maker.finish();
  EXPECT_THAT(find_root_calls(trace, trace.devices[0]).ends, IsEmpty());
}

TEST(RootCalls, snapshots_have_no_layers) {
  TraceMaker maker;
  for (int i = 0; i < 20; ++i) maker.alloc(9, 10).free(9, 10);
  const auto trace = maker.finish();
  EXPECT_THAT(find_root_calls(trace, trace.devices[0]).ends, IsEmpty());
}

}  // namespace
}  // namespace plimsoll::analysis::growth

#include "model/last_use.h"

#include <gtest/gtest.h>

#include "tests/support/trace_maker.h"

namespace plimsoll::model {
namespace {

using tests::Reported;
using tests::TraceMaker;

constexpr LastUse kAfterFirst{.unused_from = 1};

// One allocation of the category that the program stops using before event 1, then another.
Trace trace_of(const Reported& reported) {
  TraceMaker maker;
  maker.alloc_reported(1, 100, reported).alloc(2, 10).free(1, 100);
  return maker.finish();
}

TEST(LastUse, memory_is_freeable_from_the_end_of_its_last_use) {
  const Trace trace = trace_of({.category = "activation", .use = kAfterFirst});
  const LastUses uses(trace, trace.devices[0]);
  EXPECT_EQ(uses.freeable(0), 1u);
  EXPECT_EQ(uses.used_again(0, 0), UsedAgain::kYes);
  EXPECT_EQ(uses.used_again(0, 1), UsedAgain::kNo);
}

TEST(LastUse, memory_that_was_never_used_is_freeable_after_its_allocation) {
  const Trace trace = trace_of({.use = {.unused_from = 0}});
  EXPECT_EQ(LastUses(trace, trace.devices[0]).freeable(0), 1u);
}

TEST(LastUse, a_last_use_after_the_free_changes_nothing) {
  const Trace trace = trace_of({.use = {.unused_from = 99}});
  EXPECT_EQ(LastUses(trace, trace.devices[0]).freeable(0), 3u);
}

TEST(LastUse, unknown_and_exempt_memory_is_never_reported) {
  const Trace unknown = trace_of({.category = "activation"});
  EXPECT_EQ(LastUses(unknown, unknown.devices[0]).freeable(0), 3u);
  EXPECT_EQ(LastUses(unknown, unknown.devices[0]).used_again(0, 1), UsedAgain::kUnknown);
  for (const char* category :
       {"parameter", "buffer", "optimizer_state", "communication", "workspace"}) {
    const Trace trace = trace_of({.category = category, .use = kAfterFirst});
    const LastUses uses(trace, trace.devices[0]);
    EXPECT_EQ(uses.freeable(0), 3u) << category;
    EXPECT_EQ(uses.used_again(0, 1), UsedAgain::kExempt) << category;
  }
  const Trace temporary = trace_of({.flags = LifetimeFlags::kTemporary, .use = kAfterFirst});
  EXPECT_EQ(LastUses(temporary, temporary.devices[0]).freeable(0), 3u);
  EXPECT_EQ(LastUses(temporary, temporary.devices[0]).used_again(0, 1), UsedAgain::kYes);
}

TEST(LastUse, memory_that_waited_for_a_stream_is_exempt) {
  TraceMaker maker;
  maker.alloc_reported(1, 100, {.use = kAfterFirst})
      .event(Action::kFreeRequested, 1, 100)
      .alloc(2, 10)
      .event(Action::kFreeCompleted, 1, 100);
  const Trace trace = maker.finish();
  EXPECT_EQ(LastUses(trace, trace.devices[0]).used_again(0, 2), UsedAgain::kExempt);
}

}  // namespace
}  // namespace plimsoll::model

#include "findings/peak/peak.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/own_case.h"
#include "tests/support/steps_text.h"

namespace plimsoll::findings {
namespace {

using model::Phase;
using report::UnusedKind;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// 8 tensors of 10 units at a.py:1 that no operator uses again, and 20 units that a later one uses.
class Kept {
 public:
  explicit Kept(std::uint64_t unit = kMib) {
    c.maker.builder().uses_known();
    for (std::uint32_t i = 0; i < 8; ++i) {
      c.maker.alloc_reported(i + 1, 10 * unit,
                             {.category = "other",
                              .stack = c.maker.stack({{"a.py", 1, "f"}}),
                              .use = {.unused_from = i + 1, .silence = 100}});
    }
    c.maker.alloc_reported(9, 20 * unit,
                           {.category = "activation",
                            .phase = Phase::kForward,
                            .stack = c.maker.stack({{"b.py", 2, "g"}}),
                            .use = {.unused_from = 9}});
    c.report.devices.resize(1);
    c.report.devices[0].last_use = {
        .live_bytes = 100 * unit, .unused_bytes = 80 * unit, .rows = {row(unit)}};
  }
  static report::UnusedRow row(std::uint64_t unit) {
    return {.line = "a.py:1 (f)", .bytes = 80 * unit, .count = 8, .certain_bytes = 80 * unit};
  }
  report::LastUse& found() { return *c.report.devices[0].last_use; }
  Findings run() { return c.run(explain_never_used_again); }

  Case c;
};

TEST(NeverUsedAgain, lines_whose_memory_is_certainly_not_used_again_are_reported) {
  Kept kept;
  kept.found().certain_saving_bytes = 70 * kMib;
  const Findings findings = kept.run();
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].id, "never_used_again");
  EXPECT_EQ(findings[0].title,
            "No operator uses 80.0 MiB of the 100.0 MiB at the peak on cuda:0 again");
  EXPECT_THAT(findings[0].evidence,
              ElementsAre("a.py:1 (f): 80.0 MiB in 8 allocations, last used earlier in the step.",
                          "80.0 MiB of it was still live when the recording ended: what the "
                          "program read later is unknown."));
  EXPECT_EQ(findings[0].saving_bytes(), 80 * kMib);  // then 20 MiB of b.py are the peak
  EXPECT_THAT(steps_text(findings[0]), HasSubstr("Saves 80.0 MiB."));
}

TEST(NeverUsedAgain, what_is_kept_for_two_steps_is_reported_without_certainty) {
  Kept kept;
  kept.found().kept_bytes = 80 * kMib;
  kept.found().rows[0].kind = UnusedKind::kKept;
  kept.found().rows[0].certain_bytes = 0;
  ASSERT_THAT(kept.run(), SizeIs(1));
}

TEST(NeverUsedAgain, little_memory_and_buffers_of_constant_length_are_no_finding) {
  Kept little;
  little.found().certain_saving_bytes = 19 * kMib;
  little.found().kept_bytes = 14 * kMib;
  little.found().rows[0].kind = UnusedKind::kKept;
  EXPECT_THAT(little.run(), IsEmpty());
  Kept buffer;
  buffer.found().certain_saving_bytes = 70 * kMib;
  buffer.found().rows[0].is_bounded = true;
  EXPECT_THAT(buffer.run(), IsEmpty());
}

TEST(NeverUsedAgain, each_kind_has_its_next_step) {
  const auto step_of = [](UnusedKind kind) {
    Kept kept;
    kept.found().certain_saving_bytes = 70 * kMib;
    kept.found().rows[0].kind = kind;
    return kept.run().at(0).next_step();
  };
  EXPECT_THAT(step_of(UnusedKind::kGradients),
              HasSubstr("zero_grad(set_to_none=True) right after"));
  EXPECT_THAT(step_of(UnusedKind::kKept), HasSubstr("list, attribute, closure or cache"));
  EXPECT_THAT(step_of(UnusedKind::kOutputInBackward), HasSubstr("before loss.backward()"));
  EXPECT_THAT(step_of(UnusedKind::kLocal), HasSubstr("(`del`) after its last use"));
}

TEST(NeverUsedAgain, is_evidence_of_another_explanation_of_the_same_bytes) {
  Kept kept;
  kept.found().certain_saving_bytes = 70 * kMib;
  kept.c.run(+[](const Facts& facts) {
    const auto devices = devices_of(facts);
    const auto peak = Peak::of(facts, devices.at(0));
    Explanation explanation;
    for (std::uint32_t i = 0; i < 8; ++i) explanation.add(peak->live()[i]);
    EXPECT_EQ(unused_text(*peak, explanation), "No operator uses 80.0 MiB of it again.");
    return Findings();
  });
}

TEST(NeverUsedAgain, needs_as_many_bytes_as_every_explanation) {
  for (const std::uint64_t unit : {kMib / 16, kMib / 25}) {  // 5.0 MiB, 3.2 MiB
    Kept kept(unit);
    kept.found().certain_saving_bytes = 70 * unit;
    EXPECT_THAT(kept.run(), SizeIs(80 * unit < kLeastPeakBytes ? 0 : 1));
  }
}

TEST(NeverUsedAgain, sampled_answers_say_so) {
  Kept kept;
  kept.found().certain_saving_bytes = 70 * kMib;
  kept.found().is_sampled = true;
  EXPECT_EQ(kept.run().at(0).evidence.back(), "Uses of memory were observed only in some steps.");
}

}  // namespace
}  // namespace plimsoll::findings

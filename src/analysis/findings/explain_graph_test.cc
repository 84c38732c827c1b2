// graph_without_backward where many forwards run between two backwards, and where forwards are
// small.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/own_case.h"

namespace plimsoll::analysis::findings {
namespace {

using model::Phase;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// A forward of `count` layers, each of which makes `mib`, except the last, which makes 1 MiB.
void forward(Case& c, std::uint64_t first, std::uint64_t count, std::uint64_t mib) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t size = (i + 1 < count ? mib : 1) * kMib;
    c.maker.alloc_told(first + i, size,
                       {.layer = "Net." + std::to_string(i),
                        .category = "activation",
                        .phase = Phase::kForward,
                        .op = "aten::linear"});
  }
}

void free_forward(Case& c, std::uint64_t first, std::uint64_t count, std::uint64_t mib) {
  for (std::uint64_t i = 0; i < count; ++i) {
    c.maker.free(first + i, (i + 1 < count ? mib : 1) * kMib);
  }
}

void backward(Case& c, std::uint64_t first, std::uint64_t count, std::uint64_t mib) {
  c.maker.begin_backward();
  c.maker.alloc_told(9000, 1, {.layer = "Net.0", .category = "gradient", .phase = Phase::kBackward})
      .free(9000, 1);
  free_forward(c, first, count, mib);
  c.maker.end_backward();
}

TEST(ExplainGraph, all_forwards_of_a_loop_between_two_backwards_count) {
  Case c;
  forward(c, 1, 8, 2);
  backward(c, 1, 8, 2);
  for (std::uint64_t i = 0; i < 20; ++i) forward(c, 100 + 10 * i, 8, 2);
  c.peak_at_event = 8 + 3 + 16 + 20 * 8 - 1;
  c.maker.alloc(99, 1);
  c.peak_phase = "forward";
  const auto found = c.run(explain_graph);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].title, HasSubstr("Forwards of Net build graphs"));
  EXPECT_THAT(found[0].title, HasSubstr("300.0 MiB of 300.0 MiB"));
}

// Steps of a training, each with a forward of three layers whose result is kept in a buffer: made
// before the forward that backward uses, or after it.
Case buffer(std::uint64_t steps, std::uint64_t mib, bool is_made_after) {
  Case c;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const std::uint64_t kept = 100 + 10 * step;
    if (!is_made_after) forward(c, kept, 3, mib);
    forward(c, 1, 3, mib);
    if (is_made_after) forward(c, kept, 3, mib);
    backward(c, 1, 3, mib);
  }
  c.peak_at_event = steps * (6 + 3 + 6) - 1;
  c.maker.alloc(99, 1);
  c.maker.begin_backward().end_backward().alloc(98, 1);
  return c;
}

TEST(ExplainGraph, a_buffer_of_small_forwards_is_named_wherever_in_the_step_they_run) {
  for (const bool is_made_after : {false, true}) {
    const auto found = buffer(8, 4, is_made_after).run(explain_graph);
    ASSERT_THAT(found, SizeIs(1)) << is_made_after;
    EXPECT_THAT(found[0].title, HasSubstr("72.0 MiB of 72.0 MiB"));
    EXPECT_THAT(found[0].evidence[0],
                HasSubstr("24 activations are live at the peak, of 8 forwards"));
  }
}

TEST(ExplainGraph, one_small_forward_may_be_an_evaluation_at_its_peak) {
  EXPECT_THAT(buffer(1, 40, false).run(explain_graph), IsEmpty());
}

// What autograd keeps of a small forward begins with its first tensor; a backbone that returns its
// stages without a graph frees it.
TEST(ExplainGraph, small_forwards_that_free_their_first_tensor_may_have_returned_the_rest) {
  for (const bool frees_first : {false, true}) {
    Case c;
    for (std::uint64_t step = 0; step < 8; ++step) {
      const std::uint64_t kept = 100 + 10 * step;
      forward(c, kept, 5, 4);
      if (frees_first) c.maker.free(kept, 4 * kMib);
      forward(c, 1, 5, 4);
      if (frees_first) c.maker.free(1, 4 * kMib).alloc(1, 4 * kMib);
      backward(c, 1, 5, 4);
    }
    c.peak_at_event = 8 * (frees_first ? 10 + 2 + 3 + 3 + 8 : 10 + 3 + 10) - 1;
    c.maker.begin_backward().end_backward().alloc(98, 1);
    EXPECT_THAT(c.run(explain_graph), SizeIs(frees_first ? 0 : 1));
  }
}

TEST(ExplainGraph, small_forwards_of_which_the_result_is_most_are_kept_results) {
  Case c;
  for (std::uint64_t step = 0; step < 8; ++step) {
    const std::uint64_t kept = 100 + 10 * step;
    forward(c, kept, 2, 1);
    c.maker.alloc_told(kept + 2, 8 * kMib,
                       {.layer = "Net.2", .category = "activation", .phase = Phase::kForward});
    forward(c, 1, 3, 1);
    backward(c, 1, 3, 1);
  }
  c.peak_at_event = 8 * (6 + 3 + 6) - 1;
  c.maker.begin_backward().end_backward().alloc(98, 1);
  EXPECT_THAT(c.run(explain_graph), IsEmpty());
}

}  // namespace
}  // namespace plimsoll::analysis::findings

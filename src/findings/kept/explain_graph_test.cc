// graph_without_backward if many forwards run between two backwards, and if forwards are small.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "tests/support/own_case.h"

namespace plimsoll::findings {
namespace {

using model::Phase;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// A forward of `count` layers. Each allocates `mib` MiB, except the last, which allocates 1 MiB.
// `unused_from`: when the first is used no more; each of the others, one event later.
void forward(Case& c, std::uint64_t first, std::uint64_t count, std::uint64_t mib,
             model::Autograd autograd = model::Autograd::kBuilt,
             std::optional<std::uint64_t> unused_from = {}) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t size = (i + 1 < count ? mib : 1) * kMib;
    model::LastUse use;
    if (unused_from) use.unused_from = static_cast<std::uint32_t>(*unused_from + i);
    c.maker.alloc_reported(first + i, size,
                           {.layer = "Net." + std::to_string(i),
                            .category = "activation",
                            .phase = Phase::kForward,
                            .op = "aten::linear",
                            .autograd = autograd,
                            .use = use});
  }
}

void free_forward(Case& c, std::uint64_t first, std::uint64_t count, std::uint64_t mib) {
  for (std::uint64_t i = 0; i < count; ++i) {
    c.maker.free(first + i, (i + 1 < count ? mib : 1) * kMib);
  }
}

void backward(Case& c, std::uint64_t first, std::uint64_t count, std::uint64_t mib) {
  c.maker.begin_backward();
  c.maker
      .alloc_reported(9000, 1,
                      {.layer = "Net.0", .category = "gradient", .phase = Phase::kBackward})
      .free(9000, 1);
  free_forward(c, first, count, mib);
  c.maker.end_backward();
}

// The last may be for a backward that the recording does not have.
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
  EXPECT_THAT(found[0].title, HasSubstr("285.0 MiB of 300.0 MiB"));
}

// `val += loss` in a program without modules.
TEST(ExplainGraph, of_a_sum_has_the_inputs_and_names_the_line_that_adds) {
  Case c;
  const auto loop = c.maker.stack({{"val.py", 3, "main"}});
  const auto sum = c.maker.stack({{"val.py", 4, "main"}});
  const auto forward_at = [](auto stack, const char* op) {
    return tests::Reported{.category = "activation",
                           .phase = Phase::kForward,
                           .op = op,
                           .stack = stack,
                           .autograd = model::Autograd::kBuilt};
  };
  for (std::uint64_t i = 0; i < 20; ++i) {
    c.maker.alloc_reported(100 + i, kMib, {.category = "other", .stack = loop});
    c.maker.alloc_reported(200 + i, kMib, forward_at(loop, "aten::relu"));
    if (i == 0) c.maker.alloc_reported(1, 4, forward_at(sum, "aten::add"));
  }
  c.peak_at_event = 40;
  c.peak_phase = "forward";
  c.maker.free(1, 4);
  for (std::uint64_t i = 20; i-- > 0;) c.maker.free(200 + i, kMib).free(100 + i, kMib);
  c.maker.alloc(2, 1);
  const auto found = c.run(explain_graph);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].title, HasSubstr("40.0 MiB of 40.0 MiB"));
  ASSERT_THAT(found[0].steps, SizeIs(2));
  EXPECT_THAT(found[0].steps[1].text, HasSubstr("If val.py:4 (main) adds up results"));
}

// However many activations are live: a program may collect what its layers return.
TEST(ExplainGraph, forwards_that_are_known_to_build_no_graph_do_not_count) {
  for (const auto autograd : {model::Autograd::kOff, model::Autograd::kOn, model::Autograd::kBuilt,
                              model::Autograd::kUnknown}) {
    Case c;
    forward(c, 1, 8, 2);
    backward(c, 1, 8, 2);
    for (std::uint64_t i = 0; i < 20; ++i) forward(c, 100 + 10 * i, 8, 2, autograd);
    c.peak_at_event = 8 + 3 + 16 + 20 * 8 - 1;
    c.maker.alloc(99, 1);
    c.peak_phase = "forward";
    const bool has_graph =
        autograd == model::Autograd::kBuilt || autograd == model::Autograd::kUnknown;
    EXPECT_THAT(c.run(explain_graph), SizeIs(has_graph ? 1 : 0)) << name_of(autograd);
  }
}

// What they keep is then not activations for a backward, but results that the program collects.
TEST(ExplainGraph, results_that_are_collected_without_a_graph_are_not_advised_to_be_checkpointed) {
  for (const auto autograd : {model::Autograd::kOff, model::Autograd::kBuilt}) {
    Case c;
    for (std::uint64_t i = 0; i < 20; ++i) forward(c, 100 + 10 * i, 8, 2, autograd);
    c.peak_at_event = 20 * 8 - 1;
    c.maker.alloc(99, 1).begin_backward().end_backward().alloc(98, 1);
    const auto found = c.run(explain_activations);
    ASSERT_THAT(found, SizeIs(1));
    const bool is_off = autograd == model::Autograd::kOff;
    EXPECT_EQ(found[0].next_step().find("earlier calls") != std::string::npos, is_off);
    EXPECT_EQ(found[0].next_step().find("batch") == std::string::npos, is_off);
  }
}

// As a GAN does that trains its critic and does not detach what the generator makes. `is_read`: an
// optimizer reads the gradient of the module that runs first.
Findings critic_step(bool is_read, bool runs_first) {
  Case c;
  c.maker.builder().uses_known();
  const auto critic = [&] {
    c.maker.alloc_reported(20, kMib,
                           {.layer = "Critic",
                            .category = "activation",
                            .phase = Phase::kForward,
                            .op = "aten::linear",
                            .autograd = model::Autograd::kBuilt});
  };
  if (!runs_first) critic();
  forward(c, 1, 8, 2);
  if (runs_first) critic();
  c.peak_at_event = 10;
  c.maker.begin_backward();
  const auto gradient = [&](std::uint64_t address, const char* name, std::uint32_t unused_from) {
    c.maker.alloc_reported(address, kMib,
                           {.category = "gradient",
                            .phase = Phase::kBackward,
                            .tensor = c.maker.tensor(name),
                            .use = {.unused_from = unused_from}});
  };
  gradient(30, "Net.w", is_read ? 31 : 12);
  gradient(31, "Critic.w", 31);
  free_forward(c, 1, 8, 2);
  c.maker.free(20, kMib).end_backward();
  c.maker.alloc(40, 1).alloc(41, 1).free(30, kMib).free(31, kMib);
  return c.run(explain_graph);
}

TEST(ExplainGraph, of_a_module_whose_gradients_are_cleared_unread_is_in_vain) {
  const Findings found = critic_step(false, true);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].title, HasSubstr("A graph of Net is 83.3% of the peak"));
  EXPECT_THAT(found[0].title, HasSubstr("for gradients that nothing reads"));
  EXPECT_THAT(critic_step(true, true), IsEmpty());
  EXPECT_THAT(critic_step(false, false), IsEmpty()) << "the gradient of Critic needs it";
}

// The program fails after the forward, and its frames then free the activations.
TEST(ExplainGraph, a_forward_after_which_memory_runs_out_may_have_been_for_a_backward) {
  for (const bool runs_out : {false, true}) {
    Case c;
    forward(c, 1, 8, 2);
    backward(c, 1, 8, 2);
    forward(c, 101, 8, 10);
    c.peak_at_event = 8 + 3 + 16 + 8 - 1;
    c.peak_phase = "forward";
    c.maker.alloc(99, 1);
    if (runs_out) c.maker.event(model::Action::kOom, 0, kGib);
    free_forward(c, 101, 8, 10);
    EXPECT_THAT(c.run(explain_graph), SizeIs(runs_out ? 0 : 1));
  }
}

// A forward fails, and a program that handles the exception runs the next one while its activations
// are live, or after they are freed.
TEST(ExplainGraph, a_training_forward_that_is_live_while_the_next_one_runs_is_an_attempt) {
  for (const bool runs_out : {false, true}) {
    for (const bool is_live : {false, true}) {
      Case c;
      forward(c, 1, 8, 2);
      backward(c, 1, 8, 2);
      forward(c, 101, 7, 10);
      if (runs_out && is_live) c.maker.event(model::Action::kOom, 0, kGib);
      c.peak_at_event = 8 + 3 + 16 + 7 - 1 + (is_live ? (runs_out ? 9 : 8) : 0);
      if (!is_live) free_forward(c, 101, 7, 10);
      forward(c, 1, 8, 2);
      backward(c, 1, 8, 2);
      if (is_live) free_forward(c, 101, 7, 10);
      forward(c, 1, 8, 2);
      backward(c, 1, 8, 2);
      c.peak_phase = "forward";
      const auto found = c.run(explain_graph);
      ASSERT_THAT(found, SizeIs(1)) << runs_out << is_live;
      EXPECT_THAT(found[0].next_step(), testing::StartsWith(is_live ? "If the program retries after"
                                                                    : "Run what no backward uses"));
      EXPECT_THAT(found[0].title,
                  HasSubstr(is_live ? "of an attempt that failed" : "builds a graph"));
    }
  }
}

// Training steps, each with an additional forward of three layers whose result is kept in a buffer.
// That forward runs before or after the one that backward uses. No backward uses it.
Case buffer(std::uint64_t steps, std::uint64_t mib, bool is_made_after) {
  Case c;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const std::uint64_t kept = 100 + 10 * step;
    const auto keep = [&](std::uint64_t unused_from) {
      forward(c, kept, 3, mib, model::Autograd::kBuilt, unused_from);
    };
    const std::uint64_t begun = step * 18;
    if (!is_made_after) keep(begun + 2);
    if (is_made_after) forward(c, 1, 3, mib);
    c.maker.alloc(90, 1).free(90, 1);
    if (!is_made_after) forward(c, 1, 3, mib);
    if (is_made_after) keep(begun + 8);
    backward(c, 1, 3, mib);
  }
  c.peak_at_event = steps * (6 + 3 + 3 + 6) - 1;
  c.maker.alloc(99, 1);
  c.maker.begin_backward().end_backward().alloc(98, 1);
  return c;
}

TEST(ExplainGraph, a_buffer_of_small_forwards_is_named_anywhere_in_the_step) {
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

TEST(ExplainGraph, forwards_of_several_modules_are_one_finding) {
  Case c;
  std::uint32_t made = 2;
  for (const std::string root : {"Actor", "Critic"}) {
    for (std::uint64_t i = 0; i < 8; ++i) {
      c.maker.alloc_reported((root == "Actor" ? 1 : 11) + i, (root == "Actor" ? 2 : 3) * kMib,
                             {.layer = root + "." + std::to_string(i),
                              .category = "activation",
                              .phase = Phase::kForward,
                              .op = "aten::linear",
                              .autograd = model::Autograd::kBuilt,
                              .use = {.unused_from = made++}});
    }
  }
  c.peak_at_event = 15;
  c.maker.alloc(99, 1).begin_backward().end_backward().alloc(98, 1);
  c.maker.begin_backward().end_backward().alloc(97, 1);
  const auto found = c.run(explain_graph);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].title, HasSubstr("Forwards of Critic and others build graphs"));
  EXPECT_THAT(found[0].title, HasSubstr("40.0 MiB of 40.0 MiB"));
}

// Without a graph, the program would keep them as well.
TEST(ExplainGraph, forwards_that_are_mostly_result_are_kept_results) {
  Case c;
  for (std::uint64_t step = 0; step < 8; ++step) {
    const std::uint64_t kept = 100 + 10 * step;
    forward(c, kept, 2, 1);
    c.maker.alloc_reported(kept + 2, 16 * kMib,
                           {.layer = "Net.2",
                            .category = "activation",
                            .phase = Phase::kForward,
                            .autograd = model::Autograd::kBuilt});
    forward(c, 1, 3, 1);
    backward(c, 1, 3, 1);
  }
  c.peak_at_event = 8 * (6 + 3 + 6) - 1;
  c.maker.begin_backward().end_backward().alloc(98, 1);
  EXPECT_THAT(c.run(explain_graph), IsEmpty());
}

// A teacher whose result the loss of a student uses: its graph is of no use.
TEST(ExplainGraph, a_pass_of_which_a_backward_uses_the_result_alone_builds_an_unused_graph) {
  Case c;
  for (std::uint64_t step = 0; step < 3; ++step) {
    forward(c, 100, 8, 10, model::Autograd::kBuilt, 24 * step + 2);
    c.maker.begin_backward().free(107, kMib).end_backward();
    for (std::uint64_t i = 100; i < 107; ++i) c.maker.free(i, 10 * kMib);
  }
  c.peak_at_event = 7;
  c.peak_phase = "forward";
  const auto found = c.run(explain_graph);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].title, HasSubstr("A forward of Net builds a graph"));
  // Two of seven are live at a time, before the result is.
  EXPECT_EQ(found[0].saving_bytes(), 51 * kMib);
}

}  // namespace
}  // namespace plimsoll::findings

// graph_without_backward if many forwards run between two backwards, and if forwards are small.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/own_case.h"

namespace plimsoll::analysis::findings {
namespace {

using model::Phase;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// A forward of `count` layers. Each allocates `mib` MiB, except the last, which allocates 1 MiB.
void forward(Case& c, std::uint64_t first, std::uint64_t count, std::uint64_t mib,
             model::Autograd autograd = model::Autograd::kUnknown) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t size = (i + 1 < count ? mib : 1) * kMib;
    c.maker.alloc_reported(first + i, size,
                           {.layer = "Net." + std::to_string(i),
                            .category = "activation",
                            .phase = Phase::kForward,
                            .op = "aten::linear",
                            .autograd = autograd});
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
// That forward runs before or after the one that backward uses.
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

// A small forward's graph includes its first tensor. A backbone that returns its stages without a
// graph frees that tensor.
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

// Steps of a model with two ReLUs. A training forward frees what its convolutions make, because
// backward needs only what the ReLUs make. A rollout keeps the same tensors, because it builds a
// graph or because they are its results. If it builds a graph, so do the operators after it.
Case rollouts(bool build_graphs, model::Autograd autograd = model::Autograd::kUnknown) {
  Case c;
  const auto run = [&](std::uint64_t first) {
    for (std::uint64_t i = 0; i < 4; ++i) {
      c.maker.alloc_reported(first + i, (4 - i) * kMib,
                             {.layer = i % 2 == 0 ? "Net.conv" + std::to_string(i) : "Net",
                              .category = "activation",
                              .phase = Phase::kForward,
                              .op = i % 2 == 0 ? "aten::conv2d" : "aten::relu",
                              .autograd = autograd});
      if (i % 2 == 1) c.maker.free(first + i - 1, (5 - i) * kMib);
    }
    c.maker.alloc_reported(first + 4, 1,
                           {.category = "other",
                            .phase = build_graphs ? Phase::kForward : Phase::kOther,
                            .op = "aten::logsumexp"});
  };
  for (std::uint64_t step = 0; step < 8; ++step) run(100 + 10 * step);
  for (std::uint64_t step = 0; step < 4; ++step) {
    run(1);
    c.maker.begin_backward();
    c.maker
        .alloc_reported(9000, 1,
                        {.layer = "Net.conv0", .category = "gradient", .phase = Phase::kBackward})
        .free(9000, 1);
    c.maker.free(2, 3 * kMib).free(4, 1 * kMib).end_backward().free(5, 1);
  }
  c.peak_at_event = 8 * 9 + 8;
  c.maker.alloc(99, 1);
  return c;
}

TEST(ExplainGraph, small_forwards_that_keep_what_training_keeps_build_graphs) {
  const auto found = rollouts(true).run(explain_graph);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].title, HasSubstr("Forwards of Net build graphs"));
  EXPECT_THAT(found[0].evidence[0],
              HasSubstr("16 activations are live at the peak, of 8 forwards"));
  // Of 36 MiB, 15 would be left: 8 results, and the first two tensors of the training forward.
  EXPECT_EQ(found[0].saving_bytes(), 21 * kMib + 1);
  EXPECT_THAT(rollouts(false).run(explain_graph), IsEmpty());
}

// A pool of generated pictures: what follows uses them without their graphs.
TEST(ExplainGraph, small_forwards_that_built_nodes_need_no_operator_after_them) {
  const auto found = rollouts(false, model::Autograd::kBuilt).run(explain_graph);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].title, HasSubstr("Forwards of Net build graphs"));
  EXPECT_THAT(rollouts(false, model::Autograd::kOn).run(explain_graph), IsEmpty());
}

// A model of Linear, ReLU and Linear is trained, and two batches are evaluated. The ReLU's tensor
// is kept by a graph, or because the module returns it.
Case evaluation(bool builds_graph, bool returns_hidden, bool is_trained) {
  Case c;
  const auto run = [&](std::uint64_t first, std::uint64_t mib, bool has_graph) {
    const auto layer = [](std::string_view name, std::string_view op) {
      return tests::Reported{
          .layer = name, .category = "activation", .phase = Phase::kForward, .op = op};
    };
    c.maker.alloc_reported(first, mib * kMib, layer("Net.first", "aten::linear"))
        .alloc_reported(first + 1, mib * kMib, layer("Net", "aten::relu"))
        .free(first, mib * kMib)
        .alloc_reported(first + 2, 1, layer("Net.last", "aten::linear"));
    if (!has_graph && !returns_hidden) c.maker.free(first + 1, mib * kMib);
    c.maker.alloc_reported(first + 3, 1,
                           {.category = "other",
                            .phase = has_graph ? Phase::kForward : Phase::kOther,
                            .op = "aten::cross_entropy_loss"});
  };
  const auto train = [&] {
    run(1, 1, true);
    c.maker.begin_backward();
    c.maker
        .alloc_reported(9000, 1,
                        {.layer = "Net.last", .category = "gradient", .phase = Phase::kBackward})
        .free(9000, 1);
    c.maker.free(2, 1 * kMib).end_backward().free(3, 1).free(4, 1);
  };
  if (is_trained) train(), train();
  run(101, 8, builds_graph);
  run(201, 8, builds_graph);
  // The peak is at the second ReLU. A free is two events.
  const bool is_freed = !builds_graph && !returns_hidden;
  c.peak_at_event = (is_trained ? 2 * 15 : 0) + (is_freed ? 8 : 6) + 1;
  for (const std::uint64_t first : {101u, 201u}) {
    if (!is_freed) c.maker.free(first + 1, 8 * kMib);
    c.maker.free(first + 2, 1).free(first + 3, 1);
  }
  if (is_trained) train();
  c.peak_phase = "forward";
  return c;
}

TEST(ExplainGraph, an_evaluation_of_a_small_model_builds_graphs_if_the_loss_is_part_of_one) {
  for (const bool is_trained : {true, false}) {
    const auto found = evaluation(true, false, is_trained).run(explain_graph);
    ASSERT_THAT(found, SizeIs(1)) << is_trained;
    EXPECT_THAT(found[0].title, HasSubstr("Forwards of Net build graphs"));
    EXPECT_THAT(found[0].evidence[2], HasSubstr("Without a graph, 8.0 MiB of them"));
    EXPECT_THAT(evaluation(false, false, is_trained).run(explain_graph), IsEmpty()) << is_trained;
    EXPECT_THAT(evaluation(false, true, is_trained).run(explain_graph), IsEmpty()) << is_trained;
  }
}

TEST(ExplainGraph, forwards_of_several_modules_are_one_finding) {
  Case c;
  for (const std::string root : {"Actor", "Critic"}) {
    for (std::uint64_t i = 0; i < 8; ++i) {
      c.maker.alloc_reported((root == "Actor" ? 1 : 11) + i, (root == "Actor" ? 2 : 3) * kMib,
                             {.layer = root + "." + std::to_string(i),
                              .category = "activation",
                              .phase = Phase::kForward,
                              .op = "aten::linear"});
    }
  }
  c.peak_at_event = 15;
  c.maker.alloc(99, 1).begin_backward().end_backward().alloc(98, 1);
  c.maker.begin_backward().end_backward().alloc(97, 1);
  const auto found = c.run(explain_graph);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].title, HasSubstr("Forwards of Critic and Actor build graphs"));
  EXPECT_THAT(found[0].title, HasSubstr("40.0 MiB of 40.0 MiB"));
}

TEST(ExplainGraph, small_forwards_that_are_mostly_result_are_kept_results) {
  Case c;
  for (std::uint64_t step = 0; step < 8; ++step) {
    const std::uint64_t kept = 100 + 10 * step;
    forward(c, kept, 2, 1);
    c.maker.alloc_reported(kept + 2, 8 * kMib,
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

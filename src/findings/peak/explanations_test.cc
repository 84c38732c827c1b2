// Each explanation of the peak where it applies, and which one comes first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/own_case.h"
#include "tests/support/steps_text.h"

namespace plimsoll::findings {
namespace {

using model::LifetimeFlags;
using model::Phase;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr auto kSaved = LifetimeFlags::kSavedForBackward;

// One forward of eight layers, each of which keeps `mib`.
void forward(Case& c, std::uint64_t first, std::uint64_t mib, LifetimeFlags flags) {
  for (std::uint64_t i = 0; i < 8; ++i) {
    const std::string layer = "Net." + std::to_string(i);
    c.maker.alloc_reported(first + i, mib * kMib,
                           {.layer = layer,
                            .category = "activation",
                            .phase = Phase::kForward,
                            .op = "aten::linear",
                            .flags = flags,
                            .autograd = model::Autograd::kBuilt});
  }
}

void free_all(Case& c, std::uint64_t first, std::uint64_t mib) {
  for (std::uint64_t i = 0; i < 8; ++i) c.maker.free(first + i, mib * kMib);
}

Case validation() {
  Case c;
  forward(c, 1, 2, kSaved);
  c.maker.begin_backward();
  free_all(c, 1, 2);
  c.maker.end_backward();
  forward(c, 11, 10, LifetimeFlags::kNothing);
  c.peak_at_event = 8 + 16 + 7;
  c.maker.alloc(90, 1).free(90, 1);
  free_all(c, 11, 10);
  c.peak_phase = "forward";
  return c;
}

TEST(Explanations, a_forward_whose_activations_no_backward_uses_built_an_unused_graph) {
  const auto found = validation().run(explain_graph);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].id, "graph_without_backward");
  EXPECT_THAT(found[0].title, HasSubstr("80.0 MiB of 80.0 MiB"));
  EXPECT_THAT(found[0].next_step(), HasSubstr("torch.no_grad()"));
  EXPECT_EQ(validation().run(what_fills_the_peak)[0].id, "graph_without_backward");
}

TEST(Explanations, a_forward_with_a_backward_or_that_keeps_little_is_healthy) {
  Case training;
  forward(training, 1, 10, kSaved);
  training.maker.begin_backward();
  EXPECT_THAT(training.run(explain_graph), IsEmpty());
  Case evaluation;  // each layer's output dies after the next layer has used it
  for (std::uint64_t i = 0; i < 40; ++i) {
    const std::string layer = "Net." + std::to_string(i);
    evaluation.maker.alloc_reported(
        1 + i, 10 * kMib, {.layer = layer, .category = "activation", .phase = Phase::kForward});
    if (i >= 8) evaluation.maker.free(1 + i - 8, 10 * kMib);
  }
  EXPECT_THAT(evaluation.run(explain_graph), IsEmpty());
}

// A training step between the forward in question and the peak, which is in another forward.
Case graph_that_outlives_backward(bool is_freed_by_it) {
  Case c;
  forward(c, 1, 10, LifetimeFlags::kNothing);
  c.maker.alloc(89, 1);
  forward(c, 11, 1, kSaved);
  c.maker.begin_backward();
  c.maker.alloc_reported(50, 1,
                         {.layer = "Net.1", .category = "gradient", .phase = Phase::kBackward});
  if (is_freed_by_it) free_all(c, 11, 1);
  c.maker.end_backward();
  c.maker.alloc_reported(60, 40 * kMib,
                         {.layer = "Net.0", .category = "activation", .phase = Phase::kForward});
  c.peak_at_event = 8 + 1 + 8 + 1 + (is_freed_by_it ? 16 : 0);
  c.maker.begin_backward().end_backward().alloc(70, 1);
  c.peak_phase = "forward";
  return c;
}

TEST(Explanations, a_graph_kept_through_an_unrelated_backward_is_unused) {
  const auto found = graph_that_outlives_backward(true).run(explain_graph);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].title, HasSubstr("80.0 MiB of 120.0 MiB"));
  EXPECT_THAT(found[0].evidence[0], HasSubstr("The backwards that run meanwhile use none of them"));
}

TEST(Explanations, a_graph_that_backward_uses_and_retains_is_not_called_unused) {
  EXPECT_THAT(graph_that_outlives_backward(false).run(explain_graph), IsEmpty());
}

TEST(Explanations, early_deaths_do_not_hide_that_backward_uses_the_rest) {
  Case c;
  forward(c, 1, 10, kSaved);
  c.maker.alloc_reported(20, kMib,
                         {.layer = "Net.7", .category = "activation", .phase = Phase::kForward});
  c.peak_at_event = 8;
  c.peak_phase = "forward";
  c.maker.free(20, kMib).begin_backward();
  c.maker.alloc_reported(50, 1,
                         {.layer = "Net.1", .category = "gradient", .phase = Phase::kBackward});
  c.maker.end_backward();
  free_all(c, 1, 10);
  EXPECT_THAT(c.run(explain_graph), IsEmpty()) << "retain_graph=True";
}

TEST(Explanations, a_recording_that_ends_in_a_backward_does_not_show_all_it_uses) {
  Case c;
  forward(c, 1, 10, kSaved);
  c.peak_at_event = 7;
  c.peak_phase = "forward";
  c.maker.begin_backward().end_backward().alloc(90, 1);
  EXPECT_THAT(c.run(explain_graph), IsEmpty());
}

TEST(Explanations, a_recording_that_ends_in_a_forward_does_not_show_its_backward) {
  Case c;
  forward(c, 1, 10, LifetimeFlags::kNothing);
  c.peak_phase = "forward";
  EXPECT_THAT(c.run(explain_graph), IsEmpty());
}

TEST(Explanations, a_forward_that_begins_with_temporaries_is_training) {
  Case c;
  for (std::uint64_t step = 0; step < 3; ++step) {
    if (step == 2) {
      c.maker.alloc_reported(
          90, 100 * kMib,
          {.layer = "Net", .category = "activation", .phase = Phase::kForward, .op = "aten::sub"});
      c.peak_at_event = 2 * (8 + 16 + 2);
      c.maker.free(90, 100 * kMib);
    }
    forward(c, 1, 1, kSaved);
    c.maker.begin_backward();
    free_all(c, 1, 1);
    c.maker.alloc_reported(50, 1, {.category = "temporary", .phase = Phase::kBackward});
    c.maker.free_immediately(50, 1).end_backward();
  }
  c.peak_phase = "forward";
  c.peak_layer = "Net";
  EXPECT_THAT(c.run(explain_outside), IsEmpty());
}

TEST(Explanations, lines_of_one_function_are_one_place_and_those_of_a_forward_are_not) {
  for (const std::string_view function : {"Net.nearest", "Net.forward"}) {
    Case c;
    for (std::uint32_t line = 7; line < 10; ++line) {
      const auto stack = c.maker.stack({{"net.py", line, function}, {"train.py", 3, "main"}});
      c.maker.alloc_reported(line, 20 * kMib,
                             {.category = "activation", .phase = Phase::kForward, .stack = stack});
    }
    const auto found = c.run(explain_line);
    ASSERT_THAT(found, SizeIs(function == "Net.nearest" ? 1 : 0));
    if (found.empty()) continue;
    EXPECT_THAT(found[0].title, HasSubstr("The lines of one function fill 100.0% of the peak"));
    EXPECT_THAT(found[0].title, HasSubstr("most at net.py:7 (Net.nearest)"));
  }
}

Case wide_layer() {
  Case c;
  forward(c, 1, 2, kSaved);
  c.maker.alloc_reported(
      20, 60 * kMib,
      {.layer = "Net.3", .category = "activation", .phase = Phase::kForward, .flags = kSaved});
  c.maker.begin_backward();
  c.maker.alloc_reported(30, 1, {.category = "temporary", .phase = Phase::kBackward});
  return c;
}

TEST(Explanations, one_layer_of_many_that_holds_most_is_named) {
  const auto found = wide_layer().run(explain_layer);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].title, HasSubstr("Net.3 holds 62.0 MiB of 76.0 MiB"));
  const auto best = wide_layer().run(what_fills_the_peak);
  ASSERT_THAT(best, SizeIs(1)) << "that activations dominate is the same story";
  EXPECT_EQ(best[0].id, "one_layer_dominates");
}

TEST(Explanations, one_line_with_few_large_tensors_is_named_and_a_loop_is_not) {
  for (const std::uint64_t tensors : {3u, 9u}) {
    Case c;
    const auto stack = c.maker.stack({{"pairs.py", 7, "distances"}, {"train.py", 3, "main"}});
    for (std::uint64_t i = 0; i < tensors; ++i) {
      c.maker.alloc_reported(1 + i, 20 * kMib,
                             {.category = "activation", .phase = Phase::kForward, .stack = stack});
    }
    const auto found = c.run(explain_line);
    ASSERT_THAT(found, SizeIs(tensors == 3 ? 1 : 0));
    if (tensors != 3) continue;
    EXPECT_THAT(found[0].title, HasSubstr("pairs.py:7 (distances)"));
    EXPECT_THAT(found[0].evidence, Contains("It holds 3 tensors of 20.0 MiB, called by main."));
  }
}

TEST(Explanations, allocations_of_backward_for_a_loss_are_not_a_loop) {
  for (const char* layer : {"", "Net.0"}) {
    Case c;
    const auto stack = c.maker.stack({{"train.py", 3, "main"}});
    for (std::uint64_t i = 0; i < 6; ++i) {
      const bool is_backward = i >= 2;
      c.maker.alloc_reported(1 + i, 20 * kMib,
                             {.layer = layer,
                              .category = is_backward ? "activation_gradient" : "activation",
                              .phase = is_backward ? Phase::kBackward : Phase::kForward,
                              .stack = stack});
    }
    EXPECT_THAT(c.run(explain_line), SizeIs(layer[0] == 0 ? 1 : 0));
  }
}

TEST(Explanations, a_parameter_is_reported_with_its_gradient_and_state) {
  for (const char* op : {"EmbeddingBackward0", "AddmmBackward0"}) {
    Case c;
    const auto weight = c.maker.tensor("Net.items.weight");
    const auto state = c.maker.tensor("Net.items.weight.exp_avg");
    c.maker.alloc_reported(1, 40 * kMib,
                           {.category = "parameter", .phase = Phase::kOther, .tensor = weight});
    c.maker.alloc_reported(
        2, 40 * kMib,
        {.category = "gradient", .phase = Phase::kBackward, .op = op, .tensor = weight});
    c.maker.alloc_reported(
        3, 40 * kMib, {.category = "optimizer_state", .phase = Phase::kOptimizer, .tensor = state});
    const auto found = c.run(explain_parameter);
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_THAT(found[0].title, HasSubstr("Net.items.weight holds 120.0 MiB of 120.0 MiB"));
    const bool is_embedding = std::string_view(op) == "EmbeddingBackward0";
    EXPECT_THAT(steps_text(found[0]), HasSubstr(is_embedding ? "sparse=True" : "in 8 bits"));
    if (!is_embedding) continue;
    // Adam raises an error for sparse gradients.
    EXPECT_THAT(steps_text(found[0]), HasSubstr("SparseAdam. Saves up to 40.0 MiB. | "));
    EXPECT_THAT(steps_text(found[0]), testing::EndsWith("torch.optim.SGD. Saves 40.0 MiB."));
  }
}

TEST(Explanations, state_larger_than_its_parameter_belongs_to_the_optimizer) {
  Case c;
  const auto weight = c.maker.tensor("Net.0.weight");
  const auto state = c.maker.tensor("Net.0.weight.old_dirs[0]");
  c.maker.alloc_reported(1, 10 * kMib, {.category = "gradient", .tensor = weight});
  c.maker.alloc_reported(2, 40 * kMib, {.category = "optimizer_state", .tensor = state});
  EXPECT_THAT(c.run(explain_parameter), IsEmpty());
}

TEST(Explanations, a_second_model_of_the_same_shapes_is_a_copy) {
  Case c;
  std::uint64_t address = 0;
  for (const std::string root : {"Net", "Net#2", "Other"}) {
    for (const std::uint64_t mib : {12u, 8u}) {
      const auto tensor = c.maker.tensor(root + ".w" + std::to_string(mib));
      c.maker.alloc_reported(++address, (root == "Other" ? mib + 1 : mib) * kMib,
                             {.category = "parameter", .tensor = tensor});
    }
  }
  c.maker.alloc_reported(++address, 1, {.category = "activation", .phase = Phase::kForward});
  const auto found = c.run(explain_copies);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].evidence, Contains("They are Net#2."));
  EXPECT_EQ(found[0].saving_bytes(), 20 * kMib);
}

TEST(Explanations, a_copy_counts_with_its_gradients_and_state) {
  for (const bool is_trained : {false, true}) {
    Case c;
    std::uint64_t address = 0;
    for (const std::string root : {"Net", "Net#2"}) {
      const auto weight = c.maker.tensor(root + ".w");
      const auto state = c.maker.tensor(root + ".w.exp_avg");
      c.maker.alloc_reported(++address, 10 * kMib, {.category = "parameter", .tensor = weight});
      c.maker.alloc_reported(++address, 10 * kMib,
                             {.category = "gradient", .phase = Phase::kBackward, .tensor = weight});
      if (!is_trained) continue;
      c.maker.alloc_reported(
          ++address, 20 * kMib,
          {.category = "optimizer_state", .phase = Phase::kOptimizer, .tensor = state});
    }
    const auto found = c.run(explain_copies);
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_EQ(found[0].saving_bytes(), (is_trained ? 40 : 10) * kMib);
    ASSERT_THAT(found[0].steps, SizeIs(3));
    EXPECT_EQ(found[0].steps[1].saving_bytes, (is_trained ? 40 : 20) * kMib);
    EXPECT_TRUE(found[0].steps[1].is_upper_bound);
    EXPECT_THAT(found[0].evidence, Contains(HasSubstr("With them come 10.0 MiB of gradients")));
    EXPECT_EQ(found[0].next_step().starts_with("Call requires_grad_(False)"), !is_trained);
  }
}

// A model for each stage at a.py:1. `is_used`: of the first one's gradient.
Findings models_in_stages(bool is_used) {
  Case c;
  c.maker.builder().uses_known();
  const auto stack = c.maker.stack({{"a.py", 1, "f"}});
  std::uint64_t address = 0;
  for (const std::string root : {"Net", "Net#2"}) {
    const auto weight = c.maker.tensor(root + ".w");
    const std::uint32_t unused_from = root == "Net" && !is_used ? 3 : 9;
    c.maker.alloc_reported(++address, 10 * kMib,
                           {.category = "parameter", .tensor = weight, .stack = stack});
    c.maker.alloc_reported(++address, 10 * kMib,
                           {.category = "gradient",
                            .phase = Phase::kBackward,
                            .tensor = weight,
                            .stack = stack,
                            .use = {.unused_from = unused_from}});
  }
  const auto weight = c.maker.tensor("Net#2.w");  // trained most
  c.maker.alloc_reported(++address, kMib,
                         {.category = "gradient", .phase = Phase::kBackward, .tensor = weight});
  report::GrowthRow row;
  row.device = 0;
  row.line = row.key = "a.py:1 (f)";
  row.bytes_per_step = 2.0 * kMib;
  row.is_certain = row.is_model_in_stages = true;
  row.stages = 4;
  c.report.tables.growth = {row};
  return c.run(what_fills_the_peak);
}

TEST(Explanations, a_model_that_grows_in_stages_comes_before_facts_and_after_mistakes) {
  const Findings used = models_in_stages(true);
  ASSERT_GE(used.size(), 1u);
  EXPECT_EQ(used[0].id, "memory_growth");
  EXPECT_THAT(used[0].title, HasSubstr("grew in 4 stages"));
  const Findings unused = models_in_stages(false);
  ASSERT_GE(unused.size(), 1u);
  EXPECT_EQ(unused[0].id, "model_copies");
}

TEST(Explanations, the_saving_of_a_queue_of_copies_counts_those_that_follow) {
  Case c;
  const auto guard = c.maker.stack({{"guard.py", 1, "f"}});
  const auto copy = [&](std::uint64_t address) {
    for (const std::uint64_t mib : {12u, 8u}) {
      c.maker.alloc_reported(address + mib, mib * kMib,
                             {.category = "other", .op = "aten::clone", .stack = guard});
    }
  };
  for (const std::uint64_t mib : {12u, 8u}) {
    const auto tensor = c.maker.tensor("Net.w" + std::to_string(mib));
    c.maker.alloc_reported(mib, mib * kMib, {.category = "parameter", .tensor = tensor});
  }
  copy(100);
  c.peak_at_event = 3;
  c.maker.free(112, 12 * kMib).free(108, 8 * kMib);
  copy(200);
  c.maker.alloc_reported(300, 1, {.category = "activation", .phase = Phase::kForward});
  const auto found = c.run(explain_copies);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].saving_bytes(), 20 * kMib);
}

TEST(Explanations, parameters_that_a_forward_converts_and_keeps_are_copies) {
  for (const std::string dtype : {"bfloat16", "float32"}) {
    Case c;
    for (const std::uint64_t mib : {12u, 8u}) {
      const auto tensor = c.maker.tensor("Net.w" + std::to_string(mib), "float32");
      c.maker.alloc_reported(mib, mib * kMib, {.category = "parameter", .tensor = tensor});
    }
    const auto line = c.maker.stack({{"net.py", 1, "forward"}});
    const auto forward = [&](std::uint64_t address, std::uint64_t bytes) {
      c.maker.alloc_reported(address, bytes,
                             {.layer = "Net.fc",
                              .category = "activation",
                              .phase = Phase::kForward,
                              .op = "aten::linear",
                              .tensor = c.maker.tensor("", dtype),
                              .stack = line});
    };
    for (const std::uint64_t mib : {6u, 4u}) forward(100 + mib, mib * kMib);
    c.maker.alloc(50, 1);
    c.peak_at_event = 4;
    forward(200, 1);
    const auto found = c.run(explain_copies);
    ASSERT_THAT(found, SizeIs(dtype == "bfloat16" ? 1 : 0)) << "results have the model's dtype";
    if (found.empty()) continue;
    EXPECT_THAT(found[0].next_step(), HasSubstr("end torch.autocast after each forward"));
    EXPECT_EQ(found[0].saving_bytes(), 10 * kMib);
  }
}

TEST(Explanations, activations_in_double_precision_are_advised_to_be_single) {
  for (const std::string dtype : {"float64", "float32"}) {
    Case c;
    for (std::uint64_t i = 1; i <= 8; ++i) {
      c.maker.alloc_reported(i, 4 * kMib,
                             {.layer = "Net",
                              .category = "activation",
                              .phase = Phase::kForward,
                              .tensor = c.maker.tensor("", dtype)});
    }
    c.maker.begin_backward();
    const auto found = c.run(explain_activations);
    ASSERT_THAT(found, SizeIs(1));
    const bool is_double = dtype == "float64";
    EXPECT_EQ(found[0].next_step().starts_with("Compute in float32"), is_double);
    EXPECT_EQ(found[0].saving_bytes(), is_double ? 16 * kMib : 0);
  }
}

TEST(Explanations, the_model_that_is_trained_is_not_the_copy) {
  Case c;
  std::uint64_t address = 0;
  for (const std::string root : {"Net", "Net#2"}) {
    const auto weight = c.maker.tensor(root + ".w");
    c.maker.alloc_reported(++address, 10 * kMib, {.category = "parameter", .tensor = weight});
  }
  const auto weight = c.maker.tensor("Net#2.w");
  c.maker.alloc_reported(++address, 10 * kMib,
                         {.category = "gradient", .phase = Phase::kBackward, .tensor = weight});
  const auto found = c.run(explain_copies);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].evidence, Contains("They are Net."));
  EXPECT_EQ(found[0].saving_bytes(), 10 * kMib);
}

TEST(Explanations, a_checkpoint_that_stays_comes_before_the_state_of_the_optimizer) {
  Case c;
  const auto loaded = c.maker.stack(
      {{"/x/site-packages/torch/serialization.py", 1500, "load"}, {"/u/train.py", 14, "main"}});
  std::uint64_t address = 0;
  for (const std::string name : {"Net.a", "Net.b", "Net.c"}) {
    const auto weight = c.maker.tensor(name);
    const auto state = c.maker.tensor(name + ".exp_avg");
    c.maker.alloc_reported(++address, 10 * kMib, {.category = "parameter", .tensor = weight});
    c.maker.alloc_reported(++address, 10 * kMib,
                           {.category = "other", .op = "aten::empty", .stack = loaded});
    c.maker.alloc_reported(
        ++address, 20 * kMib,
        {.category = "optimizer_state", .phase = Phase::kOptimizer, .tensor = state});
  }
  const auto found = c.run(what_fills_the_peak);
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].id, "model_copies");
  EXPECT_THAT(found[0].next_step(), HasSubstr("Free what /u/train.py:14 (main) loads"));
  EXPECT_EQ(found[0].saving_bytes(), 30 * kMib);
  EXPECT_EQ(found[1].id, "optimizer_state_dominates");
}

// Gradients that are projected after each backward, or an evaluation after the last one.
TEST(Explanations, what_most_rounds_make_is_training) {
  for (const bool is_evaluation : {false, true}) {
    Case c;
    for (std::uint64_t step = 1; step <= 3; ++step) {
      c.maker.alloc_reported(
          1, 20 * kMib,
          {.layer = "Net", .category = "activation", .phase = Phase::kForward, .flags = kSaved});
      c.maker.begin_backward();
      c.maker.free(1, 20 * kMib).end_backward();
      if (is_evaluation && step < 3) continue;
      c.maker.alloc_reported(2, 70 * kMib, {.category = "other"});
      if (step < 3) c.maker.free(2, 70 * kMib);
    }
    c.peak_phase = "other";
    EXPECT_THAT(c.run(explain_outside), SizeIs(is_evaluation ? 1 : 0));
  }
}

TEST(Explanations, temporaries_of_a_foreach_optimizer_are_its_scratch) {
  Case c;
  c.maker.alloc_reported(1, 30 * kMib, {.category = "parameter"});
  for (std::uint64_t i = 0; i < 6; ++i) {
    c.maker.alloc_reported(
        2 + i, 5 * kMib,
        {.category = "other", .phase = Phase::kOptimizer, .op = "aten::_foreach_sqrt"});
  }
  c.peak_phase = "optimizer";
  const auto found = c.run(explain_optimizer);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].id, "optimizer_scratch");
  EXPECT_THAT(found[0].next_step(), HasSubstr("foreach=False"));
  EXPECT_EQ(found[0].saving_bytes(), 15 * kMib)
      << "one parameter at a time needs three of its size";
  ASSERT_THAT(found[0].steps, SizeIs(2));
  EXPECT_EQ(found[0].steps[1].saving_bytes, 30 * kMib) << "fused=True needs none";
}

// The update of one parameter, by an optimizer of torch.optim or by the program's own.
Case update_of_one(bool is_of_torch) {
  Case c;
  const auto stack =
      c.maker.stack({{is_of_torch ? "/x/site-packages/torch/optim/rprop.py" : "/u/damped.py", 250,
                      is_of_torch ? "_single_tensor_rprop" : "Damped.step"},
                     {"/x/site-packages/torch/optim/optimizer.py", 530, "wrapper"},
                     {"/u/train.py", 9, "main"}});
  c.maker.alloc_reported(1, 30 * kMib, {.category = "parameter"});
  for (std::uint64_t i = 0; i < 4; ++i) {
    c.maker.alloc_reported(2 + i, 10 * kMib,
                           {.category = "optimizer_scratch",
                            .phase = Phase::kOptimizer,
                            .op = "aten::sign",
                            .stack = stack});
  }
  c.peak_phase = "optimizer";
  return c;
}

TEST(Explanations, an_optimizer_without_foreach_gets_no_advice_to_disable_it) {
  for (const bool is_of_torch : {true, false}) {
    const auto found = update_of_one(is_of_torch).run(explain_optimizer);
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_THAT(steps_text(found[0]), Not(HasSubstr("foreach")));
    EXPECT_THAT(found[0].next_step(), HasSubstr(is_of_torch ? "fused=True" : "/u/damped.py:250"));
    EXPECT_EQ(found[0].saving_bytes(), 0u);
    EXPECT_THAT(update_of_one(is_of_torch).run(explain_line), SizeIs(is_of_torch ? 0 : 1));
  }
}

TEST(Explanations, a_peak_that_no_training_step_reaches_is_reported_with_the_excess) {
  Case c;
  for (int step = 0; step < 2; ++step) {
    c.maker.alloc_reported(
        1, 20 * kMib,
        {.layer = "Net", .category = "activation", .phase = Phase::kForward, .flags = kSaved});
    c.maker.begin_backward();
    c.maker.free(1, 20 * kMib).end_backward();
  }
  const auto stack = c.maker.stack({{"eval.py", 9, "evaluate"}});
  c.maker.alloc_reported(2, 70 * kMib, {.category = "other", .stack = stack});
  c.peak_phase = "other";
  const auto found = c.run(explain_outside);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].title, HasSubstr("50.0 MiB above the largest step"));
  EXPECT_THAT(found[0].title, HasSubstr("after the last backward"));
  EXPECT_THAT(found[0].evidence[0], HasSubstr("eval.py:9 (evaluate): 70.0 MiB"));
}

// Two steps, and a larger forward at the end: an evaluation, or one that fails.
Case larger_forward(model::Autograd last) {
  Case c;
  for (int step = 0; step < 3; ++step) {
    const std::uint64_t mib = step == 2 ? 30 : 4;
    for (std::uint64_t i = 0; i < 3; ++i) {
      c.maker.alloc_reported(1 + i, mib * kMib,
                             {.layer = "Net." + std::to_string(i),
                              .category = "activation",
                              .phase = Phase::kForward,
                              .op = "aten::linear",
                              .flags = step == 2 ? LifetimeFlags::kNothing : kSaved,
                              .autograd = step == 2 ? last : model::Autograd::kBuilt});
    }
    if (step == 2) break;
    c.maker.begin_backward();
    for (std::uint64_t i = 0; i < 3; ++i) c.maker.free(1 + i, mib * kMib);
    c.maker.end_backward();
  }
  c.peak_phase = "forward";
  return c;
}

TEST(Explanations, a_forward_that_fails_is_not_outside_of_training) {
  EXPECT_THAT(larger_forward(model::Autograd::kBuilt).run(explain_outside), IsEmpty());
  EXPECT_THAT(larger_forward(model::Autograd::kOff).run(explain_outside), SizeIs(1));
}

// A function called by forward or by the training loop allocates most; `main` itself calls the
// layers.
TEST(Explanations, a_function_that_makes_most_activations_should_be_checkpointed) {
  for (const char* function : {"sinkhorn", "main"}) {
    Case c;
    const auto in_layer =
        c.maker.stack({{"/x/site-packages/torch/nn/modules/linear.py", 134, "Linear.forward"},
                       {"train.py", 4, "main"}});
    const auto outside = c.maker.stack({{"train.py", 9, function}, {"train.py", 5, "main"}});
    c.maker.alloc_reported(
        1, kMib,
        {.layer = "Net", .category = "activation", .phase = Phase::kForward, .stack = in_layer});
    for (std::uint64_t i = 0; i < 30; ++i) {
      c.maker.alloc_reported(2 + i, kMib,
                             {.category = "activation",
                              .phase = Phase::kForward,
                              .stack = outside,
                              .autograd = model::Autograd::kBuilt});
    }
    const auto found = c.run(explain_activations);
    ASSERT_THAT(found, SizeIs(1));
    const bool is_named = found[0].next_step().starts_with("Run parts of sinkhorn, ");
    EXPECT_EQ(is_named, std::string_view(function) == "sinkhorn");
  }
}

// Memory that a function saves for its backward. Unlike a module's forward, the function is called
// by torch.
TEST(Explanations, the_forward_of_an_autograd_function_is_named) {
  for (const bool is_of_autograd : {false, true}) {
    Case c;
    const auto stack = c.maker.stack(
        {{"swish.py", 9, "Swish.forward"},
         {is_of_autograd ? "/x/site-packages/torch/autograd/function.py" : "/u/a.py", 570, "apply"},
         {"swish.py", 20, "main"}});
    for (std::uint64_t i = 0; i < 12; ++i) {
      c.maker.alloc_reported(1 + i, kMib,
                             {.layer = "Net." + std::to_string(i),
                              .category = "activation",
                              .phase = Phase::kForward,
                              .flags = kSaved,
                              .stack = stack,
                              .autograd = model::Autograd::kBuilt});
    }
    c.peak_phase = "forward";
    const auto found = c.run(explain_activations);
    ASSERT_THAT(found, SizeIs(1));
    const std::string text = testing::PrintToString(found[0].evidence);
    EXPECT_EQ(text.find("made by Swish.forward of a torch.autograd.Function") != std::string::npos,
              is_of_autograd);
    EXPECT_EQ(found[0].next_step().find("ctx.save_for_backward") != std::string::npos,
              is_of_autograd);
  }
}

}  // namespace
}  // namespace plimsoll::findings

// Explanations of a snapshot's peak, whose categories are inferred.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/own_case.h"

namespace plimsoll::findings {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Case snapshot() {
  Case c;
  c.is_snapshot = true;
  c.peak_phase.clear();
  return c;
}

// Ten blocks of a diffusion transformer, each of which keeps `mib`.
void forward(Case& c, std::uint64_t mib) {
  const auto stack = c.maker.stack({{"/x/site-packages/torch/nn/functional.py", 9, "linear"},
                                    {"/u/mlp.py", 7, "forward"},
                                    {"/u/dit.py", 30, "forward"},
                                    {"/u/dit.py", 20, "forward"},
                                    {"/u/train.py", 5, "training_step"},
                                    {"/u/train.py", 99, "<module>"}});
  for (std::uint64_t i = 0; i < 10; ++i) {
    c.maker.alloc_reported(1 + i, mib * kMib, {.category = "activation", .stack = stack});
  }
}

void live_before(Case& c, std::uint64_t count, std::uint64_t mib, const char* category) {
  std::vector<model::Block> blocks;
  constexpr std::uint64_t kFirst = std::uint64_t{1} << 40;
  for (std::uint64_t i = 0; i < count; ++i) {
    model::Block block;
    block.address = kFirst + i * mib * kMib;
    block.size = block.requested_size = mib * kMib;
    block.state = model::BlockState::kActiveAllocated;
    blocks.push_back(block);
  }
  c.maker.segment(kFirst, count * mib * kMib, blocks);
  c.category_before = category;
}

TEST(SnapshotPeak, activations_are_named_with_their_calling_functions) {
  Case c = snapshot();
  forward(c, 10);
  const auto found = c.run(what_fills_the_peak);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].id, "activations_dominate");
  EXPECT_THAT(found[0].title, HasSubstr("100.0 MiB of 100.0 MiB"));
  EXPECT_THAT(
      found[0].evidence,
      Contains("The calls that lead to most of it: train.py:5 (training_step) \u2192 "
               "dit.py:20 (forward) \u2192 dit.py:30 (forward) \u2192 mlp.py:7 (forward)."));
  EXPECT_THAT(found[0].evidence, Contains("The peak of 100.0 MiB contains activations 100.0 MiB."));
  EXPECT_THAT(found[0].evidence, Contains(HasSubstr("Inferred from stacks and lifetimes: a")));
  EXPECT_THAT(found[0].next_step(), HasSubstr("checkpoint"));
}

TEST(SnapshotPeak, optimizer_state_from_before_the_history_counts) {
  Case c = snapshot();
  live_before(c, 4, 20, "optimizer_state");
  forward(c, 8);
  const auto found = c.run(what_fills_the_peak);
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_THAT(found[0].title, HasSubstr("50.0% of the peak"));
  EXPECT_EQ(found[0].id, "optimizer_state_dominates");
  EXPECT_THAT(found[0].evidence,
              Contains(HasSubstr("for 80.0 MiB from before the history from sizes alone")));
  EXPECT_EQ(found[1].id, "activations_dominate");
}

TEST(SnapshotPeak, parameters_alone_are_not_a_finding) {
  Case c = snapshot();
  live_before(c, 4, 20, "parameter");
  forward(c, 1);
  EXPECT_THAT(c.run(what_fills_the_peak), IsEmpty());
}

TEST(SnapshotPeak, the_temporaries_of_an_optimizer_are_its_scratch) {
  Case c = snapshot();
  const auto stack =
      c.maker.stack({{"/x/site-packages/torch/optim/adamw.py", 500, "_multi_tensor_adamw"},
                     {"/x/site-packages/torch/optim/optimizer.py", 530, "wrapper"},
                     {"/u/train.py", 9, "main"}});
  live_before(c, 2, 20, "parameter");
  for (std::uint64_t i = 0; i < 6; ++i) {
    c.maker.alloc_reported(1 + i, 5 * kMib, {.category = "other", .stack = stack});
  }
  const auto found = c.run(what_fills_the_peak);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].id, "optimizer_scratch");
}

TEST(SnapshotPeak, a_line_of_memory_from_before_the_history_is_not_judged) {
  Case c = snapshot();
  live_before(c, 1, 80, "unknown");
  forward(c, 1);
  EXPECT_THAT(c.run(what_fills_the_peak), IsEmpty());
}

TEST(SnapshotPeak, one_line_with_few_large_tensors_is_named_with_its_callers) {
  Case c = snapshot();
  const auto stack = c.maker.stack({{"/u/loss.py", 7, "word_loss"}, {"/u/train.py", 5, "main"}});
  c.maker.alloc_reported(50, 60 * kMib, {.category = "activation", .stack = stack});
  forward(c, 3);
  const auto found = c.run(what_fills_the_peak);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].id, "one_line_dominates");
  EXPECT_THAT(found[0].evidence, Contains("It holds 1 tensor of 60.0 MiB, called by main."));
}

// A forward of twenty operators; a local variable refers to three tensors at a time.
Case measured_forward(bool keeps_graph, bool has_backward, const char* file = "/u/layers.py") {
  Case c = snapshot();
  live_before(c, 4, 20, "parameter");
  const auto stack = c.maker.stack(
      {{file, 3, "call"}, {"/u/model.py", 7, "forward"}, {"/u/bench.py", 5, "measure"}});
  for (std::uint64_t i = 0; i < 20; ++i) {
    c.maker.alloc_reported(1 + i, 10 * kMib, {.category = "activation", .stack = stack});
    if (!keeps_graph && i >= 3) c.maker.free(1 + i - 3, 10 * kMib);
  }
  c.peak_at_event = keeps_graph ? 19 : 3;
  if (has_backward) c.maker.alloc_reported(50, kMib, {.category = "activation_gradient"});
  for (std::uint64_t i = keeps_graph ? 0 : 17; i < 20; ++i) c.maker.free(1 + i, 10 * kMib);
  return c;
}

TEST(SnapshotPeak, a_forward_that_keeps_its_graph_without_a_backward_is_named) {
  const auto found = measured_forward(true, false).run(what_fills_the_peak);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].id, "graph_without_backward");
  EXPECT_THAT(found[0].evidence, Contains(HasSubstr("20 activations of 20 activations")));
  EXPECT_THAT(found[0].next_step(), HasSubstr("torch.no_grad()"));
  EXPECT_EQ(measured_forward(true, true).run(what_fills_the_peak)[0].id, "activations_dominate");
  EXPECT_THAT(measured_forward(false, false).run(what_fills_the_peak), IsEmpty());
}

TEST(SnapshotPeak, no_graph_is_blamed_if_a_backward_may_be_hidden) {
  Case training = measured_forward(true, false);
  const auto stack = training.maker.stack(
      {{"/x/site-packages/torch/optim/optimizer.py", 530, "wrapper"}, {"/u/bench.py", 9, "main"}});
  training.maker.alloc_reported(90, 1, {.category = "other", .stack = stack});
  EXPECT_EQ(training.run(what_fills_the_peak)[0].id, "activations_dominate");

  Case compiled = measured_forward(true, false, "/tmp/torchinductor_u/ab/cab.py");
  EXPECT_EQ(compiled.run(what_fills_the_peak)[0].id, "activations_dominate");
}

TEST(SnapshotPeak, memory_from_before_the_history_that_fills_the_peak_is_named_as_unknown) {
  Case c = snapshot();
  live_before(c, 4, 20, "unknown");
  forward(c, 1);
  const auto found = c.run(unknown_memory);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].title, HasSubstr("80.0 MiB of the 90.0 MiB at the peak"));
  Case known = snapshot();
  live_before(known, 4, 20, "parameter");
  forward(known, 1);
  EXPECT_THAT(known.run(unknown_memory), IsEmpty());
}

TEST(NearMisses, list_the_figures_below_a_threshold_closest_first) {
  Case c = snapshot();
  live_before(c, 3, 20, "optimizer_state");
  forward(c, 24);
  static std::vector<report::NearMiss> near;
  c.run(+[](const Facts& facts) {
    near = near_misses(facts);
    return Findings{};
  });
  ASSERT_THAT(near, SizeIs(1)) << "activations are above";
  EXPECT_EQ(near[0].id, "optimizer_state_dominates");
  EXPECT_EQ(near[0].text, "optimizer state is 20.0% of the peak (a finding at 33.3%)");
  EXPECT_NEAR(near[0].closeness, 0.6, 1e-9);
}

// Four tensors of 100 MiB, of which the program frees three before it allocates the last one.
Findings freed(bool waits, const char* file) {
  Case c = snapshot();
  const auto stack = c.maker.stack({{file, 9, "gather"}, {"/u/train.py", 5, "main"}});
  for (std::uint64_t i = 1; i < 4; ++i) {
    c.maker.alloc_reported(i, 100 * kMib, {.category = "activation", .stack = stack});
    c.maker.event(model::Action::kFreeRequested, i, 100 * kMib);
    if (!waits) c.maker.event(model::Action::kFreeCompleted, i, 100 * kMib);
  }
  c.maker.alloc_reported(4, 100 * kMib, {.category = "activation", .stack = stack});
  c.peak_at_event = waits ? 6 : 9;
  if (!waits) return c.run(explain_pending);
  for (std::uint64_t i = 1; i < 4; ++i) c.maker.event(model::Action::kFreeCompleted, i, 100 * kMib);
  return c.run(explain_pending);
}

TEST(SnapshotPeak, freed_memory_that_waits_for_a_stream_is_named) {
  const auto found = freed(true, "/u/train.py");
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].title,
            "Freed memory that waits for a stream is 75.0% of the peak on cuda:0: 300.0 MiB of "
            "400.0 MiB");
  EXPECT_EQ(found[0].saving_bytes(), 300 * kMib);
  EXPECT_THAT(found[0].evidence, Contains(HasSubstr("the peak would be 100.0 MiB")));
  EXPECT_THAT(found[0].next_step(), HasSubstr("wait_stream"));
  const auto gathered = freed(true, "/x/site-packages/torch/distributed/fsdp/collectives.py");
  EXPECT_THAT(gathered[0].next_step(), HasSubstr("Set TORCH_NCCL_AVOID_RECORD_STREAMS=1"));
  EXPECT_THAT(freed(false, "/u/train.py"), IsEmpty());
}

}  // namespace
}  // namespace plimsoll::findings

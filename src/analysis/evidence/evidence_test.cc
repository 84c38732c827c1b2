#include "analysis/evidence/evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/trace_maker.h"

namespace plimsoll::analysis::evidence {
namespace {

using model::LifetimeFlags;
using model::Phase;
using testing::ElementsAre;
using tests::Reported;
using tests::TraceMaker;

struct Table {
  explicit Table(TraceMaker& maker)
      : trace(maker.finish()),
        lines(trace),
        of_trace(trace, lines),
        evidence(trace, of_trace, trace.devices.at(0)) {}

  // What `fact` says of each lifetime.
  template <typename Fact>
  std::vector<Fact> all(Fact (Evidence::*fact)(std::uint32_t) const) const {
    std::vector<Fact> facts;
    for (std::uint32_t id = 0; id < trace.devices.at(0).lifetimes.size(); ++id) {
      facts.push_back((evidence.*fact)(id));
    }
    return facts;
  }

  model::Trace trace;
  model::UserLines lines;
  TraceFacts of_trace;
  Evidence evidence;
};

TraceMaker maker_on_cpu() {
  TraceMaker maker;
  maker.on(model::Device{});
  return maker;
}

TEST(Evidence, states_who_freed_each_allocation) {
  TraceMaker maker = maker_on_cpu();
  for (const std::uint64_t address : {1, 2, 3}) maker.alloc_reported(address, 512, {});
  maker.alloc_reported(4, 512, {.flags = LifetimeFlags::kTemporary});
  maker.free_immediately(4, 512);
  maker.begin_backward();
  maker.free_immediately(1, 512);
  maker.end_backward();
  maker.free_immediately(2, 512);
  EXPECT_THAT(Table(maker).all(&Evidence::fate),
              ElementsAre(Fate::kBackward, Fate::kProgram, Fate::kLive, Fate::kOperator));
}

TEST(Evidence, states_that_a_stream_delayed_a_free) {
  TraceMaker maker = maker_on_cpu();
  maker.alloc(1, 512).event(model::Action::kFreeRequested, 1, 512);
  maker.alloc(2, 512).event(model::Action::kFreeCompleted, 1, 512);
  EXPECT_THAT(Table(maker).all(&Evidence::fate), ElementsAre(Fate::kStream, Fate::kLive));
}

TEST(Spans, count_rounds_by_outermost_backwards) {
  TraceMaker maker = maker_on_cpu();
  maker.alloc(1, 512);
  maker.begin_backward().begin_backward();
  maker.alloc(2, 512);
  maker.end_backward().end_backward();
  maker.alloc(3, 512);
  maker.begin_backward();
  maker.free_immediately(1, 512);
  maker.end_backward();
  const Table table(maker);
  const Spans& spans = table.evidence.spans();
  ASSERT_EQ(spans.backwards().size(), 2u);
  std::vector<std::uint32_t> rounds;
  for (const std::uint32_t event : {0u, 1u, 2u, 3u, model::kNone}) {
    rounds.push_back(spans.round(event));
  }
  EXPECT_THAT(rounds, ElementsAre(0u, 1u, 1u, 2u, 2u));
  EXPECT_EQ(spans.backward_at(1), 0u);
  EXPECT_EQ(spans.backward_at(2), 2u);  // none
}

TEST(Spans, count_steps) {
  TraceMaker maker = maker_on_cpu();
  maker.alloc(1, 512).step(0).alloc(2, 512).step(1).free_immediately(1, 512);
  const Table table(maker);
  const Spans& spans = table.evidence.spans();
  EXPECT_EQ(spans.step(0), 0u);
  EXPECT_EQ(spans.step(1), 1u);
  EXPECT_EQ(spans.step(model::kNone), 2u);
  EXPECT_EQ(spans.end_of_step(0), 1u);
  EXPECT_EQ(spans.end_of_step(2), model::kNone);
}

TEST(Evidence, numbers_the_passes_of_a_root_that_are_marked) {
  TraceMaker maker = maker_on_cpu();
  const Reported inside{.layer = "Net.fc", .phase = Phase::kForward};
  for (const std::uint64_t address : {1, 2}) {
    maker.enter_layer("Net");
    maker.alloc_reported(address, 512, inside);
    maker.exit_layer("Net");
  }
  EXPECT_THAT(Table(maker).all(&Evidence::pass), ElementsAre(1u, 2u));
}

// Without marks, a pass begins where the layers of the root allocate after other code.
TEST(Evidence, infers_the_passes_of_a_root) {
  TraceMaker maker = maker_on_cpu();
  const Reported inside{.layer = "Net.fc", .phase = Phase::kForward, .op = "aten::linear"};
  maker.alloc_reported(1, 512, inside).alloc_reported(2, 512, inside);
  maker.alloc(3, 512);
  maker.alloc_reported(4, 512, inside);
  EXPECT_THAT(Table(maker).all(&Evidence::pass), ElementsAre(1u, 1u, 0u, 2u));
}

// An attempt that failed and the next one: the first call runs once in most passes.
TEST(Evidence, tells_passes_apart_that_follow_each_other) {
  TraceMaker maker = maker_on_cpu();
  const Reported first{.layer = "Net.a", .phase = Phase::kForward, .op = "aten::embedding"};
  const Reported second{.layer = "Net.b", .phase = Phase::kForward, .op = "aten::linear"};
  std::uint64_t address = 0;
  const auto pass = [&] {
    maker.alloc_reported(++address, 512, first);
    maker.alloc_reported(++address, 512, second);
  };
  pass();
  maker.alloc_reported(++address, 512, {});
  pass(), pass();
  EXPECT_THAT(Table(maker).all(&Evidence::pass), ElementsAre(1u, 1u, 0u, 2u, 2u, 3u, 3u));
}

// A forward pass keeps more than its result for a backward, or it built its graph for nothing.
TEST(Evidence, knows_which_passes_a_backward_uses) {
  TraceMaker maker = maker_on_cpu();
  const Reported made{.layer = "Net.a",
                      .phase = Phase::kForward,
                      .op = "aten::linear",
                      .autograd = model::Autograd::kBuilt};
  for (const std::uint64_t address : {1, 2, 3}) maker.alloc_reported(address, 512, made);
  maker.alloc_reported(4, 512, {});
  for (const std::uint64_t address : {5, 6, 7}) maker.alloc_reported(address, 512, made);
  maker.begin_backward();
  maker.free_immediately(3, 512).free_immediately(6, 512);  // the first pass's result
  maker.end_backward();
  EXPECT_THAT(Table(maker).all(&Evidence::is_used_by_backward),
              ElementsAre(false, false, true, false, true, true, true));
}

TEST(StackFacts, are_about_where_a_frame_is) {
  TraceMaker maker = maker_on_cpu();
  constexpr const char* kAdam = "/site-packages/torch/optim/adam.py";
  constexpr const char* kBase = "/site-packages/torch/optim/optimizer.py";
  const auto adam =
      maker.stack({{kAdam, 1, "adam"}, {kBase, 2, "wrapper"}, {"/home/a/train.py", 3, "main"}});
  const auto own = maker.stack(
      {{"/home/a/own.py", 1, "step"}, {kBase, 2, "wrapper"}, {"/home/a/train.py", 3, "main"}});
  const auto function = maker.stack({{"/home/a/net.py", 1, "Gate.forward"},
                                     {"/site-packages/torch/autograd/function.py", 2, "apply"},
                                     {"/home/a/train.py", 3, "main"}});
  for (const auto stack : {adam, own, function}) maker.alloc(1 + stack.value, 512, stack);
  const Table table(maker);
  const StackFacts& facts = table.evidence.stacks();
  EXPECT_TRUE(facts.has(adam, StackFlag::kTorchOptimizer));
  EXPECT_FALSE(facts.has(own, StackFlag::kTorchOptimizer));
  EXPECT_TRUE(facts.has(own, StackFlag::kOptimizer));
  EXPECT_TRUE(facts.has(function, StackFlag::kAutogradFunction));
  EXPECT_FALSE(facts.has(own, StackFlag::kAutogradFunction));
}

TEST(StackFacts, name_the_package_that_comes_first) {
  TraceMaker maker = maker_on_cpu();
  const auto stack =
      maker.stack({{"/x/site-packages/transformers/models/llama/modeling_llama.py", 1, "forward"},
                   {"/x/site-packages/transformers/trainer.py", 2, "train"}});
  maker.alloc(1, 512, stack);
  const Table table(maker);
  EXPECT_EQ(table.evidence.stacks().advice(stack, Remedy::kCheckpoint),
            "Set gradient_checkpointing=True in TrainingArguments");
  EXPECT_EQ(table.evidence.stacks().advice(model::kNoStack, Remedy::kCheckpoint), "");
}

TEST(Operators, have_several_classes) {
  const OperatorSet sub = classes_of("aten::sub");
  EXPECT_TRUE(sub.has(Operator::kDifference));
  EXPECT_TRUE(sub.has(Operator::kElementwise));
  EXPECT_FALSE(sub.has(Operator::kLinear | Operator::kClone));
  EXPECT_TRUE(classes_of("SparseMmBackward0").has(Operator::kSparseBackward));
  EXPECT_FALSE(classes_of("").has(Operator::kElementwise));
}

}  // namespace
}  // namespace plimsoll::analysis::evidence

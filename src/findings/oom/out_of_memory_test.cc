// The texts about what a failed step needed. rules_test.cc tests the other texts of this rule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "findings/rules.h"
#include "tests/support/facts_case.h"
#include "tests/support/steps_text.h"
#include "tests/support/units.h"

namespace plimsoll::findings {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using tests::kGib;

report::OomChange change(std::string name, std::uint64_t needed_gib, bool is_enough) {
  report::OomChange row;
  row.change = std::move(name);
  row.needed_bytes = needed_gib * kGib;
  row.is_enough = is_enough;
  return row;
}

// An estimate: the step needs 96 GiB, 79 GiB are available, and the batch has 16 samples.
report::OomDetails needy(std::string basis) {
  report::OomDetails row = oom("too_big");
  row.requested_active_bytes = static_cast<std::int64_t>(70 * kGib);
  row.need.basis = std::move(basis);
  row.need.bytes = 96 * kGib;
  row.need.available_bytes = 79 * kGib;
  row.need.scaling_bytes = 90 * kGib;
  row.need.ratio = 2.0;
  row.need.batch_size = 16;
  row.need.earlier_request_bytes = 2 * kGib;
  row.need.changes = {change("contiguous_memory", 96, false), change("smaller_batch", 74, true),
                      change("checkpoint", 30, true), change("optimizer_8bit", 92, false)};
  row.need.changes[1].batch_share = 0.75;
  row.need.changes[1].batch_size = 12;
  row.need.changes[2].layers = "model.layers.0…21";
  return row;
}

TEST(OutOfMemory, states_what_the_step_needed_and_what_would_have_been_enough) {
  FactsCase c;
  c.device().oom_details = {needy("earlier_step")};
  const Findings found = c.run(out_of_memory);
  EXPECT_EQ(found[0].title,
            "cuda:0 ran out of memory because the batch is too large: the step needs about 96.0 "
            "GiB, and 79.0 GiB are available");
  EXPECT_THAT(found[0].evidence,
              Contains("The whole step needs about 96.0 GiB, and 79.0 GiB are available. The "
                       "estimate follows an earlier step of this recording: the tensors of this "
                       "one are 2.0 times as large."));
  EXPECT_THAT(found[0].evidence,
              Contains("Not enough on its own: contiguous memory (expandable_segments) (needs 96.0 "
                       "GiB), optimizer state in 8 bits (needs 92.0 GiB)."));
  EXPECT_EQ(steps_text(found[0]),
            "Use a batch of at most 12 instead of 16. | Run model.layers.0…21 through "
            "torch.utils.checkpoint.checkpoint(…, use_reentrant=False), which needs about 30.0 "
            "GiB.");
}

TEST(OutOfMemory, names_a_request_that_grows_with_the_square) {
  FactsCase c;
  c.device().oom_details = {needy("earlier_step")};
  c.device().oom_details[0].need.earlier_request_bytes = kGib;
  EXPECT_THAT(
      c.run(out_of_memory)[0].evidence,
      Contains(HasSubstr("and this request is 4.0 times as large: it grows quadratically")));
}

TEST(OutOfMemory, a_batch_that_has_fitted_before_is_not_too_large) {
  FactsCase c;
  c.device().oom_details = {needy("earlier_step")};
  c.device().oom_details[0].need.ratio = 1.0;
  const Findings found = c.run(out_of_memory);
  EXPECT_EQ(found[0].title,
            "cuda:0 ran out of memory: the step needs about 96.0 GiB, and 79.0 GiB are available");
  EXPECT_THAT(found[0].evidence, Contains(HasSubstr("which completed. Since then, more is kept")));
}

TEST(OutOfMemory, pieces_of_other_private_pools_are_not_saved_by_contiguous_memory) {
  FactsCase c;
  c.device().oom_details = {oom("fragmentation")};
  c.device().oom_details[0].private_idle_bytes = 4 * kGib;
  EXPECT_EQ(c.run(out_of_memory)[0].saving_bytes(), 5 * kGib);
}

TEST(OutOfMemory, contiguous_memory_that_leaves_little_is_nothing_to_rely_on) {
  FactsCase c;
  c.device().oom_details = {needy("earlier_step")};
  c.device().oom_details[0].need.bytes = 78 * kGib;
  const Findings found = c.run(out_of_memory);
  EXPECT_THAT(found[0].title,
              HasSubstr("about 78.0 GiB of the 79.0 GiB that are available, of which "));
  EXPECT_THAT(steps_text(found[0]), HasSubstr("which is just enough: it leaves 1.0 GiB."));
}

TEST(OutOfMemory, the_first_step_of_an_optimizer_is_named) {
  FactsCase c;
  c.device().oom_details = {needy("optimizer_state")};
  report::OomNeed& need = c.device().oom_details[0].need;
  need.scaling_bytes = 0;
  need.state_bytes = 20 * kGib;
  need.scratch_bytes = 10 * kGib;
  need.changes = {};
  const Findings found = c.run(out_of_memory);
  EXPECT_THAT(found[0].title, HasSubstr("in the optimizer's first step: it needs about 96.0 GiB"));
  EXPECT_THAT(found[0].evidence,
              Contains(HasSubstr("20.0 GiB of it is optimizer state of parameters")));
  EXPECT_THAT(found[0].evidence,
              Contains(HasSubstr("10.0 GiB are temporaries, which fused=True avoids")));
  EXPECT_THAT(steps_text(found[0]),
              HasSubstr("8 bits (AdamW8bit of bitsandbytes or torchao). | Shard parameters"));
}

TEST(OutOfMemory, a_forward_that_training_does_not_make_is_named) {
  for (const auto autograd : {model::Autograd::kUnknown, model::Autograd::kOff}) {
    FactsCase c;
    model::Event failed;
    failed.action = model::Action::kOom;
    failed.autograd = autograd;
    c.maker.event(failed);
    c.device().oom_details = {needy("unknown")};
    report::OomNeed& need = c.device().oom_details[0].need;
    need = {};
    need.basis = "unknown";
    need.why_unknown = "nothing is alike";
    need.new_caller = "val.py:9 (validate)";
    need.caller_bytes = 60 * kGib;
    const Findings found = c.run(out_of_memory);
    EXPECT_THAT(found[0].title, HasSubstr("val.py:9 (validate): it holds 60.0 GiB of activations"));
    const bool is_off = autograd == model::Autograd::kOff;
    EXPECT_THAT(found[0].next_step(),
                HasSubstr(is_off ? "Use a smaller batch" : "torch.no_grad()"));
    EXPECT_EQ(steps_text(found[0]).find("no_grad") == std::string::npos, is_off);
    EXPECT_THAT(found[0].evidence,
                Contains("What the whole step needs is unknown: nothing is alike."));
  }
}

TEST(OutOfMemory, idle_memory_of_private_pools_is_named_with_its_pool) {
  FactsCase c;
  c.device().oom_details = {oom("too_big")};
  c.device().oom_details[0].private_idle_bytes = 5 * kGib;
  c.device().oom_details[0].private_pools = "pool (1, 0)";
  const Findings found = c.run(out_of_memory);
  EXPECT_THAT(found[0].evidence,
              Contains(HasSubstr("5.0 GiB were idle in pool (1, 0) of a CUDA graph or MemPool")));
  EXPECT_THAT(found[0].evidence, Contains(HasSubstr("empty_cache() cannot release them")));
}

// A try makes 6 GiB and fails; 2 GiB of a second try follow, which fails as well.
Findings with_second_try(std::uint32_t line_of_second, const char* category = "activation",
                         bool is_freed = false) {
  FactsCase c;
  c.is_snapshot = true;
  const auto fail = [&](model::StackId stack) {
    model::Event failed;
    failed.action = model::Action::kOom;
    failed.stack = stack;
    c.maker.event(failed);
  };
  const auto stack = [&](std::uint32_t line) {
    return c.maker.stack({{"model.py", 3, "forward"},
                          {"train.py", 9, "step"},
                          {"train.py", line, "train"},
                          {"train.py", 99, "<module>"}});
  };
  c.maker.alloc_reported(
      1, 2 * kGib,
      {.category = "activation", .stack = c.maker.stack({{"train.py", 98, "<module>"}})});
  c.maker.alloc_reported(2, 6 * kGib, {.category = category, .stack = stack(20)});
  fail(stack(20));
  if (is_freed) c.maker.free(2, 6 * kGib);
  c.maker.alloc_reported(3, 2 * kGib, {.category = "activation", .stack = stack(line_of_second)});
  fail(stack(line_of_second));
  c.device().oom_details = {oom("too_big"), oom("too_big")};
  c.device().oom_details[0].event = 2;
  c.device().oom_details[1].event = is_freed ? 6 : 4;
  c.device().oom_details[1].requested_active_bytes =
      static_cast<std::int64_t>((is_freed ? 4 : 10) * kGib);
  return c.run(out_of_memory);
}

TEST(OutOfMemory, what_a_failed_try_has_left_is_compared_with_the_retry) {
  const report::Finding found = with_second_try(22)[0];
  EXPECT_EQ(found.title,
            "cuda:0 ran out of memory in a retry: 6.0 GiB of the 10.0 GiB live are left from a try "
            "that failed before");
  EXPECT_THAT(found.evidence, Contains("They are 1 tensor that the call at train.py:20 (train) "
                                       "made before it failed (event 2)."));
  EXPECT_EQ(found.saving_bytes(), 6 * kGib);
  EXPECT_THAT(found.next_step(), HasSubstr("Retry after the except block"));
}

TEST(OutOfMemory, not_all_that_is_live_is_of_a_failed_try) {
  const auto title = [](const Findings& found) { return found[0].title; };
  EXPECT_THAT(title(with_second_try(22, "parameter")), Not(HasSubstr("retry")));
  EXPECT_THAT(title(with_second_try(22, "activation", true)), Not(HasSubstr("retry")));
  EXPECT_THAT(title(with_second_try(20)), Not(HasSubstr("retry"))) << "the same call";
}

}  // namespace
}  // namespace plimsoll::findings

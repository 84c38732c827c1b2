// The rules for native recordings: each is raised where it should be, and not just below its
// threshold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "findings/peak/peak.h"
#include "findings/rules.h"
#include "tests/support/own_case.h"

namespace plimsoll::findings {
namespace {

using model::LifetimeFlags;
using model::Phase;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

report::LayerRow layer(std::string path, std::uint64_t saved_mib) {
  report::LayerRow row;
  row.layer = std::move(path);
  row.inclusive.saved_bytes = saved_mib * kMib;
  return row;
}

void fill(Case& c, std::uint64_t activations_mib, std::uint64_t others_mib) {
  c.maker.alloc_reported(1, activations_mib * kMib,
                         {.category = "activation", .phase = Phase::kForward});
  c.maker.alloc_reported(2, others_mib * kMib, {.category = "parameter"});
}

TEST(OwnRules, activations_at_half_of_the_peak_are_reported_with_layers_to_checkpoint) {
  Case c;
  fill(c, 60, 40);
  report::SavedRow saved;
  saved.bytes = 58 * kMib;
  saved.live_bytes = 98 * kMib;
  saved.step = 3;
  c.report.tables.saved.push_back(saved);
  c.report.tables.saved_by_operator.push_back(
      {0, "aten::conv2d", 40 * kMib, 9, kMib, 40.0 / 58.0, {}});
  c.report.tables.layers = {layer("", 2),          layer("Net", 56),      layer("Net.up", 30),
                            layer("Net.up.0", 16), layer("Net.up.1", 14), layer("Net.mid", 12),
                            layer("Net.down", 13), layer("Net.head", 1)};
  const auto found = c.run(explain_activations);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].title, "Activations are 60.0% of the peak on cuda:0: 60.0 MiB of 100.0 MiB");
  EXPECT_THAT(
      found[0].evidence,
      Contains("When backward began in step 3, 58.0 MiB of the 98.0 MiB live had been created in "
               "forward; most by aten::conv2d 40.0 MiB (69.0%)."));
  EXPECT_THAT(found[0].evidence,
              Contains("Net.down, Net.mid, Net.up.0…1 hold 55.0 MiB of it: 4 × 13.8 MiB."));
  EXPECT_THAT(found[0].next_step(), HasSubstr("Run Net.down, Net.mid, Net.up.0…1 through"));
  EXPECT_EQ(found[0].saving_bytes(), 39 * kMib) << "all but the largest, which comes back";
}

TEST(OwnRules, activations_below_half_or_4_mib_or_off_the_peak_are_not_reported) {
  Case below;
  fill(below, 49, 51);
  EXPECT_THAT(below.run(explain_activations), IsEmpty());
  Case small;
  fill(small, 3, 1);
  EXPECT_THAT(small.run(explain_activations), IsEmpty());
  Case elsewhere;
  fill(elsewhere, 60, 40);
  elsewhere.point_name = "end";
  EXPECT_THAT(elsewhere.run(explain_activations), IsEmpty());
}

TEST(OwnRules, one_layer_that_holds_everything_gains_nothing_from_a_checkpoint) {
  Case c;
  fill(c, 60, 40);
  c.report.tables.saved.push_back({});
  c.report.tables.saved[0].bytes = 58 * kMib;
  c.report.tables.layers = {layer("Net", 58)};
  const auto found = c.run(explain_activations);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].saving_bytes(), 0u);
  EXPECT_THAT(found[0].next_step(), HasSubstr("smaller batch"));
}

TEST(OwnRules, without_saved_tensors_the_activations_of_layers_count) {
  Case c;
  fill(c, 60, 40);
  c.report.tables.layers = {layer("Net", 0), layer("Net.a", 0), layer("Net.b", 0)};
  c.report.tables.layers[0].inclusive.activation_bytes = 60 * kMib;
  c.report.tables.layers[1].inclusive.activation_bytes = 35 * kMib;
  c.report.tables.layers[2].inclusive.activation_bytes = 25 * kMib;
  const auto found = c.run(explain_activations);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].saving_bytes(), 25 * kMib);
}

TEST(OwnRules, optimizer_state_that_is_a_third_of_the_peak_is_reported) {
  for (const std::uint64_t others : {80u, 81u}) {
    Case c;
    const auto first = c.maker.tensor("fc.weight.exp_avg");
    const auto second = c.maker.tensor("fc.weight.exp_avg_sq", "bfloat16");
    c.maker.alloc_reported(
        1, 24 * kMib, {.category = "optimizer_state", .phase = Phase::kOptimizer, .tensor = first});
    c.maker.alloc_reported(
        2, 16 * kMib,
        {.category = "optimizer_state", .phase = Phase::kOptimizer, .tensor = second});
    c.maker.alloc_reported(3, others * kMib, {.category = "parameter"});
    const auto found = c.run(explain_optimizer);
    ASSERT_THAT(found, SizeIs(others == 80 ? 1 : 0));
    if (found.empty()) continue;
    EXPECT_THAT(found[0].evidence, Contains("It is exp_avg 24.0 MiB, exp_avg_sq 16.0 MiB."));
    EXPECT_THAT(found[0].evidence, Contains("24.0 MiB of it are float32."));
    EXPECT_EQ(found[0].saving_bytes(), 18 * kMib);
  }
}

// A step that retains its gradients while the next one runs.
Case steps(std::uint64_t gradient_mib, std::uint64_t rest_mib) {
  Case c;
  c.maker.alloc_reported(9, rest_mib * kMib, {.category = "parameter"});
  c.maker.alloc_reported(1, gradient_mib * kMib,
                         {.category = "gradient", .phase = Phase::kBackward});
  c.maker.step(1);
  c.maker.alloc_reported(3, 1, {.category = "activation", .phase = Phase::kForward});
  return c;
}

TEST(OwnRules, gradients_that_outlive_their_step_are_reported) {
  auto c = steps(20, 80);
  const auto found = c.run(explain_gradients);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].saving_bytes(), 1u);  // then the peak is in the first step
  auto small = steps(15, 80);
  EXPECT_THAT(small.run(explain_gradients), IsEmpty());
  auto of_no_weight = steps(20, 1000);
  EXPECT_THAT(of_no_weight.run(explain_gradients), IsEmpty());
}

TEST(OwnRules, gradients_accumulated_over_batches_and_dropped_are_healthy) {
  Case c;
  c.maker.alloc_reported(9, 80 * kMib, {.category = "parameter"});
  for (int round = 0; round < 4; ++round) {
    c.maker.begin_backward();
    c.maker.alloc_reported(1, 20 * kMib, {.category = "gradient", .phase = Phase::kBackward});
    c.maker.begin_backward().step(static_cast<std::uint64_t>(round)).free(1, 20 * kMib);
  }
  EXPECT_THAT(c.run(explain_gradients), IsEmpty());
}

TEST(OwnRules, one_percent_of_unknown_memory_is_reported_with_its_reason) {
  for (const std::uint64_t unknown : {2u, 1u}) {
    Case c;
    c.maker.alloc_reported(1, 150 * kMib, {.category = "parameter", .phase = Phase::kForward});
    c.report.tables.unknown_by_reason.push_back(
        {0, "allocated before recording", unknown * kMib, 3, kMib, 0.01, {}});
    const auto found = c.run(unknown_memory);
    ASSERT_THAT(found, SizeIs(unknown == 2 ? 1 : 0));
    if (found.empty()) continue;
    EXPECT_THAT(found[0].evidence,
                Contains("2.0 MiB in 3 allocations: allocated before recording."));
    EXPECT_THAT(found[0].next_step(), HasSubstr("plimsoll run"));
  }
}

TEST(OwnRules, other_files_have_none_of_these_findings) {
  const auto other = [] {
    Case c;
    c.maker.alloc(1, 500 * kMib);
    c.report.tables.unknown_by_reason.push_back({0, "x", 500 * kMib, 1, 500 * kMib, 1.0, {}});
    return c;
  };
  EXPECT_THAT(other().run(what_fills_the_peak), IsEmpty());
  EXPECT_THAT(other().run(unknown_memory), IsEmpty());
}

report::OomDetails failure_on_the_cpu(std::string cause) {
  report::OomDetails failed;
  failed.cause = std::move(cause);
  failed.line = "train.py:3 (step)";
  failed.requested_bytes = 40960 * kMib;
  failed.requested_active_bytes = static_cast<std::int64_t>(2048 * kMib);
  failed.device_free_bytes = 10240 * kMib;
  failed.device_total_bytes = 16384 * kMib;
  return failed;
}

Findings on_the_cpu(report::OomDetails failed) {
  Case c;
  c.maker.on({model::DeviceType::kCpu, -1});
  c.maker.alloc_reported(1, kMib, {.category = "other"});
  c.report.devices.resize(1);
  c.report.devices[0].oom_details = {std::move(failed)};
  return c.run(out_of_memory);
}

TEST(OwnRules, a_failure_on_the_cpu_is_reported_in_terms_of_the_machine) {
  const auto found = on_the_cpu(failure_on_the_cpu("one_large_request"));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].title,
            "cpu ran out of memory on one large request: train.py:3 (step) requested 40.0 GiB in "
            "one allocation, with 2.0 GiB live");
  EXPECT_THAT(found[0].evidence,
              testing::ElementsAre("train.py:3 (step) requested 40.0 GiB (event 0). 2.0 GiB were "
                                   "live, and the machine had 10.0 GiB free of 16.0 GiB.",
                                   "The line must request 30.0 GiB less to fit."));
}

TEST(OwnRules, a_limit_on_the_cpu_is_the_limit_of_the_address_space) {
  report::OomDetails failed = failure_on_the_cpu("process_limit");
  failed.requested_bytes = 4096 * kMib;
  failed.is_limited = true;
  EXPECT_THAT(on_the_cpu(failed)[0].next_step(), HasSubstr("(ulimit -v, vm.overcommit_memory)"));
  failed.limit_bytes = 8192 * kMib;
  const auto found = on_the_cpu(failed);
  EXPECT_THAT(found[0].evidence[0], HasSubstr("16.0 GiB, limit 8.0 GiB set by ulimit -v."));
  EXPECT_THAT(found[0].next_step(), HasSubstr("(ulimit -v, 8.0 GiB now)"));
}

}  // namespace
}  // namespace plimsoll::findings

// Tests each rule on constructed facts: it is raised where it should be, and not just below its
// threshold. tests/golden/findings has complete sentences.
#include "findings/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/facts_case.h"
#include "tests/support/steps_text.h"
#include "tests/support/trace_maker.h"
#include "tests/support/units.h"

namespace plimsoll::findings {
namespace {

using model::Action;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using tests::kGib;
using tests::kMib;
using tests::TraceMaker;

void set_expandable(FactsCase& c) {
  c.maker.builder().add_setting(model::Setting{"expandable_segments", true});
}

report::PinningLine pinning_line(std::string line) {
  report::PinningLine row;
  row.line = std::move(line);
  row.blocks = 3;
  row.block_bytes = 6 * kMib;
  row.pinned_cached_bytes = 9 * kGib;
  return row;
}

// A failure with 10 GiB live.
Findings too_big(const char* category, bool is_snapshot) {
  FactsCase c;
  c.maker.alloc_reported(1, 7 * kGib, {.category = category});
  c.maker.alloc_reported(2, 3 * kGib, {.category = "parameter"});
  c.is_snapshot = is_snapshot;
  c.device().oom_details = {oom("too_big")};
  c.device().oom_details[0].event = 1;
  return c.run(out_of_memory);
}

TEST(OutOfMemory, advises_on_a_model_that_is_too_big_by_what_fills_the_device) {
  const Findings activations = too_big("activation", false);
  ASSERT_THAT(activations, SizeIs(1));
  EXPECT_THAT(activations[0].evidence,
              Contains("Live then were activations 7.0 GiB, parameters 3.0 GiB."));
  EXPECT_THAT(activations[0].next_step(), HasSubstr("Activations are the largest part"));
  EXPECT_THAT(activations[0].next_step(), Not(HasSubstr("if it holds")));
  EXPECT_THAT(too_big("optimizer_state", true)[0].evidence, Contains(HasSubstr("(inferred)")));
  EXPECT_THAT(too_big("optimizer_state", true)[0].next_step(), HasSubstr("8 bits"));
  EXPECT_THAT(too_big("gradient", false)[0].next_step(), HasSubstr("FSDP"));
  EXPECT_THAT(too_big("parameter", false)[0].next_step(), HasSubstr("bfloat16"));
  EXPECT_THAT(too_big("unknown", true)[0].next_step(), HasSubstr("is unknown"));
}

TEST(OutOfMemory, advises_expandable_segments_unless_they_are_on) {
  for (const bool is_on : {false, true}) {
    FactsCase c;
    if (is_on) set_expandable(c);
    c.device().oom_details = {oom("fragmentation")};
    c.device().oom_details[0].pinning_lines = {pinning_line("keep.py:2 (g)")};
    c.device().oom_details[0].joinable_bytes = 9 * kGib;
    const Findings found = c.run(out_of_memory);
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_EQ(found[0].severity, report::FindingSeverity::kCritical);
    EXPECT_EQ(found[0].saving_bytes(), 9 * kGib);
    EXPECT_THAT(steps_text(found[0]), HasSubstr("Allocate what keep.py:2 (g) keeps before"));
    EXPECT_EQ(found[0].next_step().find("=expandable_segments:True") != std::string::npos, !is_on);
    const auto is_said = Contains("expandable_segments is on already.");
    EXPECT_EQ(testing::Value(found[0].evidence, is_said), is_on);
  }
}

TEST(OutOfMemory, expandable_segments_join_no_memory_of_other_streams) {
  for (const std::uint64_t joinable : {std::uint64_t{0}, 2 * kGib}) {
    FactsCase c;
    c.device().oom_details = {oom("fragmentation")};
    c.device().oom_details[0].pinning_lines = {pinning_line("keep.py:2 (g)")};
    c.device().oom_details[0].joinable_bytes = joinable;
    const Findings found = c.run(out_of_memory);
    ASSERT_THAT(found, SizeIs(1));
    const bool is_advised =
        found[0].next_step().find("=expandable_segments:True") != std::string::npos;
    EXPECT_EQ(is_advised, joinable > 0);
    EXPECT_EQ(found[0].saving_bytes(), joinable > 0 ? joinable : 9 * kGib);
    EXPECT_THAT(found[0].evidence, Contains(HasSubstr("belong to other streams")));
  }
}

TEST(OutOfMemory, does_not_name_a_pin_without_a_line_by_its_brackets) {
  FactsCase c;
  c.device().oom_details = {oom("fragmentation")};
  c.device().oom_details[0].pinning_lines = {pinning_line("[backward, no Python frame]")};
  EXPECT_THAT(steps_text(c.run(out_of_memory)[0]),
              HasSubstr("Allocate the long-lived blocks before"));
}

TEST(OutOfMemory, states_how_much_is_missing) {
  FactsCase c;
  c.device().oom_details = {oom("too_big"), oom("one_large_request", "b.py:2 (g)")};
  const Findings found = c.run(out_of_memory);
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_THAT(found[0].evidence, Contains("The line must request 3.0 GiB less to fit."));
  EXPECT_THAT(found[1].evidence, Contains("It needs at least 3.0 GiB more."));
}

TEST(OutOfMemory, reports_other_users_of_the_device_if_the_driver_was_queried) {
  for (const bool is_much : {true, false}) {
    FactsCase c;
    c.device().oom_details = {oom("too_big"), oom("one_large_request", "b.py:2 (g)")};
    report::DeviceBarReport bar{.point = "oom", .total_bytes = 10 * kGib};
    const auto bytes = [](std::uint64_t gib) { return static_cast<std::int64_t>(gib * kGib); };
    bar.parts = {{"tensors", "tensors", bytes(6), 0, 0},
                 {"process", "process 77 serve", is_much ? bytes(2) : -bytes(1), 77, 1},
                 {"unexplained", "unexplained", bytes(1), 0, 0}};
    c.device().bars = {bar};
    const Findings found = c.run(out_of_memory);
    ASSERT_THAT(found, SizeIs(2));
    // The driver was queried at the last failure.
    EXPECT_THAT(found[1].evidence, Not(Contains(HasSubstr("not PyTorch's"))));
    if (is_much) {
      EXPECT_THAT(found[0].evidence,
                  Contains("Of the device's 10.0 GiB, 3.0 GiB were not PyTorch's: process 77 serve "
                           "2.0 GiB, unexplained 1.0 GiB."));
    } else {
      EXPECT_THAT(found[0].evidence, Not(Contains(HasSubstr("not PyTorch's"))));
    }
  }
}

TEST(OutOfMemory, under_a_limit_free_device_memory_does_not_help) {
  FactsCase c;
  c.device().oom_details = {oom("too_big")};
  c.device().oom_details[0].device_free_bytes = 40 * kGib;
  c.device().oom_details[0].is_limited = true;
  const Findings found = c.run(out_of_memory);
  EXPECT_THAT(found[0].evidence, Not(Contains(HasSubstr("GiB more"))));
  // It is not known that anyone set a limit.
  EXPECT_THAT(found[0].evidence, Not(Contains(HasSubstr("set_per_process_memory_fraction"))));
  EXPECT_THAT(found[0].evidence, Contains(HasSubstr("40.0 GiB of the device were free when the "
                                                    "request failed. The file does not show why")));
}

TEST(OutOfMemory, a_limit_that_the_program_set_is_context) {
  FactsCase c;
  c.device().oom_details = {oom("one_large_request")};
  report::OomDetails& failed = c.device().oom_details[0];
  failed.device_free_bytes = 45 * kGib;
  failed.device_total_bytes = 80 * kGib;
  failed.limit_bytes = 40 * kGib;
  failed.is_limited = true;
  const Findings found = c.run(out_of_memory);
  EXPECT_THAT(found[0].title, HasSubstr("on one large request"));
  EXPECT_THAT(found[0].evidence[0],
              HasSubstr("the device had 45.0 GiB free of 80.0 GiB, limit 40.0 GiB set by "
                        "set_per_process_memory_fraction"));
  EXPECT_THAT(steps_text(found[0]), Not(HasSubstr("raction")));
}

TEST(OutOfMemory, reports_the_memory_of_others_if_the_device_is_known) {
  FactsCase c;
  c.device().oom_details = {oom("too_big")};
  report::OomDetails& failed = c.device().oom_details[0];
  failed.device_total_bytes = 80 * kGib;
  failed.reserved_bytes = static_cast<std::int64_t>(60 * kGib);
  EXPECT_THAT(c.run(out_of_memory)[0].evidence,
              Contains(HasSubstr("Of the device's 80.0 GiB, 19.0 GiB were not PyTorch's")));
}

TEST(OutOfMemory, names_no_limit_if_there_is_none) {
  FactsCase c;
  c.device().oom_details = {oom("too_big")};
  c.device().oom_details[0].device_total_bytes = 80 * kGib;
  c.device().oom_details[0].limit_bytes = 80 * kGib;
  const Findings found = c.run(out_of_memory);
  EXPECT_THAT(found[0].evidence[0], HasSubstr("the device had 1.0 GiB free of 80.0 GiB."));
}

TEST(OutOfMemory, retries_of_one_line_are_one_finding) {
  FactsCase c;
  for (int i = 0; i < 4; ++i) {
    c.device().oom_details.push_back(oom("too_big"));
    c.device().oom_details.back().requested_bytes = (4 + static_cast<std::uint64_t>(i)) * kGib;
  }
  const Findings found = c.run(out_of_memory);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].evidence, Contains(HasSubstr("failed 4 times in a row; this is the last")));
  EXPECT_THAT(found[0].evidence[0], HasSubstr("requested 7.0 GiB"));
}

TEST(OutOfMemory, counts_the_rest_beyond_three_lines) {
  FactsCase c;
  for (int i = 0; i < 10; ++i) c.device().oom_details.push_back(oom("too_big", std::to_string(i)));
  const Findings found = c.run(out_of_memory);
  ASSERT_THAT(found, SizeIs(3));
  EXPECT_THAT(found[0].title + found[0].evidence[0], HasSubstr("9 requested"));
  EXPECT_THAT(found[2].evidence, Contains(HasSubstr("7 other places before")));
}

TEST(OutOfMemory, is_less_severe_if_the_program_continued) {
  const auto after = [](std::uint64_t events) {
    FactsCase c;
    c.device().oom_details = {oom("too_big")};
    c.device().events = events;
    return c.run(out_of_memory)[0];
  };
  EXPECT_THAT(after(5000).evidence, Contains(HasSubstr("went on: 5,000 events")));
  EXPECT_EQ(after(5000).severity, report::FindingSeverity::kWarning);
  EXPECT_EQ(after(900).severity, report::FindingSeverity::kCritical);
}

struct Stranded {
  std::uint64_t reserved;
  std::uint64_t live;
  std::uint64_t stranded;
};

Findings stranded_case(Stranded bytes) {
  FactsCase c;
  c.device().reserved.peak_bytes = static_cast<std::int64_t>(bytes.reserved);
  c.device().requested_active.peak_bytes = static_cast<std::int64_t>(bytes.live);
  auto& peak = c.device().fragmentation.at_reserved_peak;
  peak.event = 7;
  peak.line = "a.py:1 (f)";
  peak.stranded_bytes = bytes.stranded;
  return c.run(stranded_memory);
}

TEST(StrandedMemory, is_found_if_it_made_the_allocator_reserve_more) {
  const Findings found = stranded_case({93 * kGib, 77 * kGib, 16 * kGib});
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].saving_bytes(), 16 * kGib);
  EXPECT_THAT(stranded_case({1000 * kMib, 600 * kMib, 400 * kMib}), SizeIs(1));
}

TEST(StrandedMemory, is_not_found_if_everything_reserved_was_needed_at_some_point) {
  EXPECT_THAT(stranded_case({93 * kGib, 92 * kGib, 60 * kGib}), IsEmpty());
}

TEST(StrandedMemory, the_usual_cost_of_a_caching_allocator_is_not_reported) {
  EXPECT_THAT(stranded_case({3600 * kMib, 3100 * kMib, 500 * kMib}), IsEmpty());
  EXPECT_THAT(stranded_case({20 * kGib, 19 * kGib, kGib}), IsEmpty());
  EXPECT_THAT(stranded_case({400 * kMib, 150 * kMib, 250 * kMib}), IsEmpty());
}

TEST(StrandedMemory, is_not_reported_twice) {
  FactsCase c;
  c.device().oom_details = {oom("fragmentation")};
  c.device().reserved.peak_bytes = static_cast<std::int64_t>(93 * kGib);
  c.device().fragmentation.at_reserved_peak.event = 7;
  c.device().fragmentation.at_reserved_peak.stranded_bytes = 50 * kGib;
  EXPECT_THAT(c.run(stranded_memory), IsEmpty());
}

report::GrowthRow growth(double bytes_per_step) {
  report::GrowthRow row;
  row.line = row.key = "a.py:1 (f)";
  row.steps = 10;
  row.last_bytes = row.grown_bytes = static_cast<std::int64_t>(9 * bytes_per_step);
  row.bytes_per_step = row.low_bytes_per_step = row.high_bytes_per_step = bytes_per_step;
  row.survivors = 5;
  row.is_certain = true;
  row.boundary = "ProfilerStep";
  return row;
}

TEST(MemoryGrowth, is_critical_at_a_quarter_of_live_memory) {
  for (const std::uint64_t live : {3600 * kMib, 3601 * kMib}) {
    FactsCase c;
    c.device().requested_active.end_bytes = static_cast<std::int64_t>(live);
    c.report.tables.growth = {growth(100.0 * kMib)};
    const Findings found = c.run(memory_growth);
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_EQ(found[0].severity, live == 3600 * kMib ? report::FindingSeverity::kCritical
                                                     : report::FindingSeverity::kWarning);
    EXPECT_EQ(found[0].saving_bytes(), 900 * kMib);
    EXPECT_THAT(found[0].title, HasSubstr("grows by 100.0 MiB a step, by 900.0 MiB"));
  }
}

TEST(MemoryGrowth, a_list_of_scalar_losses_is_not_reported) {
  FactsCase c;
  c.report.tables.growth = {growth(512)};
  EXPECT_THAT(c.run(memory_growth), IsEmpty());
}

TEST(MemoryGrowth, uncertain_growth_is_information) {
  FactsCase c;
  c.report.tables.growth = {growth(100.0 * kMib)};
  c.report.tables.growth[0].is_certain = false;
  const Findings found = c.run(memory_growth);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].severity, report::FindingSeverity::kInfo);
  EXPECT_THAT(found[0].title, HasSubstr("may grow by 100.0 MiB a step"));
  EXPECT_THAT(found[0].next_step(), HasSubstr("at least 12 steps"));
}

TEST(MemoryGrowth, in_the_history_of_lbfgs_is_information) {
  FactsCase c;
  c.report.tables.growth = {growth(100.0 * kMib)};
  c.report.tables.growth[0].is_of_lbfgs = true;
  const Findings found = c.run(memory_growth);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].severity, report::FindingSeverity::kInfo);
  EXPECT_THAT(found[0].next_step(), HasSubstr("history_size"));
}

TEST(MemoryGrowth, in_a_forward_only_program_is_information) {
  FactsCase c;
  c.report.tables.growth = {growth(100.0 * kMib)};
  c.report.tables.growth[0].is_of_calls = true;
  const Findings found = c.run(memory_growth);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].severity, report::FindingSeverity::kInfo);
  EXPECT_THAT(found[0].title, HasSubstr("grows by 100.0 MiB a step"));
  EXPECT_THAT(found[0].evidence,
              Contains("If the program collects results on purpose, nothing is wrong."));
}

TEST(MemoryGrowth, certain_growth_is_reported_alone) {
  FactsCase c;
  c.report.tables.growth = {growth(100.0 * kMib), growth(1.0 * kMib)};
  c.report.tables.growth[0].is_certain = false;
  EXPECT_THAT(c.run(memory_growth)[0].title, HasSubstr("grows by 1.0 MiB a step"));
}

TEST(MemoryGrowth, the_rate_has_an_interval_if_steps_differ) {
  FactsCase c;
  c.report.tables.growth = {growth(2.0 * kMib)};
  c.report.tables.growth[0].low_bytes_per_step = 1.5 * kMib;
  c.report.tables.growth[0].high_bytes_per_step = 2.5 * kMib;
  EXPECT_THAT(c.run(memory_growth)[0].evidence[0],
              HasSubstr("2.0 MiB a step (95% interval: 1.5 MiB to 2.5 MiB)"));
}

TEST(MemoryGrowth, many_lines_that_grow_little_are_reported_by_their_category) {
  FactsCase c;
  c.report.tables.growth = {growth(512), growth(512)};
  c.report.tables.growth_by_category = {growth(100.0 * 1024)};
  c.report.tables.growth_by_category[0].line.clear();
  c.report.tables.growth_by_category[0].key = "activation";
  const Findings found = c.run(memory_growth);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].title, HasSubstr("grows by 100.0 KiB a step"));
  EXPECT_THAT(found[0].next_step(), HasSubstr("the category activation"));
}

TEST(MemoryGrowth, moving_cpu_tensors_to_the_cpu_is_not_advised) {
  FactsCase c;
  c.report.tables.growth = {growth(2.0 * kMib)};
  c.report.tables.growth[0].device = c.device().device = -1;
  EXPECT_THAT(steps_text(c.run(memory_growth)[0]), Not(HasSubstr(".cpu()")));
}

TEST(MemoryGrowth, the_advice_follows_from_the_category_that_grows) {
  const auto advice = [](const char* category, std::uint64_t survivors = 50) {
    FactsCase c;
    c.report.tables.growth = {growth(2.0 * kMib)};
    c.report.tables.growth[0].survivors = survivors;
    c.report.tables.growth_by_category = {growth(2.0 * kMib)};
    c.report.tables.growth_by_category[0].key = category;
    return steps_text(c.run(memory_growth)[0]);
  };
  EXPECT_THAT(advice("activation"), HasSubstr("and the graphs that it retains"));
  EXPECT_THAT(advice("activation", 10), Not(HasSubstr("graph"))) << "one tensor of each step";
  EXPECT_THAT(advice("other"), Not(HasSubstr("graph")));
  EXPECT_THAT(advice("optimizer_state"), HasSubstr("add_param_group"));
  EXPECT_THAT(advice("optimizer_state"), Not(HasSubstr(".item()")));
}

// A graph is blamed for activations only if operators may have built one.
TEST(MemoryGrowth, activations_that_are_known_to_have_no_graph_are_not_detached) {
  using model::Autograd;
  const auto advice = [](std::initializer_list<Autograd> each) {
    FactsCase c;
    const auto stack = c.maker.stack({{"a.py", 1, "f"}});
    std::uint64_t address = 0;
    for (const Autograd autograd : each) {
      c.maker.alloc_reported(++address, kMib,
                             {.category = "activation",
                              .phase = model::Phase::kForward,
                              .stack = stack,
                              .autograd = autograd});
    }
    c.device().requested_active.peak_event = address - 1;
    c.report.tables.growth = {growth(2.0 * kMib)};
    c.report.tables.growth[0].survivors = 50;
    c.report.tables.growth[0].is_of_calls = true;
    c.report.tables.growth_by_category = {growth(2.0 * kMib)};
    c.report.tables.growth_by_category[0].key = "activation";
    return steps_text(c.run(memory_growth)[0]);
  };
  const auto is_of_graph = AllOf(HasSubstr("torch.no_grad()"), HasSubstr(".detach()"));
  const auto is_without = AllOf(HasSubstr("a view retains the whole tensor"),
                                Not(HasSubstr("no_grad")), Not(HasSubstr("detach")));
  EXPECT_THAT(advice({Autograd::kUnknown}), is_of_graph);
  EXPECT_THAT(advice({Autograd::kBuilt}), is_of_graph);
  EXPECT_THAT(advice({Autograd::kOff}), is_without);
  EXPECT_THAT(advice({Autograd::kOn, Autograd::kOff}), is_without) << "the model is frozen";
  EXPECT_THAT(advice({Autograd::kOn, Autograd::kBuilt}), is_of_graph) << "a mask of a dropout";
  EXPECT_THAT(advice({Autograd::kOff, Autograd::kOff, Autograd::kBuilt}), is_without)
      << "a training step runs at the peak";
}

TEST(MemoryGrowth, of_more_than_128_steps_groups_are_compared) {
  const auto finding = [](std::uint64_t grown_groups) {
    FactsCase c;
    c.report.tables.growth = {growth(2.0 * kMib)};
    report::GrowthRow& row = c.report.tables.growth[0];
    row.steps = 500;
    row.steps_each = 4;
    row.compared_steps = 62;
    row.grown_steps = grown_groups;
    return c.run(memory_growth)[0];
  };
  EXPECT_THAT(finding(62).title, HasSubstr("a step on average"));
  EXPECT_THAT(
      finding(62).evidence,
      Contains(HasSubstr("62 of 62 groups of 4 steps that are compared leave memory behind. "
                         "The first quarter of the 500 steps")));
  EXPECT_THAT(finding(6).evidence,
              Contains(HasSubstr("6 of 62 groups of 4 steps that are compared leave memory")));
}

TEST(MemoryGrowth, item_is_advised_only_for_what_may_have_one_element) {
  const auto advice = [](std::int32_t device, std::uint64_t survivors, const char* category) {
    FactsCase c;
    c.report.tables.growth = {growth(2.0 * kMib)};
    c.report.tables.growth[0].survivors = survivors;
    c.report.tables.growth[0].steps = survivors;
    c.report.tables.growth_by_category = {growth(2.0 * kMib)};
    c.report.tables.growth_by_category[0].key = category;
    for (auto* rows : {&c.report.tables.growth, &c.report.tables.growth_by_category}) {
      rows->front().device = c.device().device = device;
    }
    return steps_text(c.run(memory_growth)[0]);
  };
  const std::uint64_t grown = static_cast<std::uint64_t>(growth(2.0 * kMib).grown_bytes);
  for (const std::int32_t device : {-1, 0}) {
    for (const char* category : {"input", "other", "activation"}) {
      EXPECT_THAT(advice(device, 20, category), Not(HasSubstr(".item()"))) << category;
      const std::uint64_t scalars = grown / (device < 0 ? 8 : 512);
      EXPECT_THAT(advice(device, scalars, category), HasSubstr("Store .item() values")) << category;
    }
  }
  EXPECT_THAT(advice(0, 20, "input"), HasSubstr(".detach().cpu()"));
}

TEST(MemoryGrowth, of_a_model_in_stages_is_left_to_explain_stages) {
  FactsCase c;
  c.report.tables.growth = {growth(2.0 * kMib), growth(1.0 * kMib)};
  c.report.tables.growth[0].is_model_in_stages = true;
  c.report.tables.growth[0].stages = 4;
  c.report.tables.growth[1].compared_steps = 5;
  const Findings found = c.run(memory_growth);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].title, HasSubstr("grows by 1.0 MiB a step on average"));
}

TEST(MemoryGrowth, on_another_device_is_reported_for_that_device) {
  FactsCase c;
  c.report.tables.growth = {growth(100.0 * kMib)};
  c.report.tables.growth[0].device = 1;
  EXPECT_THAT(c.run(memory_growth), IsEmpty());
}

TEST(Settings, max_split_size_with_expandable_segments_is_a_conflict) {
  FactsCase c;
  set_expandable(c);
  EXPECT_THAT(c.run(allocator_settings_conflict), IsEmpty());
  FactsCase d;
  set_expandable(d);
  d.maker.builder().add_setting(model::Setting{"max_split_size", std::int64_t{128 << 20}});
  d.maker.builder().add_setting(model::Setting{"garbage_collection_threshold", 0.8});
  EXPECT_THAT(d.run(allocator_settings_conflict), SizeIs(2));
}

TEST(Settings, a_setting_without_effect_is_reported) {
  FactsCase c;
  c.maker.builder().add_setting(
      model::Setting{"PYTORCH_CUDA_ALLOC_CONF", std::string("expandable_segments:True")});
  c.maker.builder().add_setting(model::Setting{"expandable_segments", false});
  const Findings found = c.run(allocator_settings_conflict);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].title, HasSubstr("is set but not in effect"));
}

TEST(RecordingWasEmpty, states_what_to_call_and_what_is_known) {
  FactsCase c;
  c.maker.segment(0, kGib, {TraceMaker::block(0, kMib, kMib)});
  const Findings found = c.run(recording_was_empty);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].title, AllOf(HasSubstr("1 live block of 1.0 MiB"), HasSubstr("Nothing")));
  EXPECT_THAT(found[0].next_step(), HasSubstr("_record_memory_history(max_entries=100000)"));
}

TEST(RecordingWasEmpty, gives_advice_for_the_tool_that_wrote_the_file) {
  FactsCase c;
  c.report.source.format = "plimsoll";
  c.maker.segment(0, kGib, {});
  const Findings found = c.run(recording_was_empty);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].next_step(), AllOf(HasSubstr("plimsoll.record()"), Not(HasSubstr("torch"))));
}

TEST(RecordingWasEmpty, a_ring_of_one_event_is_not_a_history_but_two_are) {
  FactsCase c;
  c.maker.segment(0, kGib, {TraceMaker::block(0, kMib, kMib)});
  c.maker.event(Action::kFreeCompleted, 5 * kMib, 8);
  EXPECT_THAT(c.run(recording_was_empty), SizeIs(1));
  FactsCase d;
  d.maker.segment(0, kGib, {TraceMaker::block(0, kMib, kMib)});
  d.maker.free(5 * kMib, 8);
  EXPECT_THAT(d.run(recording_was_empty), IsEmpty());
}

TEST(NoMemoryEvents, comes_from_the_readers_diagnostic) {
  FactsCase c;
  EXPECT_THAT(c.run(no_memory_events), IsEmpty());
  FactsCase d;
  d.report.source.diagnostics.push_back({"no_memory_events", "error", 1, "", ""});
  EXPECT_THAT(d.run(no_memory_events), SizeIs(1));
}

TEST(RecordingIncomplete, comes_from_the_readers_diagnostics_with_their_numbers) {
  FactsCase c;
  c.report.source.diagnostics.push_back({"file_cut", "data_loss", 1, "", ""});
  c.report.source.diagnostics.push_back({"dropped_events", "data_loss", 9, "", ""});
  EXPECT_THAT(c.run(recording_incomplete), IsEmpty());
  FactsCase d;
  const std::string example = "No space left on device, 0.3 s after the start; 7 of 9 missing";
  d.report.source.diagnostics.push_back({"sink_failed", "data_loss", 7, "", example});
  d.report.source.diagnostics.push_back({"corrupt_block", "data_loss", 2, "", "at byte 16"});
  const Findings found = d.run(recording_incomplete);
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].severity, report::FindingSeverity::kCritical);
  EXPECT_EQ(found[0].title, "The recording ended early: " + example);
  EXPECT_EQ(found[1].title, "The file is damaged in 2 places: at byte 16");
}

TEST(HistoryTruncated, suggests_ten_times_the_ring) {
  FactsCase c;
  for (std::uint64_t i = 0; i < 1000; ++i) c.maker.event(Action::kSnapshot, 0, 0);
  c.maker.builder().mark_truncated(model::Device{});
  c.device().frees_without_alloc = 1;
  const Findings found = c.run(history_truncated);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].next_step(), HasSubstr("max_entries=10000)"));
  EXPECT_THAT(found[0].evidence,
              Contains(HasSubstr("unknown where the memory of 1 free was allocated")));
}

// One wave: returns `segments` segments to the driver, then requests one again.
void add_wave(FactsCase& c, int segments, model::StackId stack) {
  for (int i = 0; i < segments; ++i) c.maker.event(Action::kSegmentFree, 0, 2 * kMib, stack);
  for (int i = 0; i < segments; ++i) c.maker.event(Action::kSegmentAlloc, 0, 2 * kMib, stack);
}

TEST(SegmentChurn, names_empty_cache_if_that_was_the_cause) {
  FactsCase c;
  const auto stack = c.maker.stack({{"/x/site-packages/torch/cuda/memory.py", 9, "empty_cache"},
                                    {"/home/u/train.py", 5, "loop"}});
  for (int i = 0; i < 5; ++i) add_wave(c, 10, stack);
  const Findings found = c.run(segment_churn);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].next_step(), HasSubstr("Remove torch.cuda.empty_cache()"));
  EXPECT_THAT(found[0].evidence, Contains(HasSubstr("/home/u/train.py:5 (loop), by torch.cuda")));
}

TEST(SegmentChurn, emptying_the_cache_between_phases_is_not_reported) {
  FactsCase c;
  for (int i = 0; i < 4; ++i) add_wave(c, 100, model::kNoStack);
  EXPECT_THAT(c.run(segment_churn), IsEmpty());
}

// Waves in a convolution, while `used_gib` of a device's 80 GiB are in use; 0: unknown.
report::Finding churn_in_convolutions(std::uint64_t used_gib) {
  FactsCase c;
  const auto stack = c.maker.stack({{"/x/torch/nn/modules/conv.py", 9, "Conv2d._conv_forward"},
                                    {"/home/u/net.py", 5, "Net.forward"}});
  for (int i = 0; i < 5; ++i) add_wave(c, 10, stack);
  if (used_gib > 0) {
    report::DeviceBarReport& bar = c.device().bars.emplace_back();
    bar.used_bytes = used_gib * kGib;
    bar.total_bytes = 80 * kGib;
  }
  const Findings found = c.run(segment_churn);
  EXPECT_THAT(found, SizeIs(1));
  return found.at(0);
}

TEST(SegmentChurn, is_blamed_on_a_full_device_only_if_it_is_full) {
  EXPECT_THAT(churn_in_convolutions(0).next_step(),
              HasSubstr("If the device is nearly full, lower"));
  EXPECT_THAT(churn_in_convolutions(79).next_step(),
              HasSubstr("If the device is nearly full, lower"));
  const report::Finding free = churn_in_convolutions(8);
  EXPECT_EQ(free.severity, report::FindingSeverity::kInfo);
  EXPECT_THAT(free.next_step(), HasSubstr("it frees and requests segments"));
  EXPECT_THAT(free.evidence,
              Contains("The device has room: at most 8.0 GiB of 80.0 GiB were used."));
}

report::SiteRow throwaway(std::uint64_t count, std::uint64_t size) {
  report::SiteRow row;
  row.line = "a.py:1 (f)";
  row.allocations = row.temporary = row.commonest_size_count = count;
  row.commonest_size_bytes = size;
  row.bytes = row.temporary_bytes = count * size;
  return row;
}

TEST(Churn, is_reported_when_one_line_makes_half_of_all_allocations) {
  for (const int others : {2000, 2001}) {
    FactsCase c;
    for (int i = 0; i < 2000 + others; ++i) c.maker.alloc(0, 8).free(0, 8);
    c.report.tables.sites = {throwaway(2000, 8)};
    EXPECT_THAT(c.run(churn), SizeIs(others == 2000 ? 1 : 0));
  }
}

TEST(Churn, on_a_stack_without_a_line_is_not_reported) {
  FactsCase c;
  for (int i = 0; i < 3000; ++i) c.maker.alloc(0, 8).free(0, 8);
  c.report.tables.sites = {throwaway(3000, 8)};
  c.report.tables.sites[0].line = "[backward, no Python frame]";
  EXPECT_THAT(c.run(churn), IsEmpty());
}

// Allocates `count` times `mib` MiB and frees each immediately.
void throw_away(FactsCase& c, int count, std::uint64_t mib, model::StackId stack) {
  for (int i = 0; i < count; ++i) c.maker.alloc(1, mib * kMib, stack).free(1, mib * kMib);
}

TEST(RepeatedLargeAllocation, from_the_cache_is_free_and_not_reported) {
  FactsCase c;
  throw_away(c, 60, 64, c.maker.stack({{"a.py", 1, "f"}}));
  throw_away(c, 61, 64, model::kNoStack);
  EXPECT_THAT(c.run(repeated_large_allocation), IsEmpty());
}

TEST(RepeatedLargeAllocation, is_reported_if_it_is_most_of_all_bytes) {
  FactsCase c;
  throw_away(c, 60, 64, c.maker.stack({{"a.py", 1, "f"}}));
  EXPECT_THAT(c.run(repeated_large_allocation), SizeIs(1));
}

TEST(RepeatedLargeAllocation, one_size_counts_regardless_of_the_lines_other_sizes) {
  FactsCase c;
  const auto stack = c.maker.stack({{"a.py", 1, "f"}});
  throw_away(c, 60, 64, stack);
  for (std::uint64_t i = 0; i < 40; ++i) c.maker.alloc(100 + i, kMib + i, stack);  // these are kept
  const Findings found = c.run(repeated_large_allocation);
  ASSERT_THAT(found, SizeIs(1)) << "40 % of the line's allocations live, but none of these";
  EXPECT_THAT(found[0].title, HasSubstr("64.0 MiB 60 times"));
  EXPECT_THAT(found[0].evidence, Contains(HasSubstr("That is 3.8 GiB of the 3.8 GiB")));

  FactsCase d;  // two sizes, neither of which is half of the total
  const auto line = d.maker.stack({{"a.py", 1, "f"}});
  throw_away(d, 60, 64, line);
  throw_away(d, 40, 128, line);
  EXPECT_THAT(d.run(repeated_large_allocation), IsEmpty());
}

}  // namespace
}  // namespace plimsoll::findings

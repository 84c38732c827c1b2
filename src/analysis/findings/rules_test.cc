// Each rule on facts made by hand: raised where it should be, silent just below its threshold. What
// the sentences look like as a whole is in tests/golden/findings.
#include "analysis/findings/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/trace_maker.h"

namespace plimsoll::analysis::findings {
namespace {

using model::Action;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using tests::TraceMaker;

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
constexpr std::uint64_t kGib = std::uint64_t{1} << 30;

// One device whose report a test fills as it likes.
class Case {
 public:
  Case() { maker.on(model::Device{}); }

  report::DeviceReport& device() {
    if (report.devices.empty()) report.devices.resize(1);
    return report.devices[0];
  }
  Findings run(Findings (*rule)(const Facts&)) {
    device();
    model::Trace trace = maker.finish();
    trace.has_inferred_roles = is_snapshot;
    const model::UserLines lines(trace);
    const Options options;
    Facts facts{trace, lines, report, options, allocator_conf(trace), {}};
    for (const auto& each : trace.devices) facts.traffic.push_back(traffic_of(trace, lines, each));
    return rule(facts);
  }

  TraceMaker maker;
  report::Report report;
  bool is_snapshot = false;  // its categories are inferred
};

void set_expandable(Case& c) {
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

report::OomDetails oom(std::string cause, std::string line = "a.py:1 (f)") {
  report::OomDetails row;
  row.cause = std::move(cause);
  row.line = std::move(line);
  row.requested_bytes = 4 * kGib;
  row.device_free_bytes = kGib;
  row.stranded_bytes = 9 * kGib;
  return row;
}

// Of 10 GiB live.
Findings too_big(const char* category, bool is_snapshot) {
  Case c;
  c.maker.alloc_told(1, 7 * kGib, {.category = category});
  c.maker.alloc_told(2, 3 * kGib, {.category = "parameter"});
  c.is_snapshot = is_snapshot;
  c.device().oom_details = {oom("too_big")};
  c.device().oom_details[0].event = 1;
  return c.run(out_of_memory);
}

TEST(OutOfMemory, of_a_model_that_is_too_big_has_one_answer_by_what_fills_the_device) {
  const Findings activations = too_big("activation", false);
  ASSERT_THAT(activations, SizeIs(1));
  EXPECT_THAT(activations[0].evidence,
              Contains("Live then were activations 7.0 GiB, parameters 3.0 GiB."));
  EXPECT_THAT(activations[0].next_step, HasSubstr("Activations are the largest part"));
  EXPECT_THAT(activations[0].next_step, Not(HasSubstr("if it holds")));
  EXPECT_THAT(too_big("optimizer_state", true)[0].evidence, Contains(HasSubstr("(inferred)")));
  EXPECT_THAT(too_big("optimizer_state", true)[0].next_step, HasSubstr("8 bits"));
  EXPECT_THAT(too_big("gradient", false)[0].next_step, HasSubstr("FSDP"));
  EXPECT_THAT(too_big("parameter", false)[0].next_step, HasSubstr("bfloat16"));
  EXPECT_THAT(too_big("unknown", true)[0].next_step, HasSubstr("is unknown"));
}

TEST(OutOfMemory, fragmentation_advises_expandable_segments_unless_they_are_on) {
  for (const bool is_on : {false, true}) {
    Case c;
    if (is_on) set_expandable(c);
    c.device().oom_details = {oom("fragmentation")};
    c.device().oom_details[0].pinning_lines = {pinning_line("keep.py:2 (g)")};
    const Findings found = c.run(out_of_memory);
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_EQ(found[0].severity, report::FindingSeverity::kCritical);
    EXPECT_EQ(found[0].saving_bytes, 9 * kGib);
    EXPECT_THAT(found[0].next_step, HasSubstr("llocate what keep.py:2 (g) keeps before"));
    EXPECT_THAT(found[0].next_step,
                HasSubstr(is_on ? "is on already" : "=expandable_segments:True"));
  }
}

TEST(OutOfMemory, a_pin_without_a_line_is_not_called_by_its_brackets) {
  Case c;
  c.device().oom_details = {oom("fragmentation")};
  c.device().oom_details[0].pinning_lines = {pinning_line("[backward, no Python frame]")};
  EXPECT_THAT(c.run(out_of_memory)[0].next_step,
              HasSubstr("allocate the long-lived blocks before"));
}

TEST(OutOfMemory, says_how_much_is_missing) {
  Case c;
  c.device().oom_details = {oom("too_big"), oom("one_large_request", "b.py:2 (g)")};
  const Findings found = c.run(out_of_memory);
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_THAT(found[0].next_step, HasSubstr("It must request 3.0 GiB less to fit"));
  EXPECT_EQ(found[0].saving_bytes, 3 * kGib);
  EXPECT_THAT(found[1].next_step, HasSubstr("It needs at least 3.0 GiB more"));
}

TEST(OutOfMemory, who_else_held_the_device_is_told_where_the_driver_was_asked) {
  for (const bool is_much : {true, false}) {
    Case c;
    c.device().oom_details = {oom("too_big"), oom("one_large_request", "b.py:2 (g)")};
    report::BarReport bar{.moment = "oom", .total_bytes = 10 * kGib};
    const auto bytes = [](std::uint64_t gib) { return static_cast<std::int64_t>(gib * kGib); };
    bar.parts = {{"tensors", "tensors", bytes(6), 0, 0},
                 {"process", "process 77 serve", is_much ? bytes(2) : -bytes(1), 77, 1},
                 {"unexplained", "unexplained", bytes(1), 0, 0}};
    c.device().bars = {bar};
    const Findings found = c.run(out_of_memory);
    ASSERT_THAT(found, SizeIs(2));
    // The driver was asked at the last failure.
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

TEST(OutOfMemory, under_a_limit_what_the_device_has_is_no_help) {
  Case c;
  c.device().oom_details = {oom("too_big")};
  c.device().oom_details[0].device_free_bytes = 40 * kGib;
  c.device().oom_details[0].is_limited = true;
  const Findings found = c.run(out_of_memory);
  EXPECT_THAT(found[0].next_step, HasSubstr("at least 4.0 GiB more"));
  EXPECT_THAT(found[0].evidence, Contains(HasSubstr("set_per_process_memory_fraction")));
}

TEST(OutOfMemory, a_limit_that_was_set_is_named_with_its_share_of_the_device) {
  Case c;
  c.device().oom_details = {oom("process_limit")};
  report::OomDetails& failed = c.device().oom_details[0];
  failed.device_free_bytes = 45 * kGib;
  failed.device_total_bytes = 80 * kGib;
  failed.limit_bytes = 40 * kGib;
  failed.is_limited = true;
  const Findings found = c.run(out_of_memory);
  EXPECT_THAT(found[0].title, HasSubstr("at a limit of the process"));
  EXPECT_THAT(found[0].evidence[0],
              HasSubstr("the device had 45.0 GiB free of 80.0 GiB, limit 40.0 GiB set by "
                        "set_per_process_memory_fraction"));
  EXPECT_THAT(found[0].next_step, HasSubstr("(50.0% of the device now)"));
}

TEST(OutOfMemory, what_others_hold_is_told_where_the_device_is_known) {
  Case c;
  c.device().oom_details = {oom("too_big")};
  report::OomDetails& failed = c.device().oom_details[0];
  failed.device_total_bytes = 80 * kGib;
  failed.reserved_bytes = static_cast<std::int64_t>(60 * kGib);
  EXPECT_THAT(c.run(out_of_memory)[0].evidence,
              Contains(HasSubstr("19.0 GiB of the device's 80.0 GiB were used outside")));
}

TEST(OutOfMemory, no_limit_is_named_where_there_is_none) {
  Case c;
  c.device().oom_details = {oom("too_big")};
  c.device().oom_details[0].device_total_bytes = 80 * kGib;
  c.device().oom_details[0].limit_bytes = 80 * kGib;
  const Findings found = c.run(out_of_memory);
  EXPECT_THAT(found[0].evidence[0], HasSubstr("the device had 1.0 GiB free of 80.0 GiB."));
}

TEST(OutOfMemory, retries_of_one_line_are_one_finding) {
  Case c;
  for (int i = 0; i < 4; ++i) {
    c.device().oom_details.push_back(oom("too_big"));
    c.device().oom_details.back().requested_bytes = (4 + static_cast<std::uint64_t>(i)) * kGib;
  }
  const Findings found = c.run(out_of_memory);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].evidence, Contains(HasSubstr("failed 4 times in a row; this is the last")));
  EXPECT_THAT(found[0].evidence[0], HasSubstr("requested 7.0 GiB"));
}

TEST(OutOfMemory, beyond_three_places_the_rest_is_counted) {
  Case c;
  for (int i = 0; i < 10; ++i) c.device().oom_details.push_back(oom("too_big", std::to_string(i)));
  const Findings found = c.run(out_of_memory);
  ASSERT_THAT(found, SizeIs(3));
  EXPECT_THAT(found[0].title + found[0].evidence[0], HasSubstr("9 requested"));
  EXPECT_THAT(found[2].evidence, Contains(HasSubstr("7 more places before that")));
}

TEST(OutOfMemory, a_process_that_could_have_little_is_pointed_to_the_others) {
  Case c;
  c.device().oom_details = {oom("one_large_request"), oom("one_large_request", "b.py:2 (g)")};
  c.device().oom_details[0].reserved_bytes = static_cast<std::int64_t>(2 * kGib);
  c.device().oom_details[1].reserved_bytes = static_cast<std::int64_t>(20 * kGib);
  const Findings found = c.run(out_of_memory);
  EXPECT_THAT(found[0].evidence, Not(Contains(HasSubstr("together"))));
  EXPECT_THAT(found[1].evidence, Contains(HasSubstr("only 3.0 GiB together")));
}

TEST(OutOfMemory, is_less_grave_where_the_program_went_on) {
  const auto after = [](std::uint64_t events) {
    Case c;
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
  Case c;
  c.device().reserved.peak_bytes = static_cast<std::int64_t>(bytes.reserved);
  c.device().requested_active.peak_bytes = static_cast<std::int64_t>(bytes.live);
  auto& peak = c.device().fragmentation.at_reserved_peak;
  peak.event = 7;
  peak.line = "a.py:1 (f)";
  peak.stranded_bytes = bytes.stranded;
  return c.run(stranded_memory);
}

TEST(StrandedMemory, is_found_where_it_made_the_allocator_reserve_more) {
  const Findings found = stranded_case({93 * kGib, 77 * kGib, 16 * kGib});
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].saving_bytes, 16 * kGib);
  EXPECT_THAT(stranded_case({1000 * kMib, 600 * kMib, 400 * kMib}), SizeIs(1));
}

TEST(StrandedMemory, is_not_found_where_everything_reserved_was_needed_once) {
  EXPECT_THAT(stranded_case({93 * kGib, 92 * kGib, 60 * kGib}), IsEmpty());
}

TEST(StrandedMemory, the_usual_price_of_a_caching_allocator_is_not_told) {
  EXPECT_THAT(stranded_case({3600 * kMib, 3100 * kMib, 500 * kMib}), IsEmpty());
  EXPECT_THAT(stranded_case({20 * kGib, 19 * kGib, kGib}), IsEmpty());
  EXPECT_THAT(stranded_case({400 * kMib, 150 * kMib, 250 * kMib}), IsEmpty());
}

TEST(StrandedMemory, is_not_told_twice) {
  Case c;
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

TEST(MemoryGrowth, is_critical_when_it_is_a_quarter_of_what_is_live) {
  for (const std::uint64_t live : {3600 * kMib, 3601 * kMib}) {
    Case c;
    c.device().requested_active.end_bytes = static_cast<std::int64_t>(live);
    c.report.tables.growth = {growth(100.0 * kMib)};
    const Findings found = c.run(memory_growth);
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_EQ(found[0].severity, live == 3600 * kMib ? report::FindingSeverity::kCritical
                                                     : report::FindingSeverity::kWarning);
    EXPECT_EQ(found[0].saving_bytes, 900 * kMib);
    EXPECT_THAT(found[0].title, HasSubstr("grows by 100.0 MiB a step, by 900.0 MiB"));
  }
}

TEST(MemoryGrowth, a_list_of_scalar_losses_is_not_told) {
  Case c;
  c.report.tables.growth = {growth(512)};
  EXPECT_THAT(c.run(memory_growth), IsEmpty());
}

TEST(MemoryGrowth, what_is_not_certain_is_information) {
  Case c;
  c.report.tables.growth = {growth(100.0 * kMib)};
  c.report.tables.growth[0].is_certain = false;
  const Findings found = c.run(memory_growth);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].severity, report::FindingSeverity::kInfo);
  EXPECT_THAT(found[0].title, HasSubstr("may grow by 100.0 MiB a step"));
  EXPECT_THAT(found[0].next_step, HasSubstr("at least 12 steps"));
}

TEST(MemoryGrowth, of_the_history_of_lbfgs_is_information) {
  Case c;
  c.report.tables.growth = {growth(100.0 * kMib)};
  c.report.tables.growth[0].is_of_lbfgs = true;
  const Findings found = c.run(memory_growth);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].severity, report::FindingSeverity::kInfo);
  EXPECT_THAT(found[0].next_step, HasSubstr("history_size"));
}

TEST(MemoryGrowth, of_a_program_that_only_runs_forward_is_information) {
  Case c;
  c.report.tables.growth = {growth(100.0 * kMib)};
  c.report.tables.growth[0].is_of_calls = true;
  const Findings found = c.run(memory_growth);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].severity, report::FindingSeverity::kInfo);
  EXPECT_THAT(found[0].title, HasSubstr("grows by 100.0 MiB a step"));
  EXPECT_THAT(found[0].next_step, HasSubstr("collects results on purpose, nothing is wrong"));
}

TEST(MemoryGrowth, what_is_certain_is_told_alone) {
  Case c;
  c.report.tables.growth = {growth(100.0 * kMib), growth(1.0 * kMib)};
  c.report.tables.growth[0].is_certain = false;
  EXPECT_THAT(c.run(memory_growth)[0].title, HasSubstr("grows by 1.0 MiB a step"));
}

TEST(MemoryGrowth, the_rate_has_its_interval_where_steps_differ) {
  Case c;
  c.report.tables.growth = {growth(2.0 * kMib)};
  c.report.tables.growth[0].low_bytes_per_step = 1.5 * kMib;
  c.report.tables.growth[0].high_bytes_per_step = 2.5 * kMib;
  EXPECT_THAT(c.run(memory_growth)[0].evidence[0],
              HasSubstr("2.0 MiB a step (95 %: 1.5 MiB to 2.5 MiB)"));
}

TEST(MemoryGrowth, many_lines_that_grow_little_are_told_by_their_category) {
  Case c;
  c.report.tables.growth = {growth(512), growth(512)};
  c.report.tables.growth_by_category = {growth(100.0 * 1024)};
  c.report.tables.growth_by_category[0].line.clear();
  c.report.tables.growth_by_category[0].key = "activation";
  const Findings found = c.run(memory_growth);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].title, HasSubstr("grows by 100.0 KiB a step"));
  EXPECT_THAT(found[0].next_step, HasSubstr("the category activation"));
}

TEST(MemoryGrowth, tensors_of_the_cpu_are_not_sent_to_the_cpu) {
  Case c;
  c.report.tables.growth = {growth(2.0 * kMib)};
  c.report.tables.growth[0].device = c.device().device = -1;
  EXPECT_THAT(c.run(memory_growth)[0].next_step, Not(HasSubstr(".cpu()")));
}

TEST(MemoryGrowth, the_advice_follows_from_the_category_that_grows) {
  const auto advice = [](const char* category, std::uint64_t survivors = 50) {
    Case c;
    c.report.tables.growth = {growth(2.0 * kMib)};
    c.report.tables.growth[0].survivors = survivors;
    c.report.tables.growth_by_category = {growth(2.0 * kMib)};
    c.report.tables.growth_by_category[0].key = category;
    return c.run(memory_growth)[0].next_step;
  };
  EXPECT_THAT(advice("activation"), HasSubstr("and the graphs that it retains"));
  EXPECT_THAT(advice("activation", 10), Not(HasSubstr("graph"))) << "one tensor of each step";
  EXPECT_THAT(advice("other"), Not(HasSubstr("graph")));
  EXPECT_THAT(advice("optimizer_state"), HasSubstr("add_param_group"));
  EXPECT_THAT(advice("optimizer_state"), Not(HasSubstr(".item()")));
}

TEST(MemoryGrowth, of_a_model_in_stages_is_a_fact_next_to_a_leak) {
  Case c;
  c.report.tables.growth = {growth(2.0 * kMib), growth(1.0 * kMib)};
  c.report.tables.growth[0].is_model_in_stages = true;
  c.report.tables.growth[0].stages = 4;
  c.report.tables.growth[1].compared_steps = 5;
  const auto findings = c.run(memory_growth);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_THAT(findings[0].title, HasSubstr("grows by 1.0 MiB a step on average"));
  EXPECT_EQ(findings[1].severity, report::FindingSeverity::kInfo);
  EXPECT_THAT(findings[1].title, HasSubstr("grew in 4 stages"));
}

TEST(MemoryGrowth, of_another_device_is_told_of_that_device) {
  Case c;
  c.report.tables.growth = {growth(100.0 * kMib)};
  c.report.tables.growth[0].device = 1;
  EXPECT_THAT(c.run(memory_growth), IsEmpty());
}

TEST(Settings, max_split_size_with_expandable_segments_is_a_conflict) {
  Case c;
  set_expandable(c);
  EXPECT_THAT(c.run(allocator_settings_conflict), IsEmpty());
  Case d;
  set_expandable(d);
  d.maker.builder().add_setting(model::Setting{"max_split_size", std::int64_t{128 << 20}});
  d.maker.builder().add_setting(model::Setting{"garbage_collection_threshold", 0.8});
  EXPECT_THAT(d.run(allocator_settings_conflict), SizeIs(2));
}

TEST(Settings, a_wish_that_was_not_granted_is_told) {
  Case c;
  c.maker.builder().add_setting(
      model::Setting{"PYTORCH_CUDA_ALLOC_CONF", std::string("expandable_segments:True")});
  c.maker.builder().add_setting(model::Setting{"expandable_segments", false});
  const Findings found = c.run(allocator_settings_conflict);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].title, HasSubstr("is set but not in effect"));
}

TEST(RecordingWasEmpty, says_what_to_call_and_what_is_known) {
  Case c;
  c.maker.segment(0, kGib, {TraceMaker::block(0, kMib, kMib)});
  const Findings found = c.run(recording_was_empty);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].title, AllOf(HasSubstr("1 live block of 1.0 MiB"), HasSubstr("Nothing")));
  EXPECT_THAT(found[0].next_step, HasSubstr("_record_memory_history(max_entries=100000)"));
}

TEST(RecordingWasEmpty, advises_on_the_tool_that_the_file_is_of) {
  Case c;
  c.report.source.format = "plimsoll";
  c.maker.segment(0, kGib, {});
  const Findings found = c.run(recording_was_empty);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].next_step, AllOf(HasSubstr("plimsoll.record()"), Not(HasSubstr("torch"))));
}

TEST(RecordingWasEmpty, a_ring_of_one_event_is_no_history_and_two_are) {
  Case c;
  c.maker.segment(0, kGib, {TraceMaker::block(0, kMib, kMib)});
  c.maker.event(Action::kFreeCompleted, 5 * kMib, 8);
  EXPECT_THAT(c.run(recording_was_empty), SizeIs(1));
  Case d;
  d.maker.segment(0, kGib, {TraceMaker::block(0, kMib, kMib)});
  d.maker.free(5 * kMib, 8);
  EXPECT_THAT(d.run(recording_was_empty), IsEmpty());
}

TEST(NoMemoryEvents, comes_from_the_readers_diagnostic) {
  Case c;
  EXPECT_THAT(c.run(no_memory_events), IsEmpty());
  Case d;
  d.report.source.diagnostics.push_back({"no_memory_events", "error", 1, "", ""});
  EXPECT_THAT(d.run(no_memory_events), SizeIs(1));
}

TEST(RecordingIncomplete, comes_from_the_readers_diagnostics_with_their_numbers) {
  Case c;
  c.report.source.diagnostics.push_back({"file_cut", "data_loss", 1, "", ""});
  c.report.source.diagnostics.push_back({"dropped_events", "data_loss", 9, "", ""});
  EXPECT_THAT(c.run(recording_incomplete), IsEmpty());
  Case d;
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
  Case c;
  for (std::uint64_t i = 0; i < 1000; ++i) c.maker.event(Action::kSnapshot, 0, 0);
  c.maker.builder().mark_truncated(model::Device{});
  c.device().frees_without_alloc = 1;
  const Findings found = c.run(history_truncated);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].next_step, HasSubstr("max_entries=10000)"));
  EXPECT_THAT(found[0].evidence, Contains(HasSubstr("1 allocation freed here was made before it")));
}

// A wave: give back `segments`, then take one again.
void add_wave(Case& c, int segments, model::StackId stack) {
  for (int i = 0; i < segments; ++i) c.maker.event(Action::kSegmentFree, 0, 2 * kMib, stack);
  for (int i = 0; i < segments; ++i) c.maker.event(Action::kSegmentAlloc, 0, 2 * kMib, stack);
}

TEST(SegmentChurn, names_empty_cache_where_it_was_that) {
  Case c;
  const auto stack = c.maker.stack({{"/x/site-packages/torch/cuda/memory.py", 9, "empty_cache"},
                                    {"/home/u/train.py", 5, "loop"}});
  for (int i = 0; i < 5; ++i) add_wave(c, 10, stack);
  const Findings found = c.run(segment_churn);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].next_step, HasSubstr("Remove torch.cuda.empty_cache()"));
  EXPECT_THAT(found[0].evidence, Contains(HasSubstr("home/u/train.py:5 (loop), by torch.cuda")));
}

TEST(SegmentChurn, a_cache_emptied_between_phases_is_right) {
  Case c;
  for (int i = 0; i < 4; ++i) add_wave(c, 100, model::kNoStack);
  EXPECT_THAT(c.run(segment_churn), IsEmpty());
}

report::SiteRow throwaway(std::uint64_t count, std::uint64_t size) {
  report::SiteRow row;
  row.line = "a.py:1 (f)";
  row.allocations = row.temporary = row.commonest_size_count = count;
  row.commonest_size_bytes = size;
  row.bytes = row.temporary_bytes = count * size;
  return row;
}

TEST(Churn, is_told_when_one_line_makes_half_of_all_allocations) {
  for (const int others : {2000, 2001}) {
    Case c;
    for (int i = 0; i < 2000 + others; ++i) c.maker.alloc(0, 8).free(0, 8);
    c.report.tables.sites = {throwaway(2000, 8)};
    EXPECT_THAT(c.run(churn), SizeIs(others == 2000 ? 1 : 0));
  }
}

TEST(Churn, of_a_stack_without_a_line_is_not_told) {
  Case c;
  for (int i = 0; i < 3000; ++i) c.maker.alloc(0, 8).free(0, 8);
  c.report.tables.sites = {throwaway(3000, 8)};
  c.report.tables.sites[0].line = "[backward, no Python frame]";
  EXPECT_THAT(c.run(churn), IsEmpty());
}

// Of size `mib`, freed at once.
void throw_away(Case& c, int count, std::uint64_t mib, model::StackId stack) {
  for (int i = 0; i < count; ++i) c.maker.alloc(1, mib * kMib, stack).free(1, mib * kMib);
}

TEST(RepeatedLargeAllocation, from_the_cache_costs_nothing_and_is_not_reported) {
  Case c;
  throw_away(c, 60, 64, c.maker.stack({{"a.py", 1, "f"}}));
  throw_away(c, 61, 64, model::kNoStack);
  EXPECT_THAT(c.run(repeated_large_allocation), IsEmpty());
}

TEST(RepeatedLargeAllocation, is_reported_when_it_went_to_the_driver_or_is_most_of_all) {
  Case c;
  throw_away(c, 60, 64, c.maker.stack({{"a.py", 1, "f"}}));
  const Findings found = c.run(repeated_large_allocation);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].evidence, Not(Contains(HasSubstr("cudaMalloc"))));

  Case d;
  const auto line = d.maker.stack({{"a.py", 1, "f"}});
  throw_away(d, 200, 64, model::kNoStack);
  throw_away(d, 54, 64, line);
  for (int i = 0; i < 6; ++i) {
    add_wave(d, 1, line);
    throw_away(d, 1, 64, line);
  }
  EXPECT_THAT(d.run(repeated_large_allocation)[0].evidence,
              Contains(HasSubstr("6 allocations had to wait for the driver")));
}

TEST(RepeatedLargeAllocation, one_size_counts_whatever_else_the_line_allocates) {
  Case c;
  const auto stack = c.maker.stack({{"a.py", 1, "f"}});
  throw_away(c, 60, 64, stack);
  for (std::uint64_t i = 0; i < 40; ++i) c.maker.alloc(100 + i, kMib + i, stack);  // it keeps these
  const Findings found = c.run(repeated_large_allocation);
  ASSERT_THAT(found, SizeIs(1)) << "40 % of the line's allocations live, but none of these";
  EXPECT_THAT(found[0].title, HasSubstr("64.0 MiB 60 times"));
  EXPECT_THAT(found[0].evidence, Contains(HasSubstr("That is 3.8 GiB of the 3.8 GiB")));

  Case d;  // two sizes, neither is half of all
  const auto line = d.maker.stack({{"a.py", 1, "f"}});
  throw_away(d, 60, 64, line);
  throw_away(d, 40, 128, line);
  EXPECT_THAT(d.run(repeated_large_allocation), IsEmpty());
}

}  // namespace
}  // namespace plimsoll::analysis::findings

#include "exporters/terminal/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "exporters/verdict.h"
#include "text/layout.h"

namespace plimsoll::exporters::terminal {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

report::DeviceReport device(std::int32_t ordinal) {
  report::DeviceReport made;
  made.device = ordinal;
  made.device_type = "cuda";
  made.events = 6486;
  made.history = "complete";
  made.first_time_ns = 1'000'000'000;
  made.last_time_ns = 3'000'000'000;
  for (report::SeriesTotals report::DeviceReport::* series :
       {&report::DeviceReport::requested_allocated, &report::DeviceReport::requested_active}) {
    made.*series = report::SeriesTotals{kGiB, 12 * kGiB, 1843, 1'510'000'000, 2 * kGiB, kGiB};
  }
  return made;
}

report::Report report_of(std::vector<report::DeviceReport> devices) {
  report::Report report;
  report.source = report::Source{"run/snapshot.pickle", "torch_snapshot", 4096, 6486, {}};
  report.devices = std::move(devices);
  return report;
}

report::Report healthy() {
  report::Report report = report_of({device(0)});
  report.passes.push_back({"findings", report::PassState::kRan, "", 1});
  return report;
}

TEST(TextReport, no_finding_is_one_calm_sentence_with_the_peak) {
  EXPECT_THAT(to_text(healthy(), {}),
              StartsWith("Nothing wrong found. Peak 12.0 GiB requested at event 1,843 of 6,486 "
                         "(510.0 ms).\n"));
}

TEST(TextReport, the_answer_about_last_uses_is_below_the_verdict) {
  report::Report report = healthy();
  report.devices[0].last_use.emplace().text = "No operator uses it again.";
  EXPECT_THAT(to_text(report, {}), HasSubstr("(510.0 ms).\nNo operator uses it again.\n\n"));
  report.findings.push_back({"x", report::FindingSeverity::kInfo, "Title", {}, {{"Do it."}}});
  EXPECT_THAT(to_text(report, {}), HasSubstr("Do it.\n\nNo operator uses it again.\n\n"));
  report.devices.push_back(device(1));
  EXPECT_THAT(to_text(report, {}), HasSubstr("\ncuda:0: No operator uses it again.\n"));
}

// A report of a GPU and of host memory with this peak.
report::Report with_host(std::int64_t peak_bytes) {
  report::Report report = healthy();
  report.devices.push_back(device(-1));
  report::DeviceReport& host = report.devices.back();
  host.device_type = "cpu";
  host.requested_allocated = host.requested_active = {0, peak_bytes, 7, 1'100'000'000, 12, 0};
  return report;
}

TEST(TextReport, memory_of_the_host_has_a_section_only_if_it_is_a_good_part) {
  const std::string text = to_text(with_host(64 << 20), {});
  EXPECT_THAT(text,
              HasSubstr("\ncpu: peak 64.0 MiB, end 12 B, small next to the GPU's. Its tables: "
                        "--device cpu.\n"));
  EXPECT_THAT(text, Not(HasSubstr("\ncpu  6,486 events")));
  EXPECT_THAT(to_text(with_host(2 * kGiB), {}), HasSubstr("\ncpu  6,486 events"));
  TextOptions of_host;
  of_host.device = "cpu";
  EXPECT_THAT(to_text(with_host(64 << 20), of_host), HasSubstr("\ncpu  6,486 events"));
  report::Report growing = with_host(64 << 20);
  growing.tables.growth.emplace_back();
  growing.tables.growth.back().device = -1;
  EXPECT_THAT(to_text(growing, {}), HasSubstr("\ncpu  6,486 events"));
}

TEST(TextReport, what_a_pass_could_not_answer_is_stated) {
  report::Report report = healthy();
  report.passes.push_back({"growth", report::PassState::kRan, "on pinned_host: no steps", 1});
  EXPECT_THAT(to_text(report, {}),
              HasSubstr("Not answered\n  - growth: on pinned_host: no steps\n"));
}

TEST(TextReport, without_a_finding_the_two_figures_closest_to_a_threshold_are_named) {
  report::Report report = healthy();
  report.near_misses = {{1, "memory_growth", "of another device", 0.99},
                        {0, "activations_dominate", "activations are 40.0%", 0.8},
                        {0, "stranded_memory", "1.0 GiB were stranded", 0.5},
                        {0, "memory_growth", "a line grows", 0.4}};
  EXPECT_THAT(no_findings(report, "").text(),
              testing::EndsWith(" Closest to a finding: activations are 40.0%; 1.0 GiB were "
                                "stranded."));
}

TEST(TextReport, growth_of_the_process_contradicts_no_verdict) {
  report::Report report = healthy();
  report.devices[0].device_type = "cpu";
  report.devices[0].requested_active.peak_bytes = 20 << 20;
  const std::string healthy_text = no_findings(report, "").text();
  EXPECT_THAT(healthy_text, testing::StartsWith("Nothing wrong found. "));
  report.devices[0].process_growth_bytes = 63 << 20;
  EXPECT_EQ(no_findings(report, "").text(), healthy_text);
  report.devices[0].process_growth_bytes = 64 << 20;
  EXPECT_THAT(no_findings(report, "").text(),
              AllOf(testing::StartsWith("Nothing wrong found in its tensors. "),
                    HasSubstr(" But the process grew by 64.0 MiB after step 3, which they do not "
                              "explain.")));
}

TEST(TextReport, without_a_finding_the_largest_categories_of_the_peak_are_named) {
  constexpr std::uint64_t kUnit = std::uint64_t{1} << 30;
  report::Report report = healthy();
  report::PointInTime point;
  point.name = "peak";
  point.live_bytes = 12 * kUnit;
  report.tables.points.push_back(point);
  const auto add = [&](const char* category, std::uint64_t bytes) {
    report::GroupRow row;
    row.key = category;
    row.bytes = bytes;
    report.tables.by_category.push_back(row);
  };
  add("activation", 6 * kUnit);
  add("optimizer_state", 4 * kUnit);
  add("unknown", kUnit);
  add("parameter", kUnit);
  EXPECT_THAT(no_findings(report, "").text(),
              HasSubstr("(510.0 ms): activations 6.0 GiB, optimizer state 4.0 GiB, unknown 1.0 "
                        "GiB."));
  report.tables.points.front().name = "end";
  EXPECT_THAT(no_findings(report, "").text(), HasSubstr("(510.0 ms)."));
}

TEST(TextReport, a_healthy_report_begins_with_it_and_facts_follow) {
  report::Report report = healthy();
  report.devices.front().last_use = {.is_all_used = true, .text = "All is used."};
  const std::string calm = "Nothing is wasted: every byte at the peak is used again.";
  EXPECT_THAT(to_text(report, {}), AllOf(StartsWith(calm), Not(HasSubstr("All is used."))));
  report::Finding fact;
  fact.title = "Activations are 60% of the peak";
  fact.is_fact = true;
  report.findings.push_back(fact);
  EXPECT_THAT(to_text(report, {}), AllOf(StartsWith(calm), HasSubstr("\n\nINFO Activations are")));
  report.devices.front().last_use->unused_bytes = 8;
  report.devices.front().last_use->unknown_bytes = 4;
  EXPECT_THAT(
      to_text(report, {}),
      StartsWith("Nothing of note is wasted: all but 12 B at the peak is known to be used again."));
  report.devices.push_back(device(1));
  report.devices.back().last_use = {.text = "Some is not."};
  EXPECT_THAT(to_text(report, {}), AllOf(StartsWith("INFO"), HasSubstr("Some is not.")));
  report.devices.pop_back();
  report.findings.front().is_fact = false;
  EXPECT_THAT(to_text(report, {}),
              AllOf(StartsWith("INFO Activations"), HasSubstr("All is used.")));
}

TEST(TextReport, findings_come_first_with_evidence_steps_and_savings) {
  report::Report report = healthy();
  report.findings.push_back(report::Finding{"out_of_memory",
                                            report::FindingSeverity::kCritical,
                                            "It ran out.",
                                            {"4.0 GiB were asked for."},
                                            {report::step_up_to("Ask for less.", 1u << 30),
                                             {"Ask later.", 1u << 20},
                                             {"Ask never."},
                                             {"Ask a fourth time."}}});
  EXPECT_THAT(to_text(report, {}), StartsWith("CRITICAL It ran out.\n"
                                              "  - 4.0 GiB were asked for.\n"
                                              "  \u2192 Ask for less. Saves up to 1.0 GiB.\n"
                                              "    or: Ask later. Saves 1.0 MiB.\n"
                                              "    or: Ask never.\n"
                                              "    or: Ask a fourth time.\n\n"));
}

TEST(TextReport, a_negative_baseline_is_unknown) {
  report::Report report = healthy();
  report.devices[0].requested_allocated.baseline_bytes = -2 * kGiB;
  report.devices[0].requested_active.baseline_bytes = -2 * kGiB;
  const std::string text = to_text(report, {});
  EXPECT_THAT(text, HasSubstr("events and segments disagree by 2.0 GiB"));
  EXPECT_THAT(text, HasSubstr("requested  unknown  unknown  2.0 GiB"));
  EXPECT_THAT(text, Not(HasSubstr("-2.0 GiB")));
}

TEST(TextReport, the_users_of_the_device_are_those_at_its_failure_if_any) {
  report::Report report = healthy();
  TextOptions wide;
  wide.width = 200;
  report::DeviceBarReport bar{
      .point = "fullest", .readings = 45, .used_bytes = 3 << 20, .total_bytes = 4 << 20};
  bar.parts = {{"tensors", "tensors", 5 << 20, 0, 0},
               {"process", "process 7 e\x1bvil", 1 << 20, 7, 1},
               {"unexplained", "unexplained", -(3 << 20), 0, 0}};
  report.devices[0].bars = {bar};
  EXPECT_THAT(
      to_text(report, wide),
      HasSubstr("\n  on the device  3.0 MiB of 4.0 MiB used, the most of 45 readings: tensors 5.0 "
                "MiB, process 7 e\xEF\xBF\xBDvil 1.0 MiB, less 3.0 MiB by which the figures "
                "disagree\n"));
  bar.point = "oom";
  report.devices[0].bars.push_back(bar);
  EXPECT_THAT(to_text(report, wide), HasSubstr("3.0 MiB of 4.0 MiB used when it failed: "));
}

TEST(TextReport, devices_without_content_share_one_line) {
  report::DeviceReport empty;
  empty.device = 1;
  empty.device_type = "cuda";
  report::DeviceReport other = empty;
  other.device = 2;
  EXPECT_THAT(to_text(report_of({device(0), empty, other}), {}),
              HasSubstr("cuda:1, cuda:2: nothing recorded, nothing reserved.\n"));
}

TEST(TextReport, only_the_selected_device_is_shown) {
  TextOptions options;
  options.device = "cuda:1";
  const std::string text = to_text(report_of({device(0), device(1)}), options);
  EXPECT_THAT(text, HasSubstr("cuda:1"));
  EXPECT_THAT(text, Not(HasSubstr("cuda:0")));
}

TEST(TextReport, passes_skipped_for_the_same_reason_share_a_line) {
  report::Report report = healthy();
  report.passes = {{"oom", report::PassState::kSkipped, "this file has no events", 0},
                   {"timeline", report::PassState::kRan, "", 5},
                   {"sites", report::PassState::kSkipped, "this file has no events", 0}};
  EXPECT_THAT(to_text(report, {}), HasSubstr("oom, sites: this file has no events\n"));
}

TEST(TextReport, the_last_failures_are_listed_by_the_number_that_at_accepts) {
  report::Report report = healthy();
  auto& ooms = report.devices[0].oom_details;
  for (std::uint64_t event = 0; event < 7; ++event) {
    ooms.emplace_back();
    ooms.back().event = event;
    ooms.back().requested_bytes = (event + 1) << 20;
    ooms.back().line = "a.py:" + std::to_string(event) + " (f)";
  }
  const std::string text = to_text(report, {});
  EXPECT_THAT(text, HasSubstr("out of memory  7 times, of which the last 5 were\n"));
  EXPECT_THAT(text, HasSubstr("oom:3: a request of 3.0 MiB by a.py:2 (f), event 2"));
  EXPECT_THAT(text, HasSubstr("oom:7: a request of 7.0 MiB by a.py:6 (f), event 6"));
  EXPECT_THAT(text, Not(HasSubstr("oom:2:")));
  ooms.resize(1);
  EXPECT_THAT(to_text(report, {}),
              HasSubstr("out of memory  once: a request of 1.0 MiB at event 0"));
}

// Names from a file must not color the terminal or move its cursor.
TEST(TextReport, text_from_the_file_is_made_printable) {
  report::Report report = healthy();
  report.source.path = "\x1b[2J.pickle";
  report.findings.push_back(
      report::Finding{"x", report::FindingSeverity::kInfo, "\x1b]0;t\x07", {"\r"}, {{"\n"}}});
  report.tables.points.push_back({0, "peak", 1843, {}, 8, 1, 0});
  report.tables.by_line.push_back({0, "\x1b[31mred.py:1", 8, 1, 8, 1.0, {}});
  EXPECT_THAT(to_text(report, {}), Not(HasSubstr("\x1b")));
}

TEST(TextReport, omitted_rows_are_summed) {
  report::Report report = healthy();
  report.tables.points.push_back({0, "peak", 1843, {}, 100, 10, 0});
  report.tables.by_line.push_back({0, "a.py:1", 60, 4, 20, 0.6, {}});
  report.tables.by_line.push_back({0, "b.py:1", 30, 4, 20, 0.3, {}});
  report.tables.by_line.push_back({0, "c.py:1", 10, 2, 5, 0.1, {}});
  TextOptions options;
  options.top = 1;
  EXPECT_THAT(to_text(report, options),
              HasSubstr("   40 B  40.0%      6           [other: 2 groups]\n"));
  report.tables.by_line.back().key = "[other: 1,000 groups]";
  EXPECT_THAT(to_text(report, options), HasSubstr(" [other: 2 groups]\n")) << "a name";
  report.tables.by_line.back().key = "[other: 7 groups]";
  EXPECT_THAT(to_text(report, options),
              HasSubstr("   40 B  40.0%      6           [other: 8 groups]\n"));
}

TEST(TextReport, below_a_line_of_the_program_are_the_largest_lines_of_packages) {
  report::Report report = healthy();
  report.tables.points.push_back({0, "peak", 1843, {}, 100, 5, 0});
  report::GroupRow row = {0, "a.py:1 (<module>)", 100, 5, 60, 1.0, {}};
  row.inside = {{"lib/loss.py:7 (loss)", 60, 3}, {"lib/net.py:8 (f)", 38, 1}, {"lib/x.py:9", 2, 1}};
  report.tables.by_line.push_back(row);
  const std::string text = to_text(report, {});
  EXPECT_THAT(text, HasSubstr("   60 B   60.0%      3             lib/loss.py:7 (loss)\n"));
  EXPECT_THAT(text, HasSubstr("lib/net.py:8 (f)"));
  EXPECT_THAT(text, Not(HasSubstr("lib/x.py")));
}

TEST(TextReport, the_table_by_use_states_what_may_be_read_after_the_recording) {
  report::Report report = healthy();
  report.tables.points.push_back({0, "peak", 1843, {}, 100, 2, 0});
  report.tables.by_use.push_back({0, "used again", 60, 1, 60, 0.6, {}});
  report.tables.by_use.push_back({0, "not used again", 40, 1, 40, 0.4, {}});
  TextOptions options;
  options.tables = {TableKind::kUse};
  report.tables.points[0].unused_at_end_bytes = 20;
  EXPECT_THAT(to_text(report, options),
              HasSubstr("  Not used again before the recording ends: 20 B are live then, and the "
                        "program may read them later.\n"));
  report.tables.points[0].unused_at_end_bytes = 19;
  EXPECT_THAT(to_text(report, options), Not(HasSubstr("before the recording ends")));
}

TEST(TextReport, a_single_omitted_row_is_shown_by_its_name) {
  report::Report report = healthy();
  report.tables.points.push_back({0, "peak", 1843, {}, 100, 10, 0});
  report.tables.by_line.push_back({0, "a.py:1", 60, 4, 20, 0.6, {}});
  report.tables.by_line.push_back({0, "b.py:1", 40, 6, 20, 0.4, {}});
  TextOptions options;
  options.top = 1;
  EXPECT_THAT(to_text(report, options), HasSubstr("   40 B  40.0%      6     20 B  b.py:1\n"));
  EXPECT_THAT(to_text(report, options), Not(HasSubstr("[other")));
}

TEST(TextReport, sentences_are_no_wider_than_100_columns_on_a_wide_terminal) {
  report::Report report = healthy();
  std::string words;
  for (int i = 0; i < 60; ++i) words += "word ";
  report.findings.push_back(
      report::Finding{"x", report::FindingSeverity::kWarning, words, {words}, {{words, 7}}});
  TextOptions options;
  options.width = 200;
  std::istringstream lines(to_text(report, options));
  for (std::string line; std::getline(lines, line);)
    EXPECT_LE(text::display_width(line), 100u) << line;
}

TEST(TextReport, the_source_of_a_line_is_shown_with_it) {
  report::Report report = healthy();
  report.tables.points.push_back({0, "peak", 1843, {}, 8, 1, 0});
  report.tables.by_line.push_back({0, "net.py:7 (f)", 8, 1, 8, 1.0, {}});
  TextOptions options;
  options.source_of = [](const std::string& line) {
    return line == "net.py:7 (f)" ? "y = x\x1b @ w" : "";
  };
  EXPECT_THAT(to_text(report, options), HasSubstr("  net.py:7 (f)  y = x\uFFFD @ w\n"));
}

TEST(TextReport, no_line_is_wider_than_requested) {
  report::Report report = healthy();
  const std::string words(400, 'x');
  report.source.path = "folder/" + words;
  report.source.diagnostics.push_back({"name", "info", 3, words + " " + words, ""});
  report.findings.push_back(
      report::Finding{"x", report::FindingSeverity::kWarning, words, {words}, {{words, 7}}});
  report.tables.points.push_back({0, "peak", 1843, {}, 8, 1, 0});
  report.tables.by_line.push_back({0, words, 8, 1, 8, 1.0, {}});
  for (const std::size_t width : {60u, 80u, 100u, 200u}) {
    TextOptions options;
    options.width = width;
    options.source_of = [&](const std::string&) -> std::string { return std::string(words); };
    std::istringstream lines(to_text(report, options));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(text::display_width(line), width) << line;
    }
  }
}

}  // namespace
}  // namespace plimsoll::exporters::terminal

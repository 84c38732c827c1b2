#include "exporters/terminal/brief.h"

#include <algorithm>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/layout.h"

namespace plimsoll::exporters::terminal {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr std::int64_t kBriefGiB = std::int64_t{1} << 30;

report::DeviceReport device(std::int32_t ordinal, std::int64_t peak_bytes) {
  report::DeviceReport made;
  made.device = ordinal;
  made.device_type = "cuda";
  made.events = 6486;
  made.first_time_ns = 1'000'000'000;
  for (report::SeriesTotals report::DeviceReport::* series :
       {&report::DeviceReport::requested_allocated, &report::DeviceReport::requested_active}) {
    made.*series = report::SeriesTotals{0, peak_bytes, 1843, 1'510'000'000, kBriefGiB};
  }
  return made;
}

void add_category(report::Report& report, std::int32_t device, const char* name,
                  std::int64_t bytes) {
  report::GroupRow row;
  row.device = device;
  row.key = name;
  row.bytes = static_cast<std::uint64_t>(bytes);
  report.tables.by_category.push_back(row);
}

report::Report small() {
  report::Report report;
  report.source = report::Source{"run.plim", "plimsoll", 4096, 6486, {}};
  report.passes.push_back({"findings", report::PassState::kRan, "", 1});
  report.devices = {device(0, 12 * kBriefGiB)};
  report.tables.points.push_back({0, "peak", 1843, {}, std::uint64_t{12} << 30, 1, 0});
  add_category(report, 0, "activation", 8 * kBriefGiB);
  add_category(report, 0, "parameter", 4 * kBriefGiB);
  return report;
}

report::Finding finding(const std::string& title, const std::string& step) {
  return {"x", report::FindingSeverity::kWarning, title, {"evidence"}, {{step}}};
}

std::size_t lines_in(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count(text, '\n'));
}

TEST(BriefText, the_answer_about_last_uses_is_below_the_peak) {
  report::Report report = small();
  report.devices[0].last_use.emplace().text = "No operator uses it again.";
  EXPECT_THAT(to_brief_text(report, {}), HasSubstr("end 1.0 GiB\n  No operator uses it again.\n"));
}

TEST(BriefText, the_verdict_the_first_step_and_the_peak_fit_on_one_screen) {
  report::Report report = small();
  report.findings = {finding("Too much.", "Use less."), finding("Odd.", "Look at it.")};
  EXPECT_EQ(to_brief_text(report, {}),
            "WARNING Too much.\n"
            "  - evidence\n"
            "  \u2192 Use less.\n"
            "WARNING Odd.\n"
            "\n"
            "cuda:0  peak 12.0 GiB at event 1,843 of 6,486 (510.0 ms), end 1.0 GiB\n"
            "  activation 8.0 GiB, parameter 4.0 GiB\n"
            "\n"
            "Everything: --full\n");
}

TEST(BriefText, more_steps_follow_the_first_in_two_lines_each) {
  report::Report report = small();
  report.findings = {finding("Too much.", "Use less.")};
  report.findings[0].steps.push_back(report::step_up_to("Use it later.", 1U << 20U));
  report.findings[0].steps.push_back({std::string(300, 'x') + " y"});
  EXPECT_THAT(to_brief_text(report, {}), HasSubstr("  \u2192 Use less.\n"
                                                   "    or: Use it later. Saves up to 1.0 MiB.\n"
                                                   "    or: xxx"));
  report.findings[0].steps.back().text = "One word follows another. " + std::string(400, ' ');
  for (int i = 0; i < 60; ++i) report.findings[0].steps.back().text += "word ";
  EXPECT_THAT(to_brief_text(report, {}), HasSubstr("word \u2026\n\ncuda:0"));
}

TEST(BriefText, the_figures_that_nvidia_smi_shows_follow_the_peak) {
  report::Report report = small();
  report.devices[0].reserved.peak_bytes = 14 * kBriefGiB;
  EXPECT_THAT(to_brief_text(report, {}), HasSubstr("end 1.0 GiB\n  reserved 14.0 GiB at most\n"));
  report::DeviceBarReport& bar = report.devices[0].bars.emplace_back();
  bar.used_bytes = std::uint64_t{20} << 30;
  bar.total_bytes = std::uint64_t{80} << 30;
  EXPECT_THAT(to_brief_text(report, {}),
              HasSubstr("\n  reserved 14.0 GiB at most; 20.0 GiB of 80.0 GiB used on the device, "
                        "by all processes\n"));
}

TEST(BriefText, without_a_finding_a_sentence_states_that) {
  EXPECT_THAT(to_brief_text(small(), {}), StartsWith("Nothing wrong found. Peak 12.0 GiB"));
}

TEST(BriefText, points_other_than_the_peak_are_named) {
  report::Report report = small();
  report.tables.points.front().name = "oom";
  EXPECT_THAT(to_brief_text(report, {}), HasSubstr("\n  at oom: activation 8.0 GiB"));
}

TEST(BriefText, without_categories_the_largest_line_is_named) {
  report::Report report = small();
  report.tables.by_category.clear();
  report.tables.by_line.push_back({0, "net.py:7 (f)", std::uint64_t{6} << 30, 1, 8, 1.0, {}});
  EXPECT_THAT(to_brief_text(report, {}), HasSubstr("\n  largest line: net.py:7 (f) 6.0 GiB\n"));
}

TEST(BriefText, where_there_is_room_the_largest_lines_follow) {
  report::Report report = small();
  for (const char* line : {"net.py:7 (f)", "net.py:9 (f)", "a", "b", "c"}) {
    report.tables.by_line.push_back({0, line, std::uint64_t{6} << 30, 1, 8, 1.0, {}});
  }
  EXPECT_THAT(to_brief_text(report, {}), HasSubstr("\n\nLargest lines on cuda:0 at its peak:\n"
                                                   "     6.0 GiB  net.py:7 (f)\n"
                                                   "     6.0 GiB  net.py:9 (f)\n"
                                                   "     6.0 GiB  a\n"
                                                   "     6.0 GiB  b\n\n"));
  std::string words;
  for (int i = 0; i < 300; ++i) words += "word ";
  report.findings = {finding(words, words)};
  EXPECT_THAT(to_brief_text(report, {}), Not(HasSubstr("Largest lines")));
}

TEST(BriefText, imperfect_input_is_reported) {
  report::Report report = small();
  report.source.diagnostics.push_back(
      {"dropped_events", "data_loss", 1234, "Events are missing. The rest.", ""});
  report.source.diagnostics.push_back({"file_cut", "data_loss", 1, "It has no end.", ""});
  report.source.diagnostics.push_back({"note", "info", 1, "help", ""});
  const std::string text = to_brief_text(report, {});
  EXPECT_THAT(text, HasSubstr("\nEvents are missing (1,234 times); and 1 more\n"));
  EXPECT_THAT(text, Not(HasSubstr("note")));
}

TEST(BriefText, any_findings_fit_on_one_screen) {
  std::string words;
  for (int i = 0; i < 300; ++i) words += "word ";
  report::Report report = small();
  report.devices.clear();
  report.tables = {};
  for (std::int32_t ordinal = 0; ordinal < 9; ++ordinal) {
    report.devices.push_back(device(ordinal, kBriefGiB * (ordinal + 1)));
    report.tables.points.push_back({ordinal, "peak", 1843, {}, 8, 1, 0});
    for (int i = 0; i < 20; ++i) add_category(report, ordinal, "category of things", kBriefGiB);
  }
  for (int i = 0; i < 9; ++i) report.findings.push_back(finding(words, words));
  report.source.diagnostics.push_back({"x", "data_loss", 1, words, words});
  for (const std::size_t width : {80u, 120u, 200u}) {
    TextOptions options;
    options.width = width;
    const std::string text = to_brief_text(report, options);
    EXPECT_LE(lines_in(text), kBriefLines) << text;
    EXPECT_GE(lines_in(text), kBriefLines - 1) << text;
    EXPECT_THAT(text, HasSubstr("\nand 6 more findings\n"));
    EXPECT_THAT(text, HasSubstr("\nand 5 more devices\n"));
    EXPECT_THAT(text, HasSubstr(", and 1"));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(text::display_width(line), width) << line;
    }
  }
  report.findings.resize(4);
  report.devices.resize(5);
  EXPECT_THAT(to_brief_text(report, {}),
              AllOf(HasSubstr("\nand 1 more finding\n"), HasSubstr("\nand 1 more device\n")));
  report.findings.clear();
  EXPECT_LE(lines_in(to_brief_text(report, {})), kBriefLines);
}

TEST(BriefText, the_command_of_the_full_report_is_not_shortened) {
  TextOptions options;
  options.full_command = "plimsoll report --full " + std::string(300, 'x') + ".plim";
  EXPECT_THAT(to_brief_text(small(), options),
              HasSubstr("\nEverything: " + options.full_command + "\n"));
}

}  // namespace
}  // namespace plimsoll::exporters::terminal

// Tests that every exporter must pass, whatever its format. A test file instantiates them with
//
//   INSTANTIATE_TEST_SUITE_P(Json, ExporterSuite, testing::Values(ExporterCase{make, json_flaw}));
//
// where the flaw function describes the defect of an output, and returns "" if it is well-formed.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "exporters/exporter.h"
#include "tests/support/export_generated.h"
#include "tests/support/trace_maker.h"

namespace plimsoll::tests {

struct ExporterCase {
  std::function<std::unique_ptr<exporters::Exporter>()> make;
  std::function<std::string(std::string_view)> flaw;
};
// GoogleTest would otherwise print the bytes of the case, with addresses, in test names.
inline void PrintTo(const ExporterCase& exporter, std::ostream* out) {
  *out << exporter.make()->name();
}

// Accepts `left` writes, then refuses one, and counts later ones.
class FullDisk final : public exporters::Output {
 public:
  explicit FullDisk(int left) : left_(left) {}

  Status write(std::string_view) override {
    if (has_failed) ++writes_after_failure;
    if (left_-- > 0) return {};
    has_failed = true;
    return make_error(ErrorCode::kIo, "the disk is full");
  }
  bool has_failed = false;
  int writes_after_failure = 0;

 private:
  int left_;
};

class ExporterSuite : public testing::TestWithParam<ExporterCase> {
 protected:
  void expect_well_formed(const model::Trace& trace) {
    const auto exporter = GetParam().make();
    const std::string output = exported(*exporter, trace);
    EXPECT_EQ(GetParam().flaw(output), "") << output.substr(0, 2000);
    EXPECT_EQ(output, exported(*exporter, trace)) << "two runs differ";
  }

  // Two devices, a segment, annotations, a setting, and by default enough events to fill any
  // buffer.
  static model::Trace busy_trace(std::string_view file = "train.py",
                                 std::string_view function = "step", std::uint32_t events = 4000) {
    TraceMaker maker;
    maker.builder().add_setting({"expandable_segments", true});
    maker.builder().add_setting({"roundup_power2_divisions.1", std::int64_t{0}});
    maker.annotation(function, 1'000'000, 2'000'000);
    for (int ordinal : {0, 1}) {
      maker.on(model::Device{model::DeviceType::kCuda, ordinal});
      for (std::uint32_t i = 0; i < events; ++i) {
        const auto stack = maker.stack({{file, i, function}, {"main.py", 1, "<module>"}});
        maker.alloc(0x7f00'0000'0000 + i * 512, 100 + i, stack);
        if (i % 2 == 0) maker.free(0x7f00'0000'0000 + i * 512, 100 + i);
      }
      maker.segment(0x7f00'0000'0000, 1 << 21,
                    {TraceMaker::block(0x7f00'0000'0000 + 512, 512, 101)});
    }
    return maker.finish();
  }
};

TEST_P(ExporterSuite, has_a_name_a_description_and_a_suffix) {
  const auto exporter = GetParam().make();
  EXPECT_STRNE(exporter->name(), "");
  EXPECT_STRNE(exporter->description(), "");
  EXPECT_EQ(exporter->suffix()[0], '.');
}

TEST_P(ExporterSuite, an_empty_trace_is_well_formed) { expect_well_formed(TraceMaker().finish()); }

TEST_P(ExporterSuite, a_device_without_events_is_well_formed) {
  TraceMaker maker;
  maker.on(model::Device{model::DeviceType::kCuda, 3});
  expect_well_formed(maker.finish());
}

TEST_P(ExporterSuite, a_busy_trace_is_well_formed) { expect_well_formed(busy_trace()); }

TEST_P(ExporterSuite, blocks_without_events_are_well_formed) {
  TraceMaker maker;
  maker.segment(1 << 20, 1 << 21, {TraceMaker::block(1 << 20, 512, 500)});
  expect_well_formed(maker.finish());
}

TEST_P(ExporterSuite, strange_names_are_well_formed) {
  using namespace std::string_view_literals;
  const std::string long_name(10'000, 'x');
  for (std::string_view name :
       {"a \"quoted\" \\ name"sv, "two\nlines\r\n;and a semicolon"sv, "nul\0inside"sv,
        "not utf-8: \xff\xfe\xc3("sv, "cut short: \xe2\x82"sv, "surrogate: \xed\xb3\xbf"sv,
        "\xe6\xbc\xa2\xe5\xad\x97 \xf0\x9f\x9a\xa2"sv, ",;=\t'"sv, ""sv,
        std::string_view(long_name)}) {
    expect_well_formed(busy_trace(name, name, 100));
  }
}

TEST_P(ExporterSuite, extreme_numbers_are_well_formed) {
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  TraceMaker maker;
  maker.without_times().alloc(kMost, kMost).alloc(1, 0);
  model::Event oom;
  oom.action = model::Action::kOom;
  oom.address = kMost / 2;
  oom.stream = maker.builder().stream(kMost);
  maker.event(oom);
  expect_well_formed(maker.finish());
}

TEST_P(ExporterSuite, the_first_write_error_ends_it_and_is_returned) {
  const model::Trace trace = busy_trace();
  const model::UserLines lines(trace);
  const report::Report report = report_at_end(trace);
  const auto exporter = GetParam().make();
  for (int writes = 0; writes < 40; ++writes) {
    FullDisk disk(writes);
    const Status status = exporter->write({trace, report, lines}, disk);
    EXPECT_EQ(status.ok(), !disk.has_failed);
    if (!disk.has_failed) break;
    EXPECT_EQ(status.error().message, "the disk is full");
    EXPECT_EQ(disk.writes_after_failure, 0) << "after " << writes << " writes";
  }
}

TEST_P(ExporterSuite, nothing_is_printed) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  exported(*GetParam().make(), busy_trace());
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace plimsoll::tests

// For tests of rules: a native recording of one device, written by hand, whose peak is its end.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "analysis/findings/peak.h"
#include "analysis/findings/rules.h"
#include "tests/support/trace_maker.h"

namespace plimsoll::analysis::findings {

inline constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

class Case {
 public:
  // What one explanation of the peak says.
  Findings run(void (*explain)(Peak&, Explanations&)) {
    explain_ = explain;
    return run(+[](const Facts& facts) {
      Findings findings;
      const auto devices = devices_of(facts);
      Explanations explanations;
      if (auto peak = Peak::of(facts, devices.at(0))) explain_(*peak, explanations);
      for (Explanation& each : explanations) findings.push_back(std::move(each.finding));
      return findings;
    });
  }
  Findings run(Findings (*rule)(const Facts&)) {
    const model::Trace trace = maker.finish();
    const model::UserLines lines(trace);
    report.devices.resize(1);
    report::MomentRow moment;
    moment.name = moment_name;
    moment.phase = peak_phase;
    const auto& device = trace.devices.at(0);
    moment.event = device.event_count - 1;
    for (const auto row : live_rows(device)) moment.live_bytes += trace.size_bytes(device, row);
    report.tables.moments.push_back(moment);
    const Options options;
    Facts facts{trace, lines, report, options, allocator_conf(trace), {}};
    facts.traffic.push_back(traffic_of(trace, lines, device));
    return rule(facts);
  }

  tests::TraceMaker maker;
  report::Report report;
  std::string moment_name = "peak";
  std::string peak_phase = "backward";

 private:
  static inline void (*explain_)(Peak&, Explanations&) = nullptr;

  static std::vector<std::uint32_t> live_rows(const model::DeviceTrace& device) {
    std::vector<std::uint32_t> rows;
    for (std::uint32_t row = 0; row < device.lifetimes.size(); ++row) {
      if (device.lifetimes.free_completed[row] == model::kNone) rows.push_back(row);
    }
    return rows;
  }
};

}  // namespace plimsoll::analysis::findings

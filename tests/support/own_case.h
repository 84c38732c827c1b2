// A handwritten recording for tests of rules: a native recording of one device, or a snapshot with
// inferred categories. Its peak is its end unless a test names another event.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "findings/peak/peak.h"
#include "findings/rules.h"
#include "model/live_set.h"
#include "tests/support/trace_maker.h"
#include "tests/support/units.h"

namespace plimsoll::findings {

using tests::kGib;
using tests::kMib;

class Case {
 public:
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
  Findings run(void (*rule)(const Facts&, const DeviceFacts&, Findings&)) {
    of_device_ = rule;
    return run(+[](const Facts& facts) {
      Findings findings;
      for (const DeviceFacts& device : devices_of(facts)) of_device_(facts, device, findings);
      return findings;
    });
  }
  Findings run(Findings (*rule)(const Facts&)) {
    model::Trace trace = maker.finish();
    trace.has_inferred_roles = is_snapshot;
    if (!category_before.empty()) {
      auto& first = trace.devices.at(0);
      const model::StringId word = trace.strings.intern(category_before);
      for (std::uint32_t row = 0; row < first.lifetimes.baseline_count; ++row) {
        first.lifetimes.category.set(row, word);
      }
    }
    const model::UserLines lines(trace);
    report.devices.resize(1);
    report::PointInTime point;
    point.name = point_name;
    point.phase = peak_phase;
    point.layer = peak_layer;
    const auto& device = trace.devices.at(0);
    point.event = peak_at_event.value_or(device.events.size() - 1);
    const auto event = static_cast<std::int64_t>(*point.event);
    for (const auto row : model::live_set(device, model::Liveness::kActive, event)) {
      point.live_bytes += trace.size_bytes(device, row);
    }
    report.tables.points.push_back(point);
    const Options options;
    const Facts facts{trace, lines, report, options, allocator_conf(trace)};
    return rule(facts);
  }

  tests::TraceMaker maker;
  report::Report report;
  std::string point_name = "peak";
  std::string peak_phase = "backward";
  std::string peak_layer;
  std::optional<std::uint64_t> peak_at_event;  // the peak's event; none: the last event
  bool is_snapshot = false;
  std::string category_before;  // in a snapshot: of memory live before the first event

 private:
  static inline void (*explain_)(Peak&, Explanations&) = nullptr;
  static inline void (*of_device_)(const Facts&, const DeviceFacts&, Findings&) = nullptr;
};

}  // namespace plimsoll::findings

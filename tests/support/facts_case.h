// Facts made by hand, which several tests of the rules share.
#pragma once

#include <string>
#include <utility>

#include "findings/rules.h"
#include "tests/support/trace_maker.h"
#include "tests/support/units.h"

namespace plimsoll::findings {

// One device, whose report the test fills in.
class FactsCase {
 public:
  FactsCase() { maker.on(model::Device{}); }

  report::DeviceReport& device() {
    if (report.devices.empty()) report.devices.resize(1);
    return report.devices[0];
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
    device();
    model::Trace trace = maker.finish();
    trace.has_inferred_roles = is_snapshot;
    const model::UserLines lines(trace);
    const Options options;
    const Facts facts{trace, lines, report, options, allocator_conf(trace)};
    return rule(facts);
  }

  tests::TraceMaker maker;
  report::Report report;
  bool is_snapshot = false;  // its categories are inferred

 private:
  static inline void (*of_device_)(const Facts&, const DeviceFacts&, Findings&) = nullptr;
};

inline report::OomDetails oom(std::string cause, std::string line = "a.py:1 (f)") {
  report::OomDetails row;
  row.cause = std::move(cause);
  row.line = std::move(line);
  row.requested_bytes = 4 * tests::kGib;
  row.device_free_bytes = tests::kGib;
  row.stranded_bytes = 9 * tests::kGib;
  return row;
}

}  // namespace plimsoll::findings

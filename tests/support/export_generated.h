// Exports handwritten traces, with a report whose points in time and timelines are simple enough to
// verify by hand.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "exporters/exporter.h"
#include "model/trace.h"
#include "model/user_line.h"
#include "plimsoll/result.h"
#include "report/report.h"

namespace plimsoll::tests {

class TextOutput final : public exporters::Output {
 public:
  Status write(std::string_view bytes) override {
    text += bytes;
    return {};
  }
  std::string text;
};

// A timeline with one level and one bucket per event; each series has the event's number as bytes.
inline report::Timeline counting_timeline(const model::DeviceTrace& device) {
  report::Timeline timeline;
  if (device.events.size() == 0) return timeline;
  timeline.levels.emplace_back();
  for (std::uint64_t event = 0; event < std::min<std::uint64_t>(device.events.size(), 5000);
       ++event) {
    report::TimelineBucket bucket;
    bucket.first_event = event;
    bucket.event_count = 1;
    bucket.first_time_ns = bucket.last_time_ns = device.events.time_ns[event];
    const auto bytes = static_cast<std::int64_t>(event);
    bucket.series.fill(report::SeriesBucket{bytes, bytes, bytes});
    timeline.levels.back().push_back(bucket);
  }
  return timeline;
}

// A report in which the point in time of each device is its end.
inline report::Report report_at_end(const model::Trace& trace) {
  report::Report report;
  report.source.path = "made.pickle";
  for (const model::DeviceTrace& device : trace.devices) {
    report::DeviceReport row;
    row.device = device.device.ordinal;
    row.device_type = name_of(device.device.type);
    row.events = device.events.size();
    row.timeline = counting_timeline(device);
    report.devices.push_back(row);
    report::PointInTime point;
    point.device = device.device.ordinal;
    point.name = "end";
    if (device.events.size() > 0) point.event = device.events.size() - 1;
    report.tables.points.push_back(point);
  }
  return report;
}

inline std::string exported(const exporters::Exporter& exporter, const model::Trace& trace,
                            const report::Report& report) {
  const model::UserLines lines(trace);
  TextOutput output;
  const Status status = exporter.write({trace, report, lines}, output);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return output.text;
}

inline std::string exported(const exporters::Exporter& exporter, const model::Trace& trace) {
  return exported(exporter, trace, report_at_end(trace));
}

}  // namespace plimsoll::tests

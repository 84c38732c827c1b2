#include "exporters/timeline_json/timeline_json_exporter.h"

#include <array>
#include <vector>

#include "exporters/json_output.h"
#include "model/ids.h"

namespace plimsoll::exporters::timeline_json {
namespace {

using report::Series;
using report::SeriesBucket;
using report::TimelineBucket;

constexpr std::size_t kPoints = 100'000;
constexpr std::array kSeries = {Series::kRequestedAllocated, Series::kRequestedActive,
                                Series::kAllocatedRounded, Series::kReserved};
static_assert(kSeries.size() == report::kSeriesCount);

using Points = std::vector<TimelineBucket>;

template <typename Get>
void write_column(JsonOutput& out, const char* name, const Points& points, Get get) {
  out.json().key(name);
  out.json().begin_array();
  for (const TimelineBucket& point : points) {
    if (!out.ok()) break;
    out.json().number(get(point));
  }
  out.json().end_array();
}

void write_times(JsonOutput& out, const Points& points) {
  base::JsonWriter& json = out.json();
  json.key("time_ns");
  json.begin_array();
  for (const TimelineBucket& point : points) {
    if (!out.ok()) break;
    if (point.first_time_ns == model::kNoTime) {
      json.null();
    } else {
      json.number(point.first_time_ns);
    }
  }
  json.end_array();
}

void write_series(JsonOutput& out, Series series, const Points& points) {
  auto column = [&](const char* name, std::int64_t SeriesBucket::* member) {
    write_column(out, name, points,
                 [&](const TimelineBucket& point) { return point.of(series).*member; });
  };
  out.json().key(report::to_string(series));
  out.json().begin_object();
  column("min_bytes", &SeriesBucket::min_bytes);
  column("max_bytes", &SeriesBucket::max_bytes);
  column("last_bytes", &SeriesBucket::last_bytes);
  out.json().end_object();
}

void write_device(JsonOutput& out, const report::DeviceReport& device) {
  static const Points kNoPoints;
  const Points* found = device.timeline.at_most(kPoints);
  const Points& points = found == nullptr ? kNoPoints : *found;
  base::JsonWriter& json = out.json();
  json.begin_object();
  json.key("device");
  json.number(std::int64_t{device.device});
  json.key("device_type");
  json.string(device.device_type);
  json.key("baseline_bytes");
  json.begin_object();
  for (Series series : kSeries) {
    json.key(report::to_string(series));
    json.number(device.timeline.baseline_bytes[static_cast<std::size_t>(series)]);
  }
  json.end_object();
  json.key("points");
  json.begin_object();
  write_column(out, "first_event", points, [](const TimelineBucket& p) { return p.first_event; });
  write_column(out, "event_count", points, [](const TimelineBucket& p) { return p.event_count; });
  write_times(out, points);
  for (Series series : kSeries) write_series(out, series, points);
  json.end_object();
  json.end_object();
}

class TimelineJsonExporter final : public Exporter {
 public:
  const char* name() const override { return "timeline"; }
  const char* description() const override { return "running totals as JSON columns, for charts"; }
  const char* suffix() const override { return ".timeline.json"; }

  std::span<const char* const> needs() const override {
    static constexpr const char* kNames[] = {"timeline"};
    return kNames;
  }
  Status write(const ExportInput& input, Output& output) const override {
    JsonOutput out(output, base::JsonWriter::Style::kCompact);
    base::JsonWriter& json = out.json();
    json.begin_object();
    json.key("schema_version");
    json.string(input.report.schema_version);
    json.key("series");
    json.begin_array();
    for (Series series : kSeries) json.string(report::to_string(series));
    json.end_array();
    json.key("devices");
    json.begin_array();
    for (const report::DeviceReport& device : input.report.devices) write_device(out, device);
    json.end_array();
    json.end_object();
    return out.finish();
  }
};

}  // namespace

std::unique_ptr<Exporter> make() { return std::make_unique<TimelineJsonExporter>(); }

}  // namespace plimsoll::exporters::timeline_json

#include "exporters/timeline_csv/timeline_csv_exporter.h"

#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "model/ids.h"

namespace plimsoll::exporters::timeline_csv {
namespace {

using report::Series;
using report::TimelineBucket;

constexpr std::size_t kPoints = 100'000;
constexpr std::size_t kFlushBytes = 1 << 16;
constexpr std::array kSeries = {Series::kRequestedAllocated, Series::kRequestedActive,
                                Series::kAllocatedRounded, Series::kReserved};
static_assert(kSeries.size() == report::kSeriesCount);

// Builds lines and writes them in large pieces.
class Table {
 public:
  explicit Table(Output& output) : output_(output) {}

  void text(std::string_view value) {
    separate();
    if (value.find_first_of(",\"\r\n") == std::string_view::npos) {
      buffer_ += value;
      return;
    }
    buffer_ += '"';
    for (char c : value) {
      if (c == '"') buffer_ += '"';
      buffer_ += c;
    }
    buffer_ += '"';
  }
  template <typename Integer>
  void number(Integer value) {
    separate();
    std::array<char, 24> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    buffer_.append(digits.data(), end);
  }
  Status end_line() {
    buffer_ += "\r\n";
    is_first_ = true;
    return buffer_.size() < kFlushBytes ? Status{} : flush();
  }
  Status flush() {
    if (buffer_.empty()) return {};
    Status status = output_.write(buffer_);
    buffer_.clear();
    return status;
  }

 private:
  void separate() {
    if (!is_first_) buffer_ += ',';
    is_first_ = false;
  }

  Output& output_;
  std::string buffer_;
  bool is_first_ = true;
};

Status write_header(Table& table) {
  for (const char* name : {"device", "device_type", "first_event", "event_count", "time_ns"}) {
    table.text(name);
  }
  for (Series series : kSeries) {
    const std::string name = report::to_string(series);
    table.text(name + "_min_bytes");
    table.text(name + "_max_bytes");
    table.text(name + "_last_bytes");
  }
  return table.end_line();
}

Status write_line(Table& table, const report::DeviceReport& device, const TimelineBucket& point) {
  table.number(device.device);
  table.text(device.device_type);
  table.number(point.first_event);
  table.number(point.event_count);
  if (point.first_time_ns == model::kNoTime) {
    table.text("");
  } else {
    table.number(point.first_time_ns);
  }
  for (Series series : kSeries) {
    const report::SeriesBucket& bucket = point.of(series);
    table.number(bucket.min_bytes);
    table.number(bucket.max_bytes);
    table.number(bucket.last_bytes);
  }
  return table.end_line();
}

class TimelineCsvExporter final : public Exporter {
 public:
  const char* name() const override { return "timeline-csv"; }
  const char* description() const override { return "running totals as CSV, for spreadsheets"; }
  const char* suffix() const override { return ".timeline.csv"; }

  std::span<const char* const> needs() const override {
    static constexpr const char* kNames[] = {"timeline"};
    return kNames;
  }
  Status write(const ExportInput& input, Output& output) const override {
    Table table(output);
    PLIMSOLL_TRY(write_header(table));
    for (const report::DeviceReport& device : input.report.devices) {
      const std::vector<TimelineBucket>* points = device.timeline.at_most(kPoints);
      if (points == nullptr) continue;
      for (const TimelineBucket& point : *points) PLIMSOLL_TRY(write_line(table, device, point));
    }
    return table.flush();
  }
};

}  // namespace

std::unique_ptr<Exporter> make() { return std::make_unique<TimelineCsvExporter>(); }

}  // namespace plimsoll::exporters::timeline_csv

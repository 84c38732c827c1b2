#include "fleet/partial.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string_view>

#include "report/devices.h"

namespace plimsoll::fleet {
namespace {

using report::DeviceReport;
using report::Report;

// FNV-1a. Stored in files, so it never changes.
class StableHash {
 public:
  void add(std::string_view text) {
    for (const char each : text) mix(static_cast<unsigned char>(each));
    mix(0);
  }
  std::uint64_t value() const { return value_; }

 private:
  void mix(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001B3u; }

  std::uint64_t value_ = 0xCBF29CE484222325u;
};

std::string name_of(const DeviceReport& device) {
  if (device.device < 0) return device.device_type;
  return device.device_type + ":" + std::to_string(device.device);
}

std::string name_of(const Report& report, std::int32_t ordinal) {
  const DeviceReport* device = report::find_device(report, ordinal);
  return device == nullptr ? std::string() : name_of(*device);
}

// The indices show which blocks a stage of a pipeline has.
std::uint64_t role_of(const report::Digest& digest) {
  if (digest.modules.empty()) return 0;
  StableHash hash;
  for (const report::DigestModule& module : digest.modules) {
    for (const std::string& text : {module.path, module.type, module.indices}) hash.add(text);
  }
  return hash.value();
}

void add_oom(RankRow& row, const Report& report) {
  for (const DeviceReport& device : report.devices) {
    for (const report::Oom& oom : device.ooms) {
      if (row.ooms++ > 0 && oom.time_ns >= row.oom_time_ns) continue;
      row.oom_time_ns = oom.time_ns;
      row.oom_request_bytes = oom.stated_request();
    }
  }
  const auto verdict = std::ranges::find(report.findings, "out_of_memory", &report::Finding::id);
  if (row.ooms > 0 && verdict != report.findings.end()) row.oom_cause = verdict->title;
}

void add_device(RankRow& row, const Report& report, const DeviceReport& device) {
  row.device = name_of(device);
  row.peak_bytes = device.live_totals().peak_bytes;
  if (device.reserved.peak_bytes > 0) row.reserved_bytes = device.reserved.peak_bytes;
  const auto fullest = std::ranges::find(device.bars, "fullest", &report::DeviceBarReport::point);
  if (fullest != device.bars.end()) {
    row.capacity_bytes = fullest->total_bytes;
    row.used_bytes = fullest->used_bytes;
  }
  for (const report::DigestPoint& point : report.digest.points) {
    if (point.name != "peak" || point.device != row.device) continue;
    row.peak_step = point.step;
    row.peak_phase = point.phase;
    row.peak_layer = point.layer;
    if (point.unused) row.unused_bytes = point.unused->bytes;
  }
}

RankRow rank_of(const Report& report) {
  const report::Source& source = report.source;
  RankRow row{.rank = source.rank, .world_size = source.world_size, .path = source.path};
  row.host = source.host;
  row.command = source.command;
  row.python = source.python;
  row.torch = source.torch;
  row.started_ns = source.started_ns;
  row.events = source.events;
  row.steps = report.digest.source.steps;
  row.incomplete = report.digest.source.incomplete.value_or("");
  row.role = role_of(report.digest);
  for (const DeviceReport& device : report.devices) {
    if (device.process_highest_bytes) row.process_bytes = device.process_highest_bytes;
  }
  if (const DeviceReport* device = report::main_device(report)) add_device(row, report, *device);
  add_oom(row, report);
  return row;
}

StepRow step_of(const report::StepRow& step, const std::string& device,
                std::optional<std::int64_t> before_ns) {
  StepRow row{.device = device, .step = step.step, .end_time_ns = step.end_time_ns};
  if (before_ns && step.end_time_ns) row.duration_ns = *step.end_time_ns - *before_ns;
  row.peak_bytes = step.peak_bytes;
  row.end_bytes = step.end_bytes;
  row.has_categories = !step.categories.empty();
  for (const report::CategoryBytes& each : step.categories) {
    const auto found = std::ranges::find(base::kCategoryNames, each.category);
    if (found == base::kCategoryNames.end()) continue;
    row.peak_by_category[static_cast<std::size_t>(found - base::kCategoryNames.begin())] =
        each.peak_bytes;
  }
  return row;
}

std::vector<StepRow> steps_of(const Report& report) {
  std::map<std::int32_t, std::vector<StepRow>> by_device;
  std::map<std::int32_t, std::optional<std::int64_t>> ended_ns;
  for (const report::StepRow& step : report.tables.steps) {
    if (!step.is_complete && step.event_count == 0) continue;
    by_device[step.device].push_back(
        step_of(step, name_of(report, step.device), ended_ns[step.device]));
    ended_ns[step.device] = step.end_time_ns;
  }
  std::vector<StepRow> rows;
  for (auto& [device, steps] : by_device) {
    const std::size_t each = (steps.size() + kMostSteps - 1) / kMostSteps;
    for (std::size_t i = 0; i < steps.size(); i += each) {
      const auto end =
          steps.begin() + static_cast<std::ptrdiff_t>(std::min(i + each, steps.size()));
      const auto begin = steps.begin() + static_cast<std::ptrdiff_t>(i);
      rows.push_back(*std::max_element(begin, end, [](const StepRow& a, const StepRow& b) {
        return a.peak_bytes < b.peak_bytes;
      }));
      rows.back().steps = static_cast<std::uint64_t>(end - begin);
    }
  }
  return rows;
}

SiteRow site_of(const report::DigestKey& key) {
  StableHash hash;
  for (const std::string& text :
       {key.category, key.phase, key.layer, key.op, key.function, key.text, key.dtype}) {
    hash.add(text);
  }
  return {.site = hash.value(),
          .category = key.category,
          .phase = key.phase,
          .layer = key.layer,
          .op = key.op,
          .function = key.function,
          .text = key.text,
          .dtype = key.dtype,
          .place = key.place,
          .example_layer = key.example_layer};
}

// Sites that differ only in what the hash leaves out are one.
void add_peaks(Partial& partial, const report::Digest& digest) {
  std::map<std::uint64_t, SiteRow> sites;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::size_t> rows;  // by point and site
  for (const report::DigestRow& row : digest.rows) {
    const report::DigestPoint& point = digest.points[row.point];
    const SiteRow site = site_of(digest.keys[row.key]);
    sites.try_emplace(site.site, site);
    const auto [entry, is_new] = rows.try_emplace({row.point, site.site}, partial.peaks.size());
    if (is_new) {
      partial.peaks.push_back(
          {.point = point.name, .device = point.device, .site = site.site, .layers = 0});
    }
    PeakRow& peak = partial.peaks[entry->second];
    peak.bytes += row.bytes;
    peak.count += row.count;
    peak.layers += row.instances;
    if (row.largest_bytes > peak.largest_bytes) {
      peak.largest_bytes = row.largest_bytes;
      peak.shape = row.shape;
    }
  }
  for (auto& [hash, site] : sites) partial.sites.push_back(std::move(site));
}

}  // namespace

Partial partial_of(const Report& report) {
  Partial partial;
  partial.rank = rank_of(report);
  partial.steps = steps_of(report);
  add_peaks(partial, report.digest);
  for (const report::Finding& finding : report.findings) {
    partial.findings.push_back(
        {.finding = partial.findings.size(),
         .id = finding.id,
         .severity = to_string(finding.severity),
         .title = finding.title,
         .next_step = finding.next_step(),
         .saving_bytes = finding.saving_bytes(),
         .holder = finding.holders.empty() ? std::string() : finding.holders[0].path});
  }
  return partial;
}

}  // namespace plimsoll::fleet

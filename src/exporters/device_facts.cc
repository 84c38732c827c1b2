#include "exporters/device_facts.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/units.h"
#include "exporters/labels.h"
#include "text/layout.h"

namespace plimsoll::exporters {
namespace {

bool is_same(const report::SeriesTotals& a, const report::SeriesTotals& b) {
  return a.start_bytes == b.start_bytes && a.peak_bytes == b.peak_bytes &&
         a.end_bytes == b.end_bytes && a.peak_event == b.peak_event;
}

TotalsRow totals_row(const report::DeviceReport& device, std::string name,
                     const report::SeriesTotals& totals) {
  TotalsRow row;
  row.name = std::move(name);
  row.end = base::bytes_text(totals.end_bytes);
  if (device.events == 0) return row;
  const auto known = [&](std::int64_t bytes) {
    const bool is_known = totals.baseline_bytes >= 0 && device.active_above_reserved_bytes == 0;
    return is_known ? base::bytes_text(bytes) : std::string("unknown");
  };
  row.start = known(totals.start_bytes);
  row.peak = known(totals.peak_bytes);
  row.reached_at = totals.peak_event ? point_text(device, totals.peak_event, totals.peak_time_ns)
                                     : "from the start";
  return row;
}

std::string stranded_text(const report::DeviceReport& device) {
  const report::Fragmentation& where = device.fragmentation;
  if (!where.stranded_bytes || !where.stranded_request_bytes) return {};
  return bytes_text(*where.stranded_bytes) + " of that could not serve a request of " +
         bytes_text(*where.stranded_request_bytes) +
         (device.oom_details.empty() ? " (the largest recorded)" : " (the last one that failed)");
}

std::string pinning_text(const report::PinningLine& line) {
  std::string text = text::printable(line.line) + ": " + base::format_count(line.blocks) +
                     (line.blocks == 1 ? " block of " : " blocks, ") + bytes_text(line.block_bytes);
  return text + (line.blocks == 1 ? " pins " : " together, pin ") +
         bytes_text(line.pinned_cached_bytes);
}

void add_fragmentation(const report::DeviceReport& device, std::vector<Fact>& facts) {
  if (device.segments == 0) return;
  const report::Fragmentation& where = device.fragmentation;
  const auto reserved =
      static_cast<std::uint64_t>(std::max<std::int64_t>(0, device.reserved.end_bytes));
  facts.push_back(
      {"at the end", bytes_text(reserved) + " reserved: " + bytes_text(device.allocated_bytes_end) +
                         " allocated, " + bytes_text(where.cached_bytes) + " cached (reusable)"});
  if (where.cached_bytes > 0) {
    std::string cached = bytes_text(where.releasable_bytes) +
                         " that empty_cache() would release, " + bytes_text(where.pinned_bytes) +
                         " pinned by live blocks";
    if (where.private_bytes > 0) {
      cached += ", " + bytes_text(where.private_bytes) + " idle in " +
                text::printable(where.private_pools) +
                " of a CUDA graph or MemPool, which empty_cache() cannot release";
    }
    facts.push_back({"cached", cached});
  }
  if (where.pinned_bytes > 0) {
    if (std::string text = stranded_text(device); !text.empty()) {
      facts.push_back({"stranded", std::move(text)});
    }
  }
  // In a file that contradicts itself, more may be allocated than reserved.
  const bool has_ratio = device.allocated_bytes_end <= reserved;
  facts.push_back(
      {"fragmentation", (has_ratio ? "ratio " + base::format_percent(where.ratio) + ", " : "") +
                            "internal " + bytes_text(where.internal_bytes) +
                            ", largest free block " + bytes_text(where.largest_free_bytes)});
  if (where.pinned_bytes > reserved / 10 && !where.pinning_lines.empty()) {
    facts.push_back({"pinned by", pinning_text(where.pinning_lines.front())});
  }
}

std::string request_text(const report::OomDetails& oom) {
  if (oom.requested_bytes == 0) return "a request of unknown size";  // as some messages have it
  return "a request of " + bytes_text(oom.requested_bytes);
}

// "a request of 3.0 MiB by train.py:7 (step), event 12"
std::string oom_text(const report::DeviceReport& device, const report::OomDetails& oom) {
  std::string text = request_text(oom);
  if (!oom.line.empty()) text += " by " + text::printable(oom.line);
  return text + ", " + point_text(device, oom.event, oom.time_ns);
}

// Lists when each failure occurred, by the number that --at accepts. The findings explain them.
void add_failures(const report::DeviceReport& device, std::vector<Fact>& facts) {
  constexpr std::size_t kMostListed = 5;
  const auto& ooms = device.oom_details;
  if (ooms.empty()) return;
  if (ooms.size() == 1) {
    facts.push_back({"out of memory", "once: " + request_text(ooms[0]) + " at " +
                                          point_text(device, ooms[0].event, ooms[0].time_ns)});
    return;
  }
  std::string text = base::format_count(ooms.size()) + " times";
  if (ooms.size() > kMostListed) {
    text += ", of which the last " + std::to_string(kMostListed) + " were";
  }
  facts.push_back({"out of memory", std::move(text)});
  for (std::size_t at = ooms.size() - std::min(ooms.size(), kMostListed); at < ooms.size(); ++at) {
    facts.push_back({"", "oom:" + std::to_string(at + 1) + ": " + oom_text(device, ooms[at])});
  }
}

// How the device was used: at the last failure if there was one, else when it was fullest.
void add_bar(const report::DeviceReport& device, std::vector<Fact>& facts) {
  if (device.bars.empty()) return;
  const report::DeviceBarReport& bar = device.bars.back();
  std::string text = bytes_text(bar.used_bytes) + " of " + bytes_text(bar.total_bytes) + " used";
  if (bar.point == "oom") {
    text += " when it failed";
  } else if (bar.readings > 1) {
    text += ", the most of " + base::format_count(bar.readings) + " readings";
  }
  facts.push_back({kOnTheDevice, text + ": " + text::printable(report::parts_text(bar.parts))});
}

// The memory of the process next to that of its tensors, on the CPU.
void add_process(const report::DeviceReport& device, std::vector<Fact>& facts) {
  if (!device.process_start_bytes) return;
  std::string text = bytes_text(*device.process_start_bytes) + " resident at the start";
  if (device.process_end_bytes) {
    const std::uint64_t start = *device.process_start_bytes;
    const std::uint64_t end = *device.process_end_bytes;
    text += ", " + bytes_text(end) + " at the end (" + (end < start ? "\u2212" : "+") +
            bytes_text(std::max(start, end) - std::min(start, end)) + ")";
  }
  if (device.process_highest_bytes) {
    text += ", " + bytes_text(*device.process_highest_bytes) + " at most";
  }
  text += ", tensors included";
  if (device.process_free_heap_bytes.value_or(0) >= std::uint64_t{1} << 20) {
    text += "; the C library has not returned " + bytes_text(*device.process_free_heap_bytes) +
            " of what was freed";
  }
  facts.push_back({"the process", std::move(text)});
}

}  // namespace

std::string events_text(const report::DeviceReport& device) {
  if (device.events == 0) return "no events, only the state at the end";
  std::string facts =
      base::format_count(device.events) + (device.events == 1 ? " event" : " events");
  if (device.first_time_ns && device.last_time_ns) {
    facts += " in " + base::format_duration(*device.last_time_ns - *device.first_time_ns);
  }
  if (device.history == "truncated") facts += ", earlier ones are lost";
  return facts;
}

std::vector<TotalsRow> totals_rows(const report::DeviceReport& device) {
  std::vector<TotalsRow> rows;
  const auto add = [&](const char* name, const report::SeriesTotals& totals) {
    if (totals.is_known) rows.push_back(totals_row(device, name, totals));
  };
  if (is_same(device.requested_allocated, device.requested_active)) {
    add("requested", device.requested_active);
  } else {
    add("requested, allocated", device.requested_allocated);
    add("requested, active", device.requested_active);
  }
  if (device.allocated) add("allocated", *device.allocated);
  if (device.segments > 0 || device.reserved.peak_bytes != 0) add("reserved", device.reserved);
  return rows;
}

std::string disagreement_text(const report::DeviceReport& device) {
  const std::uint64_t bytes = device.disagreement_bytes();
  if (bytes == 0) return {};
  return "Start and peak are unknown: events and segments disagree by " + bytes_text(bytes) + ".";
}

std::vector<Fact> facts_of(const report::DeviceReport& device) {
  std::vector<Fact> facts;
  add_fragmentation(device, facts);
  add_failures(device, facts);
  add_bar(device, facts);
  add_process(device, facts);
  return facts;
}

}  // namespace plimsoll::exporters

#include "exporters/terminal/devices.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "exporters/terminal/words.h"
#include "text/layout.h"
#include "text/table.h"

namespace plimsoll::exporters::terminal {
namespace {

std::string heading(const report::DeviceReport& device, text::Color color) {
  std::string facts;
  if (device.events > 0) {
    facts = base::format_count(device.events) + (device.events == 1 ? " event" : " events");
    if (device.first_time_ns && device.last_time_ns) {
      facts += " in " + base::format_duration(*device.last_time_ns - *device.first_time_ns);
    }
    if (device.history == "truncated") facts += ", earlier ones are lost";
  } else {
    facts = "no events, only the state at the end";
  }
  return text::styled(device_name(device), text::Style::kBold, color) + "  " + facts + "\n";
}

bool is_same(const report::SeriesTotals& a, const report::SeriesTotals& b) {
  return a.start_bytes == b.start_bytes && a.peak_bytes == b.peak_bytes &&
         a.end_bytes == b.end_bytes && a.peak_event == b.peak_event;
}

// A row of totals; without events only the end is known.
void add_totals(text::TextTable& table, const report::DeviceReport& device, std::string name,
                const report::SeriesTotals& totals) {
  if (device.events == 0) {
    table.add_row({std::move(name), base::format_bytes(totals.end_bytes)});
    return;
  }
  const auto known = [&](std::int64_t bytes) {
    return totals.baseline_bytes >= 0 ? base::format_bytes(bytes) : std::string("unknown");
  };
  std::string when = totals.peak_event ? point_text(device, totals.peak_event, totals.peak_time_ns)
                                       : "from the start";
  table.add_row({std::move(name), known(totals.start_bytes), known(totals.peak_bytes),
                 base::format_bytes(totals.end_bytes), std::move(when)});
}

std::string totals_text(const report::DeviceReport& device, std::size_t width, text::Color color) {
  using enum text::TextTable::Align;
  std::vector<text::TextTable::Column> columns = {{"", kWords}, {"end"}};
  if (device.events > 0) {
    columns = {{"", kWords}, {"start"}, {"peak"}, {"end"}, {"peak reached at", kWords}};
  }
  text::TextTable table(std::move(columns));
  if (is_same(device.requested_allocated, device.requested_active)) {
    add_totals(table, device, "requested", device.requested_active);
  } else {
    add_totals(table, device, "requested, allocated", device.requested_allocated);
    add_totals(table, device, "requested, active", device.requested_active);
  }
  if (device.allocated) add_totals(table, device, "allocated", *device.allocated);
  if (device.segments > 0 || device.reserved.peak_bytes != 0) {
    add_totals(table, device, "reserved", device.reserved);
  }
  std::string out = table.to_text(width, color);
  if (const std::uint64_t bytes = disagreement_bytes(device); bytes > 0) {
    out += "  " +
           text::wrap("Start and peak are unknown: events and segments disagree by " +
                          bytes_text(bytes) + ".",
                      2, width) +
           "\n";
  }
  return out;
}

// "  name       text", wrapped to the column where it began
std::string labelled(std::string_view name, std::string_view text, std::size_t width,
                     text::Color color) {
  constexpr std::size_t kIndent = 17;
  return text::styled(text::pad_right("  " + std::string(name), kIndent), text::Style::kDim,
                      color) +
         text::wrap(text, kIndent, width) + "\n";
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

std::string fragmentation_text(const report::DeviceReport& device, std::size_t width,
                               text::Color color) {
  if (device.segments == 0) return {};
  const report::Fragmentation& where = device.fragmentation;
  const auto reserved =
      static_cast<std::uint64_t>(std::max<std::int64_t>(0, device.reserved.end_bytes));
  std::string out =
      labelled("at the end",
               bytes_text(reserved) + " reserved: " + bytes_text(device.allocated_bytes_end) +
                   " allocated, " + bytes_text(where.cached_bytes) + " cached (reusable)",
               width, color);
  if (where.cached_bytes > 0) {
    std::string cached = bytes_text(where.releasable_bytes) +
                         " that empty_cache() would release, " + bytes_text(where.pinned_bytes) +
                         " pinned by live blocks";
    if (where.private_bytes > 0) {
      cached += ", " + bytes_text(where.private_bytes) + " idle in " +
                text::printable(where.private_pools) +
                " of a CUDA graph or MemPool, which empty_cache() cannot release";
    }
    out += labelled("cached", cached, width, color);
  }
  if (where.pinned_bytes > 0) {
    if (const std::string text = stranded_text(device); !text.empty()) {
      out += labelled("stranded", text, width, color);
    }
  }
  out += labelled("fragmentation",
                  "ratio " + base::format_percent(where.ratio) + ", internal " +
                      bytes_text(where.internal_bytes) + ", largest free block " +
                      bytes_text(where.largest_free_bytes),
                  width, color);
  if (where.pinned_bytes > reserved / 10 && !where.pinning_lines.empty()) {
    out += labelled("pinned by", pinning_text(where.pinning_lines.front()), width, color);
  }
  return out;
}

// "3.0 MiB asked for by train.py:7 (step), event 12"
std::string oom_text(const report::DeviceReport& device, const report::OomDetails& oom) {
  std::string text = bytes_text(oom.requested_bytes) + " requested";
  if (!oom.line.empty()) text += " by " + text::printable(oom.line);
  return text + ", " + point_text(device, oom.event, oom.time_ns);
}

// The findings explain the failures; this lists when each occurred, by the number that --at
// accepts.
std::string ooms_text(const report::DeviceReport& device, std::size_t width, text::Color color) {
  constexpr std::size_t kMostListed = 5;
  const auto& ooms = device.oom_details;
  if (ooms.empty()) return {};
  if (ooms.size() == 1) {
    return labelled("out of memory",
                    "once: " + bytes_text(ooms[0].requested_bytes) + " requested at " +
                        point_text(device, ooms[0].event, ooms[0].time_ns),
                    width, color);
  }
  std::string text = base::format_count(ooms.size()) + " times";
  if (ooms.size() > kMostListed) {
    text += ", of which the last " + std::to_string(kMostListed) + " were";
  }
  text = labelled("out of memory", text, width, color);
  for (std::size_t at = ooms.size() - std::min(ooms.size(), kMostListed); at < ooms.size(); ++at) {
    text += labelled("", "oom:" + std::to_string(at + 1) + ": " + oom_text(device, ooms[at]), width,
                     color);
  }
  return text;
}

// How the device is used: at the last failure if there was one, else when it was fullest.
std::string bar_text(const report::DeviceReport& device, std::size_t width, text::Color color) {
  if (device.bars.empty()) return {};
  const report::BarReport& bar = device.bars.back();
  std::string text = bytes_text(bar.used_bytes) + " of " + bytes_text(bar.total_bytes) + " used";
  if (bar.point == "oom") {
    text += " when it failed";
  } else if (bar.readings > 1) {
    text += ", the most of " + base::format_count(bar.readings) + " readings";
  }
  return labelled("on the device", text + ": " + text::printable(report::parts_text(bar.parts)),
                  width, color);
}

// The memory of the process next to that of its tensors, on the CPU.
std::string process_text(const report::DeviceReport& device, std::size_t width, text::Color color) {
  if (!device.process_start_bytes || !device.process_end_bytes) return {};
  return labelled("the process",
                  bytes_text(*device.process_start_bytes) + " resident at the start, " +
                      bytes_text(*device.process_end_bytes) + " at the end, tensors included",
                  width, color);
}

}  // namespace

std::string device_text(const report::DeviceReport& device, std::size_t width, text::Color color) {
  return heading(device, color) + totals_text(device, width, color) +
         fragmentation_text(device, width, color) + ooms_text(device, width, color) +
         bar_text(device, width, color) + process_text(device, width, color);
}

}  // namespace plimsoll::exporters::terminal

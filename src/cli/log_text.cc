#include "cli/log_text.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/growth_rule.h"
#include "base/timestamps.h"
#include "base/units.h"
#include "cli/profile_summary_text.h"
#include "exporters/terminal/report.h"
#include "report/finding.h"
#include "sample/quantities.h"
#include "text/layout.h"
#include "text/table.h"

namespace plimsoll::cli {
namespace {

using logs::Figure;
using sample::bytes_text;
using sample::number_text;
using text::TextTable;

std::string duration_text(std::int64_t duration_ns) {
  constexpr std::int64_t kMinuteNs = 60'000'000'000;
  const std::int64_t minutes = duration_ns / kMinuteNs;
  if (minutes < 2) return base::format_duration(duration_ns);
  if (minutes < 120) return std::to_string(minutes) + " min";
  return std::to_string(minutes / 60) + " h " + std::to_string(minutes % 60) + " min";
}

// Formats a value in the unit of the figure, which is the suffix of its name.
std::string value_text(const Figure& figure, const std::optional<double>& value) {
  if (!value) return "-";
  if (figure.name.ends_with("_bytes")) return bytes_text(*value);
  if (figure.name.ends_with("_percent")) return number_text(*value, "%.1f%%");
  if (figure.name.ends_with("tensors")) {
    return base::format_count(static_cast<std::uint64_t>(*value));
  }
  return number_text(*value, "%.6g");
}

// The name of a figure for readers, without its unit: "peak_allocated_bytes" -> "peak allocated".
std::string spoken(std::string name) {
  for (const std::string_view unit : {"_bytes", "_percent"}) {
    if (name.ends_with(unit)) name.resize(name.size() - unit.size());
  }
  std::ranges::replace(name, '_', ' ');
  if (name == "tensor") return "used by tensors";
  return name == "large tensor" ? "used by large ones" : name;
}

std::string figures_text(const std::vector<Figure>& figures, const std::string& step,
                         const LogTextOptions& options) {
  using enum text::TextTable::Align;
  TextTable table({{"", kWords},
                   {"start", kNumber},
                   {"end", kNumber},
                   {"min", kNumber},
                   {"max", kNumber},
                   {"at " + step, kWords}});
  for (const Figure& figure : figures) {
    table.add_row({spoken(figure.name), value_text(figure, figure.start),
                   value_text(figure, figure.end), value_text(figure, figure.least),
                   value_text(figure, figure.most),
                   figure.most_iteration ? std::to_string(*figure.most_iteration) : ""});
  }
  return table.empty() ? "" : table.to_text(options.width, options.color);
}

std::string log_heading(std::string_view text, const LogTextOptions& options) {
  return "\n" + text::styled(text, text::Style::kBold, options.color) + "\n";
}

std::string shares_text(const std::vector<logs::ShareSummary>& shares, const char* word,
                        const LogTextOptions& options) {
  using enum text::TextTable::Align;
  if (shares.empty()) return "";
  // Logs of other tools have no counts.
  const bool has_counts = std::ranges::any_of(shares, &logs::ShareSummary::end_count);
  std::vector<TextTable::Column> columns = {{"bytes", kNumber}, {"share", kNumber}};
  if (has_counts) columns.push_back({"count", kNumber});
  columns.insert(columns.end(), {{"at the start", kNumber}, {word, kWords}});
  TextTable table(std::move(columns));
  std::size_t shown = 0;
  for (const logs::ShareSummary& share : shares) {
    if (shown++ == options.top) break;
    std::vector<std::string> cells = {bytes_text(share.end_bytes),
                                      base::format_percent(share.end_share)};
    if (has_counts) cells.push_back(base::format_count(share.end_count));
    cells.push_back(share.start_bytes ? bytes_text(*share.start_bytes) : "-");
    cells.push_back(share.name.empty() ? "[no " + std::string(word) + "]"
                                       : text::printable(share.name));
    table.add_row(std::move(cells));
  }
  std::string text = table.to_text(options.width, options.color);
  if (shares.size() > options.top) {
    text += "  and " + std::to_string(shares.size() - options.top) + " more (--top)\n";
  }
  return text;
}

std::string tensors_text(const std::vector<logs::LargeTensorSummary>& tensors,
                         const LogTextOptions& options) {
  using enum text::TextTable::Align;
  TextTable table({{"bytes", kNumber},
                   {"shape", kWords},
                   {"dtype", kWords},
                   {"category", kWords},
                   {"created by, name", kWords}});
  for (const logs::LargeTensorSummary& tensor : tensors) {
    std::string who = tensor.layer;
    if (!tensor.name.empty()) who += (who.empty() ? "" : ", ") + tensor.name;
    table.add_row({bytes_text(tensor.size_bytes), text::printable(tensor.shape),
                   text::printable(tensor.dtype), text::printable(tensor.category),
                   text::printable(who)});
  }
  return table.empty() ? "" : table.to_text(options.width, options.color);
}

std::string large_tensors_text(const logs::DeviceSummary& device, const LogTextOptions& options) {
  if (device.large_tensors.empty()) return "";
  return "\nThe largest tensors at the end\n" + tensors_text(device.large_tensors, options);
}

std::string peak_text(const logs::DeviceSummary& device, const std::string& step,
                      const LogTextOptions& options) {
  using enum text::TextTable::Align;
  if (!device.peak) return "";
  const logs::PeakSummary& peak = *device.peak;
  TextTable table({{"bytes", kNumber}, {"share", kNumber}, {"category", kWords}});
  for (const logs::PeakShare& share : peak.categories) {
    table.add_row(
        {bytes_text(share.bytes), base::format_percent(share.share), text::printable(share.name)});
  }
  return "\nWhat the highest peak was made of: " + bytes_text(peak.bytes) + ", before " + step +
         " " + std::to_string(peak.iteration) + " ended" +
         (peak.phase.empty() ? "" : ", in " + text::printable(peak.phase)) + "\n" +
         table.to_text(options.width, options.color) + tensors_text(peak.tensors, options);
}

std::string device_text(const logs::DeviceSummary& device, const std::string& step,
                        const LogTextOptions& options) {
  std::string title = text::printable(device.device);
  if (device.total_bytes) title += ", " + bytes_text(*device.total_bytes);
  std::string text = log_heading(title, options) + figures_text(device.figures, step, options) +
                     peak_text(device, step, options);
  if (!device.categories.empty()) {
    text += "\nWhat fills " + text::printable(device.device) + " at the end\n" +
            shares_text(device.categories, "category", options);
  }
  if (!device.dtypes.empty()) text += "\n" + shares_text(device.dtypes, "dtype", options);
  if (!device.layers.empty()) text += "\n" + shares_text(device.layers, "layer", options);
  if (!device.components.empty()) {
    text += "\n" + shares_text(device.components, "component", options);
  }
  return text + large_tensors_text(device, options);
}

// Why growth is not among the findings; empty if it was judged.
std::string growth_note(const logs::LogSummary& summary) {
  std::uint64_t snapshots = summary.devices.empty() ? summary.source.snapshots : 0;
  for (const logs::DeviceSummary& device : summary.devices) {
    snapshots = std::max(snapshots, device.snapshots);
  }
  if (snapshots >= base::kFewestGrowthSamples) return {};
  return "Judging growth takes " + std::to_string(base::kFewestGrowthSamples) +
         " snapshots; this log has " + std::to_string(snapshots) + ".";
}

std::string verdict_text(const logs::LogSummary& summary, const LogTextOptions& options) {
  const std::string note = growth_note(summary);
  if (summary.findings.empty()) {
    const std::string text = "Nothing wrong found." + (note.empty() ? "" : " " + note);
    return text::styled(text, text::Style::kGood, options.color) + "\n";
  }
  exporters::terminal::TextOptions how;
  how.width = options.width;
  how.color = options.color;
  const std::vector<report::Finding> findings(summary.findings.begin(), summary.findings.end());
  std::string text = exporters::terminal::findings_text(findings, how);
  if (!note.empty()) text += "\n" + note + "\n";
  return text;
}

std::string loss_text(const logs::LogSummary& summary, const std::string& step,
                      const LogTextOptions& options) {
  if (summary.training.empty()) return "";
  const alerts::JumpCounts& jumps = summary.jumps;
  return "\n" + figures_text(summary.training, step, options) +
         "  memory jumps: " + std::to_string(jumps.memory_jumps) +
         ", loss spikes: " + std::to_string(jumps.loss_spikes) +
         ", both together: " + std::to_string(jumps.together) + "\n";
}

std::string source_text(const logs::LogSummary& summary, const std::string& step,
                        const LogTextOptions& options) {
  const logs::LogSource& source = summary.source;
  const std::string_view path = source.path;
  std::string text = text::printable(path.substr(path.rfind('/') + 1)) + " \u00B7 " +
                     source.format + " \u00B7 " + base::format_count(source.snapshots) +
                     (source.snapshots == 1 ? " snapshot" : " snapshots");
  if (summary.first_iteration && summary.last_iteration) {
    text += ", " + step + "s " + std::to_string(*summary.first_iteration) + " to " +
            std::to_string(*summary.last_iteration);
  }
  if (summary.first_time_ns && summary.last_time_ns) {
    text += " \u00B7 from " + base::utc_text(*summary.first_time_ns) + ", " +
            duration_text(*summary.last_time_ns - *summary.first_time_ns);
  }
  text = text::wrap(text, 0, options.width) + "\n";
  if (source.cut_snapshots > 0) {
    text += "  incomplete snapshots, left out: " + base::format_count(source.cut_snapshots) + "\n";
  }
  if (source.unread_lines > 0) {
    text += "  unrecognized lines: " + base::format_count(source.unread_lines) + "\n";
  }
  return text;
}

}  // namespace

std::string to_text(const logs::LogSummary& summary, const LogTextOptions& options) {
  const std::string step = summary.step;
  std::string text;
  if (summary.source.runs > 1) {
    text = "This log has " + base::format_count(summary.source.runs) +
           " runs; the last one is summarized.\n\n";
  }
  text += verdict_text(summary, options) + profile_summary_text(summary);
  for (const bool is_cpu : {false, true}) {  // GPUs first: their memory is scarcer
    for (const logs::DeviceSummary& device : summary.devices) {
      if ((device.device == "cpu") == is_cpu) text += device_text(device, step, options);
    }
  }
  if (!summary.host.empty()) {
    text += log_heading("host", options) + figures_text(summary.host, step, options);
  }
  text += loss_text(summary, step, options);
  return text + "\n" + source_text(summary, step, options);
}

}  // namespace plimsoll::cli

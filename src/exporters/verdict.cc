#include "exporters/verdict.h"

#include <algorithm>
#include <utility>

#include "base/finding.h"
#include "base/units.h"
#include "exporters/labels.h"
#include "exporters/point_text.h"
#include "report/devices.h"
#include "text/layout.h"

namespace plimsoll::exporters {
namespace {

constexpr std::size_t kNearMissesNamed = 2;

bool is_whole(const report::Report& report) {
  return std::ranges::all_of(report.source.diagnostics,
                             [](const auto& each) { return each.severity == "info"; });
}

// A category as a sentence names it.
std::string plural_of(const std::string& category) {
  if (category == "optimizer_state") return "optimizer state";
  if (category == "activation_gradient") return "gradients of activations";
  if (category == "workspace") return "library workspaces";
  if (category == "optimizer_scratch") return "scratch memory of the optimizer";
  if (category == "other" || category == "unknown" || category == "communication") return category;
  const bool is_word = std::ranges::all_of(category, [](char c) { return c >= 'a' && c <= 'z'; });
  return is_word ? category + (category == "temporary" ? " memory" : "s")
                 : text::printable(category);
}

// "activations 26.2 GiB, optimizer state 25.4 GiB": the three largest known categories with at
// least a twentieth of the peak. Empty if categories are unknown, or if the tables describe another
// point in time.
std::string holders_text(const report::Report& report, const report::DeviceReport& device) {
  const std::vector<const report::PointInTime*> points = rows_of(report.tables.points, device);
  if (points.empty() || points.front()->name != "peak") return {};
  std::string text;
  std::size_t named = 0;
  for (const report::GroupRow* row : rows_of(report.tables.by_category, device)) {
    if (named == 3 || row->bytes < points.front()->live_bytes / 20) break;
    text += (named++ == 0 ? "" : ", ") + plural_of(row->key) + " " + bytes_text(row->bytes);
  }
  return text;
}

// " Closest to a finding: activations are 31.9% of the peak (a finding at 50.0%)." for the two
// closest.
std::string near_text(const report::Report& report, const report::DeviceReport& device) {
  std::string text;
  std::size_t named = 0;
  for (const report::NearMiss& near : report.near_misses) {
    if (near.device != device.device || named == kNearMissesNamed) continue;
    text += (named++ == 0 ? " Closest to a finding: " : "; ") + text::printable(near.text);
  }
  return text.empty() ? text : text + ".";
}

// " But the process grew by 150.0 MiB after step 3, which …"; empty if tensors explain its growth.
std::string process_text(const report::Report& report) {
  for (const report::DeviceReport& device : report.devices) {
    const std::uint64_t growth =
        device.device_type == "cpu" ? report::growth_outside_tensors(device) : 0;
    if (growth > 0) {
      return " But the process grew by " + base::bytes_text(growth) +
             " after step 3, which they do not explain.";
    }
  }
  return {};
}

// The CPU has no segments, so its fragmentation is omitted.
bool is_of_no_interest(const report::PassRun& pass, const report::Report& report) {
  const bool is_cpu_only =
      !report.devices.empty() &&
      std::ranges::all_of(report.devices, [](const report::DeviceReport& device) {
        return device.device_type == "cpu";
      });
  return pass.name == "fragmentation" && is_cpu_only;
}

// Of the file, or of the device that was asked for.
std::string nothing_text(const report::Report& report, std::string_view asked_for) {
  std::string wanted;
  std::string others;
  for (const report::DeviceReport& device : report.devices) {
    const std::string name = device_name(device);
    if (!report::has_content(device)) {
      if (!asked_for.empty() && is_asked_for(device, asked_for)) wanted = name;
    } else {
      others += (others.empty() ? "" : ", ") + name;
    }
  }
  if (wanted.empty() || others.empty()) return "This file has no memory events and no memory.";
  return "This file has no memory events and no memory of " + wanted + ", but of " + others + ".";
}

}  // namespace

const report::DeviceReport* fullest(const report::Report& report, std::string_view asked_for) {
  const report::DeviceReport* best = nullptr;
  for (const report::DeviceReport& device : report.devices) {
    if (!is_asked_for(device, asked_for) || !report::has_content(device)) continue;
    if (best == nullptr || device.live_totals().peak_bytes > best->live_totals().peak_bytes) {
      best = &device;
    }
  }
  return best;
}

std::string severity_mark(const report::Finding& finding) {
  std::string text = to_string(finding.severity);
  for (char& letter : text) {
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  }
  return text;
}

std::vector<std::string> step_texts(const report::Finding& finding) {
  std::vector<std::string> texts;
  for (const report::FindingStep& step : finding.steps) {
    texts.push_back(text::printable(step_text(step)));
  }
  return texts;
}

std::vector<std::string> last_use_texts(const report::Report& report, std::string_view asked_for) {
  std::vector<std::string> texts;
  if (is_healthy(report, asked_for)) return texts;  // the verdict says so
  std::size_t devices = 0;
  for (const report::DeviceReport& device : report.devices) devices += report::has_content(device);
  for (const report::DeviceReport& device : report.devices) {
    if (!is_asked_for(device, asked_for) || !report::has_content(device)) continue;
    if (!device.last_use || !has_section(report, device, asked_for)) continue;
    texts.push_back((devices > 1 ? device_name(device) + ": " : "") + device.last_use->text);
  }
  return texts;
}

bool is_healthy(const report::Report& report, std::string_view asked_for) {
  bool has_device = false;
  for (const report::DeviceReport& device : report.devices) {
    if (!is_asked_for(device, asked_for) || !report::has_content(device)) continue;
    if (!has_section(report, device, asked_for)) continue;
    if (!device.last_use || !device.last_use->is_all_used) return false;
    has_device = true;
  }
  return has_device && std::ranges::all_of(report.findings, &report::Finding::is_fact);
}

namespace {

// "Nothing is wasted: every byte at the peak is used again.", of all devices.
std::string healthy_text(const report::Report& report, std::string_view asked_for) {
  std::uint64_t unused = 0;
  std::uint64_t unknown = 0;
  for (const report::DeviceReport& device : report.devices) {
    if (!device.last_use || !is_asked_for(device, asked_for)) continue;
    unused += device.last_use->unused_bytes;
    unknown += device.last_use->unknown_bytes;
  }
  const std::string nothing = unused + unknown == 0 ? "Nothing" : "Nothing of note";
  return nothing + " is wasted: " + report::all_used_text(unused, unknown);
}

}  // namespace

NoFindings no_findings(const report::Report& report, std::string_view asked_for) {
  const report::DeviceReport* device = fullest(report, asked_for);
  if (device == nullptr) return {nothing_text(report, asked_for), {}};
  const auto judged = std::ranges::find(report.passes, "findings", &report::PassRun::name);
  const bool is_judged = judged != report.passes.end() && judged->state == report::PassState::kRan;
  const std::string process = process_text(report);
  const std::string title = !is_judged ? "No findings were requested."
                            : !is_whole(report)
                                ? "Nothing wrong found in the part that was recorded (see About "
                                  "the input)."
                            : is_healthy(report, asked_for) ? healthy_text(report, asked_for)
                            : process.empty()               ? "Nothing wrong found."
                                                            : "Nothing wrong found in its tensors.";
  if (device->disagreement_bytes() > 0) {
    return {title, "But events and segments disagree, so the peak is unknown."};
  }
  std::string text = "Peak " + base::bytes_text(device->live_totals().peak_bytes) +
                     (device->allocated ? " allocated" : " requested");
  if (report.devices.size() > 1) text += " on " + device_name(*device);
  if (device->live_totals().peak_event) {
    text += " at " + point_text(*device, device->live_totals().peak_event,
                                device->live_totals().peak_time_ns);
  }
  const std::string holders = holders_text(report, *device);
  text += (holders.empty() ? "." : ": " + holders + ".") + process;
  return {title, report.findings.empty() ? text + near_text(report, *device) : text};
}

std::vector<InputNote> notes_on_input(const report::Report& report) {
  const bool has_evicted = std::ranges::any_of(
      report.source.diagnostics, [](const auto& each) { return each.name == "evicted_events"; });
  std::vector<InputNote> notes;
  for (const report::DiagnosticReport& each : report.source.diagnostics) {
    // evicted_events is more specific
    if (has_evicted && each.name == "history_truncated") continue;
    const bool is_severe = each.severity != "info";
    notes.push_back({is_severe, base::format_count(each.count) + " \u00d7 " +
                                    text::printable(each.name) + ": " + text::printable(each.help) +
                                    (is_severe && !each.example.empty()
                                         ? " (" + text::printable(each.example) + ")"
                                         : "")});
  }
  return notes;
}

std::vector<Unanswered> unanswered(const report::Report& report) {
  std::vector<Unanswered> all;
  for (const report::PassRun& pass : report.passes) {
    if (is_of_no_interest(pass, report)) continue;
    if (pass.state == report::PassState::kRan && pass.reason.empty()) continue;
    std::string reason = text::printable(pass.reason.empty() ? to_string(pass.state) : pass.reason);
    const auto same = std::ranges::find(all, reason, &Unanswered::reason);
    if (same == all.end()) {
      all.push_back({pass.name, std::move(reason)});
    } else {
      same->names += ", " + pass.name;
    }
  }
  return all;
}

std::vector<std::string> program_facts(const report::Source& source) {
  std::vector<std::string> facts;
  const auto add = [&](const std::string& fact) {
    if (!fact.empty()) facts.push_back(text::printable(fact));
  };
  if (!source.torch.empty()) add("torch " + source.torch);
  add(source.host);
  if (source.started_ns) add(base::format_utc(*source.started_ns));
  return facts;
}

}  // namespace plimsoll::exporters

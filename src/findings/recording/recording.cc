// recording_was_empty, no_memory_events, history_truncated: what is missing from the recording,
// what is still valid, and how to record more.
#include <algorithm>
#include <string>
#include <utility>

#include "base/units.h"
#include "findings/rules.h"
#include "findings/text.h"
#include "model/steps.h"

namespace plimsoll::findings {
namespace {

using model::Action;

// A ring ten times larger covers ten times as many steps. PyTorch keeps the entries in host memory,
// a few hundred bytes each, so this is cheap up to millions of entries.
constexpr std::uint64_t kRingFactor = 10;
// _record_memory_history(enabled="state") keeps the stacks of live blocks and a ring of one event.
constexpr std::ptrdiff_t kMostOfNoHistory = 1;

std::string record_call(const AcceleratorNames& names, std::uint64_t entries) {
  return names.module + ".memory._record_memory_history(max_entries=" + std::to_string(entries) +
         ")";
}

// How to record again, with the tool that wrote this file.
std::string record_again(const Facts& facts) {
  if (facts.report.source.format == "plimsoll") {
    return "Record while the program allocates: start before the model is built (plimsoll run does "
           "so, or plimsoll.record()), run a few steps, and stop after them.";
  }
  return "Call " + record_call(facts.names, 100'000) +
         " before the model is built, run a few steps, and call " + facts.names.module +
         ".memory._dump_snapshot(path) while recording is still on.";
}

// With max_events, a native recording keeps only the newest events and the memory live before them.
report::Finding limited(const Facts& facts, const DeviceFacts& device) {
  const auto& diagnostics = facts.report.source.diagnostics;
  const auto evicted =
      std::ranges::find(diagnostics, "evicted_events", &report::DiagnosticReport::name);
  report::Finding finding = {
      "history_truncated",
      report::FindingSeverity::kInfo,
      "max_events evicted " +
          (evicted == diagnostics.end() ? "earlier events" : counted(evicted->count, "event")) +
          ": the file has the newest, and what was live before them",
      {},
      {{"Record without max_events, or with a larger number, to see all of it."}}};
  const auto ends = model::step_ends(facts.trace, device.trace);
  if (!ends.empty()) {
    finding.evidence.push_back("The first step that ends in the file is step " +
                               base::format_count(ends.front().step) + ".");
  }
  finding.evidence.emplace_back(
      "Peaks, steps, growth and allocation counts before the file are unknown. What was live at "
      "its beginning is known, with its stacks, and later figures are exact.");
  return finding;
}

// PyTorch's history is a ring that keeps the newest events.
report::Finding wrapped(const Facts& facts, const DeviceFacts& device) {
  const std::uint64_t events = device.trace.events.size();
  report::Finding finding = {
      "history_truncated",
      report::FindingSeverity::kWarning,
      "The recording on " + device.name + " wrapped: only the last " + base::format_count(events) +
          " events are left",
      {bytes_text(device.report.live_totals().baseline_bytes) +
       " were live before the first event that is left. Totals are exact from there on; what "
       "happened before, and a higher peak if there was one, is lost."},
      {{"Record with " + record_call(facts.names, events * kRingFactor) +
        ", or for fewer steps: start recording later and dump sooner."}}};
  if (const std::uint64_t frees = device.report.frees_without_alloc; frees > 0) {
    finding.evidence.push_back("It is unknown where the memory of " + counted(frees, "free") +
                               " was allocated.");
  }
  return finding;
}

}  // namespace

Findings recording_was_empty(const Facts& facts) {
  const model::Trace& trace = facts.trace;
  if (!trace.has_final_state) return {};
  std::ptrdiff_t events = 0;
  for (const model::DeviceTrace& device : trace.devices) {
    events += std::ranges::count_if(device.events.action, [](Action action) {
      return action == Action::kAlloc || is_free_requested(action) || is_free_completed(action);
    });
  }
  if (events > kMostOfNoHistory) return {};
  std::uint64_t active = 0, bytes = 0, with_stack = 0;
  for (const model::Block& block : trace.blocks) {
    if (block.state == model::BlockState::kInactive) continue;
    ++active;
    bytes += block.requested_size;
    with_stack += block.stack.value > 1 ? 1 : 0;
  }
  const std::string blocks = counted(active, "live block") + " of " + bytes_text(bytes);
  report::Finding finding = {
      "recording_was_empty",
      report::FindingSeverity::kWarning,
      with_stack > 0 ? "The file has no history: " + blocks + ", but not their events"
                     : "Nothing was recorded: the file has " + blocks + ", and no history",
      {},
      {{record_again(facts)}}};
  if (active > 0) {
    finding.evidence.push_back(with_stack == 0
                                   ? "No block has a stack: only the sizes are known."
                                   : "The lines of " + base::format_count(with_stack) + " of " +
                                         counted(active, "block") + " are known.");
  }
  finding.evidence.push_back("Peaks, growth and the times of requests are unknown.");
  return {finding};
}

Findings no_memory_events(const Facts& facts) {
  const auto& diagnostics = facts.report.source.diagnostics;
  if (std::ranges::find(diagnostics, "no_memory_events", &report::DiagnosticReport::name) ==
      diagnostics.end()) {
    return {};
  }
  return {{"no_memory_events",
           report::FindingSeverity::kWarning,
           "The trace has no memory events, so there is nothing to report",
           {"torch.profiler writes them only when asked to."},
           {{"Profile again with torch.profiler.profile(profile_memory=True, with_stack=True)."}}}};
}

Findings history_truncated(const Facts& facts) {
  Findings findings;
  for (const DeviceFacts& device : devices_of(facts)) {
    if (device.trace.history != model::History::kTruncated) continue;
    if (facts.trace.has_phases()) return {limited(facts, device)};  // the same for all devices
    findings.push_back(wrapped(facts, device));
  }
  return findings;
}

}  // namespace plimsoll::findings

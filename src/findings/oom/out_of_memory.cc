// out_of_memory: the request that failed, with its cause class and the next step for that class.
// Retries on the same line are one finding, about the last one. The last failure comes first,
// because only that one can have ended the program.
#include <algorithm>
#include <cstdint>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/steady_growth.h"
#include "base/units.h"
#include "findings/growth/retained.h"
#include "findings/live_by_kind.h"
#include "findings/oom/failed_try.h"
#include "findings/oom/oom_message.h"
#include "findings/oom/oom_need.h"
#include "findings/rules.h"
#include "findings/text.h"
#include "report/devices.h"

namespace plimsoll::findings {
namespace {

using report::OomDetails;

// A loop that fails on different lines each time would fill the report; further failures are only
// counted.
constexpr std::size_t kMostReported = 3;

// No training device is this small: something else uses the rest of it.
constexpr std::uint64_t kSmallestDeviceBytes = std::uint64_t{4} << 30;
// A tenth of the device outside the allocator is more than a context and a few libraries need.
constexpr std::uint64_t kMuchOfDevice = 10;

// Activations of a new caller, or of a failed try, that explain a failure.
constexpr double kShareOfCaller = 0.25;
// Idle memory in private pools below this size is named only if the request would have fitted into
// it.
constexpr std::uint64_t kMuchIdleBytes = std::uint64_t{64} << 20;

// A smaller share would not determine the next step.
constexpr double kKnownShare = 0.5;

struct Burst {
  const OomDetails* last;
  std::uint64_t count;
};

std::vector<Burst> bursts_of(const std::vector<OomDetails>& ooms) {
  std::vector<Burst> bursts;
  for (const OomDetails& oom : ooms) {
    if (!bursts.empty() && bursts.back().last->line == oom.line) {
      bursts.back() = Burst{&oom, bursts.back().count + 1};
    } else {
      bursts.push_back(Burst{&oom, 1});
    }
  }
  return bursts;
}

// The memory available from the driver; 0 if the driver had enough but the request failed anyway.
std::uint64_t left_at_driver(const OomDetails& oom) {
  return oom.is_limited ? 0 : oom.device_free_bytes.value_or(0);
}

std::uint64_t missing_bytes(const OomDetails& oom) {
  const std::uint64_t left = left_at_driver(oom);
  return oom.requested_bytes > left ? oom.requested_bytes - left : 0;
}

std::string top_line(const OomDetails& oom) {
  return oom.top_lines.empty() ? std::string("the largest holder") : oom.top_lines.front().key;
}

void report_fragmentation(const Facts& facts, const DeviceFacts& device, const OomDetails& oom,
                          report::Finding& finding) {
  finding.title = device.name +
                  " ran out of memory through fragmentation: " + bytes_text(bytes_in_pieces(oom)) +
                  " were free in pieces that could not serve " + bytes_text(oom.requested_bytes);
  finding.evidence.push_back("The largest free piece it could have used was " +
                             bytes_text(oom.largest_usable_bytes) +
                             "; live blocks pin the segments, so none could be released.");
  for (auto& sentence : pinning_sentences(oom.pinning_lines)) {
    finding.evidence.push_back(std::move(sentence));
  }
  if (facts.conf.expandable_segments) {
    finding.evidence.emplace_back("expandable_segments is on already.");
  } else {
    finding.steps.push_back(
        step_up_to(facts.names.set_expandable_segments() + " before the process starts.",
                   bytes_in_pieces(oom)));
  }
  finding.steps.push_back(step_up_to("Allocate " + what_is_kept(oom.pinning_lines) +
                                         " before the large temporaries, or copy it to the CPU.",
                                     bytes_in_pieces(oom)));
}

void report_growth(const Facts& facts, const DeviceFacts& device, const OomDetails& oom,
                   report::Finding& finding) {
  finding.title = device.name +
                  " ran out of memory through steady growth: " + bytes_text(oom.grown_bytes) +
                  " of the " + bytes_text(oom.requested_active_bytes.value_or(0)) +
                  " live were added step by step";
  using Rows = std::span<const report::GrowthRow>;
  const report::GrowthRow* first = nullptr;
  for (const report::GrowthRow& row : facts.report.tables.growth) {
    if (row.device != device.report.device || analysis::grown_bytes(row) == 0) continue;
    if (first == nullptr) first = &row;
    finding.evidence.push_back(row.line + " grew by " + rate_text(row.bytes_per_step) + ", to " +
                               bytes_text(row.last_bytes) + " after " + counted(row.steps, "step") +
                               ".");
    if (finding.evidence.size() == kMostReported + 1) break;
  }
  const Retained retained = retained_by(facts, device, first == nullptr ? Rows() : Rows(first, 1));
  finding.steps = {step_up_to(free_advice(first == nullptr ? top_line(oom) : first->line,
                                          device.report.device, retained, first),
                              oom.grown_bytes)};
}

bool has_limit(const OomDetails& oom) {
  return oom.limit_bytes && oom.device_total_bytes && *oom.limit_bytes < *oom.device_total_bytes;
}

bool is_cpu(const DeviceFacts& device) {
  return device.trace.device.type == model::DeviceType::kCpu;
}

// "1.0 GiB free of 80.0 GiB, limit 40.0 GiB set by set_per_process_memory_fraction"
std::string free_text(const DeviceFacts& device, const OomDetails& oom) {
  std::string text = bytes_text(oom.device_free_bytes.value_or(0)) + " free";
  if (oom.device_total_bytes) text += " of " + bytes_text(*oom.device_total_bytes);
  if (has_limit(oom)) {
    text += ", limit " + bytes_text(*oom.limit_bytes) + " set by ";
    text += is_cpu(device) ? "ulimit -v" : "set_per_process_memory_fraction";
  }
  return text;
}

void report_cpu_limit(const DeviceFacts& device, const OomDetails& oom, report::Finding& finding) {
  finding.title = device.name + " ran out of memory at a limit of the process: " + oom.line +
                  " requested " + bytes_text(oom.requested_bytes) + ", and " +
                  bytes_text(oom.device_free_bytes.value_or(0)) +
                  " of the machine's memory were free";
  finding.steps = {{has_limit(oom) ? "Raise the limit of the address space (ulimit -v, " +
                                         bytes_text(*oom.limit_bytes) + " now)."
                                   : "Look for what limits the address space (ulimit -v, "
                                     "vm.overcommit_memory)."},
                   {"Make " + oom.line + " request less at a time."}};
}

constexpr std::string_view kFused =
    "a fused operator that never stores the whole tensor "
    "(torch.nn.functional.scaled_dot_product_attention for attention)";

void report_large_request(const DeviceFacts& device, const OomDetails& oom,
                          report::Finding& finding) {
  finding.title = device.name + " ran out of memory on one large request: " + oom.line +
                  " requested " + bytes_text(oom.requested_bytes) + " in one allocation, with " +
                  bytes_text(oom.requested_active_bytes.value_or(0)) + " live";
  finding.steps = {{"Make " + oom.line + " request less at a time: " +
                    (is_batch_enough(oom.need) ? "a smaller batch or chunk, or " : "a chunk, or ") +
                    std::string(kFused) + "."}};
  for (std::string& enough : enough_texts(oom)) finding.steps.push_back({std::move(enough)});
  // At a limit of the process, idle reserved memory might have served the request.
  if (oom.is_limited || is_known(oom.need)) return;
  finding.evidence.push_back("The line must request " + bytes_text(missing_bytes(oom)) +
                             " less to fit.");
}

// The next steps for the largest kind, if half of the live memory is of known kinds.
Steps steps_of_kind(const LiveByKind& live) {
  const std::uint64_t model = live.parameters + live.gradients + live.optimizer_state;
  const std::uint64_t activations = live.activations + live.activation_gradients;
  if (!is_at_least(activations + model, kKnownShare, live.all)) return {};
  if (activations >= model) {
    return {{"Activations are the largest part: use a smaller batch."},
            {"Run the layers through torch.utils.checkpoint.checkpoint(…, use_reentrant=False)."}};
  }
  if (live.optimizer_state >= live.parameters) {
    return {{"The optimizer's state is the largest part: keep it in 8 bits (AdamW8bit of "
             "bitsandbytes or torchao)."},
            {"Shard it with parameters and gradients over your devices (FSDP, ZeRO)."}};
  }
  if (live.gradients > 0) {
    return {{"Parameters and their gradients are the largest part: shard them over your devices "
             "(FSDP)."},
            {"Train fewer of them (LoRA)."}};
  }
  return {{"Parameters are the largest part: load them in bfloat16 or quantized."},
          {"Spread the layers over your devices."}};
}

// Reports a forward from a line that no earlier step had called, such as the first validation. If
// no backward follows, the memory that it keeps for backward is wasted.
bool report_new_caller(const Facts& facts, const DeviceFacts& device, const OomDetails& oom,
                       report::Finding& finding) {
  const report::OomNeed& need = oom.need;
  const auto live =
      static_cast<std::uint64_t>(std::max<std::int64_t>(oom.requested_active_bytes.value_or(0), 1));
  const bool is_large = is_at_least(need.caller_bytes, kShareOfCaller, live) ||
                        (need.basis == "earlier_forward" && is_mostly_batch(need));
  if (need.new_caller.empty() || !is_large) return false;
  finding.title = device.name +
                  " ran out of memory in a forward that no earlier step has run, at " +
                  need.new_caller + ": it " +
                  (is_known(need) ? "needs " + need_text(oom)
                                  : "holds " + bytes_text(need.caller_bytes) + " of activations");
  if (facts.trace.site(device.trace, oom.event).autograd != model::Autograd::kOff) {
    finding.steps.push_back(
        {"If no backward follows, as in validation, run it under "
         "torch.no_grad(), which keeps no activations."});
  }
  std::vector<std::string> enough = enough_texts(oom);
  if (enough.empty()) enough.emplace_back("Use a smaller batch.");
  for (std::string& text : enough) finding.steps.push_back({std::move(text)});
  return true;
}

void report_needed(const DeviceFacts& device, const OomDetails& oom, const LiveByKind& live,
                   report::Finding& finding) {
  const report::OomNeed& need = oom.need;
  if (need.basis == "optimizer_state") {
    finding.title = device.name + " ran out of memory in the optimizer's first step: it needs " +
                    need_text(oom);
  } else if (is_mostly_batch(need) && !has_fitted_before(need)) {
    // If the step fits into all available memory, it failed only because that memory was in pieces.
    finding.title =
        device.name + " ran out of memory because the batch " +
        (*need.bytes <= *need.available_bytes ? "leaves too little room" : "is too large") +
        ": the step needs " + need_text(oom);
  } else {
    finding.title = device.name + " ran out of memory: the step needs " + need_text(oom);
  }
  for (std::string& enough : enough_texts(oom)) finding.steps.push_back({std::move(enough)});
  if (finding.steps.empty() && need.basis == "optimizer_state") {
    // Without dtypes it is unknown whether 8 bits would have been enough.
    const bool is_judged = std::ranges::any_of(
        need.changes, [](const auto& change) { return change.change == "optimizer_8bit"; });
    if (!is_judged) {
      finding.steps.push_back({"Keep the state in 8 bits (AdamW8bit of bitsandbytes or torchao)."});
    }
    finding.steps.push_back(
        {"Shard parameters, gradients and state over your devices (FSDP, ZeRO)."});
    finding.steps.push_back(
        {"Use an optimizer with less state (Adafactor, SGD), or train fewer parameters (LoRA)."});
  }
  if (finding.steps.empty()) finding.steps = steps_of_kind(live);
  if (finding.steps.empty()) {
    finding.steps.push_back({"Begin with " + top_line(oom) + ", which uses the most."});
  }
}

void report_too_big(const Facts& facts, const DeviceFacts& device, const OomDetails& oom,
                    report::Finding& finding) {
  const LiveByKind live = live_by_kind(facts, device, static_cast<std::int64_t>(oom.event));
  const bool has_kinds = !steps_of_kind(live).empty();
  if (has_kinds) {
    finding.evidence.push_back("Live then were " + kinds_text(live) +
                               (facts.trace.has_inferred_roles ? " (inferred)." : "."));
  }
  if (report_new_caller(facts, device, oom, finding)) return;
  if (is_known(oom.need)) {
    report_needed(device, oom, live, finding);
    if (const auto left = left_if_contiguous(oom); left && !facts.conf.expandable_segments) {
      finding.steps.push_back({facts.names.set_expandable_segments() +
                               ", which is just enough: it leaves " + bytes_text(*left) + "."});
    }
    return;
  }
  finding.title =
      device.name + " ran out of memory: " + bytes_text(oom.requested_active_bytes.value_or(0)) +
      " were live, and " + oom.line + " requested " + bytes_text(oom.requested_bytes) + " more";
  if (const std::uint64_t missing = missing_bytes(oom); missing > 0 && !oom.is_limited) {
    finding.evidence.push_back("It needs at least " + bytes_text(missing) + " more.");
  }
  if (has_kinds) {
    finding.steps = steps_of_kind(live);
  } else {
    finding.steps = {{"Begin with " + top_line(oom) +
                      ", which uses the most. Its purpose is unknown; plimsoll run records it."}};
  }
}

// Reports what a try that failed before has left behind, if it explains the failure.
bool report_failed_try(const Facts& facts, const DeviceFacts& device, const OomDetails& oom,
                       report::Finding& finding) {
  const auto live =
      static_cast<std::uint64_t>(std::max<std::int64_t>(oom.requested_active_bytes.value_or(0), 1));
  const FailedTry left = failed_try(facts, device, oom);
  if (!is_at_least(left.bytes, kShareOfCaller, live)) return false;
  finding.title = device.name + " ran out of memory in a retry: " + bytes_text(left.bytes) +
                  " of the " + bytes_text(live) + " live are left from a try that failed before";
  finding.evidence.push_back("They are " + counted(left.tensors, "tensor") + " that " +
                             (left.call.empty() ? "the try" : "the call at " + left.call) +
                             " made before it failed (event " + base::format_count(left.event) +
                             ").");
  finding.steps = {step_up_to(
      "Retry after the except block, not inside it: while the exception is handled or stored, it "
      "refers to the frames of the failed try, and so to their tensors.",
      left.bytes)};
  return true;
}

void report_cause(const Facts& facts, const DeviceFacts& device, const OomDetails& oom,
                  report::Finding& finding) {
  if (report_failed_try(facts, device, oom, finding)) return;
  if (oom.cause == "fragmentation") return report_fragmentation(facts, device, oom, finding);
  if (oom.cause == "steady_growth") return report_growth(facts, device, oom, finding);
  if (oom.cause == "process_limit") return report_cpu_limit(device, oom, finding);
  if (oom.cause == "one_large_request") return report_large_request(device, oom, finding);
  report_too_big(facts, device, oom, finding);
}

// Reports the driver's figures at the last failure: everything but tensors and cache, if that is
// large. Returns false if the driver was not queried and nothing is known about other processes.
bool report_other_users(const DeviceFacts& device, const Burst& burst, report::Finding& finding) {
  const auto& bars = device.report.bars;
  if (bars.empty() || bars.back().point != "oom") return false;
  const bool is_last = burst.last == &device.report.oom_details.back();
  if (!is_last) return true;
  std::vector<report::BarPart> others;
  std::uint64_t bytes = 0;
  for (const report::BarPart& part : bars.back().parts) {
    if (part.kind == "tensors" || part.kind == "cached") continue;
    others.push_back(part);
    bytes += static_cast<std::uint64_t>(part.bytes);
  }
  const std::uint64_t total = bars.back().total_bytes;
  if (static_cast<std::int64_t>(bytes) <= 0 || bytes < total / kMuchOfDevice) return true;
  finding.evidence.push_back("Of the device's " + bytes_text(total) + ", " + bytes_text(bytes) +
                             " were not PyTorch's: " + report::parts_text(others) + ".");
  return true;
}

void report_others(const OomDetails& oom, const AcceleratorNames& names, report::Finding& finding) {
  const std::uint64_t reserved =
      static_cast<std::uint64_t>(std::max<std::int64_t>(oom.reserved_bytes.value_or(0), 0));
  const std::uint64_t all = reserved + oom.device_free_bytes.value_or(0);
  if (oom.device_total_bytes) {
    const std::uint64_t outside = *oom.device_total_bytes - std::min(*oom.device_total_bytes, all);
    if (outside < *oom.device_total_bytes / kMuchOfDevice) return;
    finding.evidence.push_back(bytes_text(outside) + " of the device's " +
                               bytes_text(*oom.device_total_bytes) +
                               " were used outside of this allocator: by other processes (see " +
                               names.tool + "), the CUDA context and libraries.");
    return;
  }
  if (reserved == 0 || all >= kSmallestDeviceBytes) return;
  finding.evidence.push_back("Reserved and free memory add up to only " + bytes_text(all) +
                             ". If the device is larger, other processes use the rest: see " +
                             names.tool + ".");
}

void report_surroundings(const Facts& facts, const DeviceFacts& device, const Burst& burst,
                         report::Finding& finding) {
  const OomDetails& oom = *burst.last;
  if (!is_cpu(device) && !report_other_users(device, burst, finding)) {
    report_others(oom, facts.names, finding);
  }
  if (!oom.top_lines.empty()) {
    finding.evidence.push_back("Most was used by " + holders_text(oom.top_lines) + ".");
  }
  for (std::string& sentence : need_sentences(oom, facts.conf.expandable_segments)) {
    finding.evidence.push_back(std::move(sentence));
  }
  if (oom.is_limited && !has_limit(oom) && !is_cpu(device)) {
    finding.evidence.push_back(
        bytes_text(oom.device_free_bytes.value_or(0)) +
        " of the device were free when the request failed. The file does not "
        "show why they could not be used. A limit of this process or another "
        "allocation may be the reason.");
  }
  if (oom.private_idle_bytes >= std::min(oom.requested_bytes, kMuchIdleBytes)) {
    finding.evidence.push_back(bytes_text(oom.private_idle_bytes) + " were idle in " +
                               oom.private_pools +
                               " of a CUDA graph or MemPool. This request could not use them, and "
                               "empty_cache() cannot release them while the graph or the pool "
                               "exists.");
  }
  if (facts.conf.max_split_size_bytes && oom.largest_usable_bytes >= oom.requested_bytes) {
    finding.evidence.push_back("A free block of " + bytes_text(oom.largest_usable_bytes) +
                               " would have been large enough, but max_split_size_mb keeps blocks "
                               "of that size whole.");
  }
  if (burst.count > 1) {
    finding.evidence.push_back("The same line failed " + base::format_count(burst.count) +
                               " times in a row; this is the last.");
  }
  if (report::went_on_after(device.report, oom.event)) {
    finding.evidence.push_back(
        "The program went on: " + base::format_count(device.report.events - oom.event) +
        " events follow.");
    finding.severity = report::FindingSeverity::kWarning;
  }
}

report::Finding make_finding(const Facts& facts, const DeviceFacts& device, const Burst& burst) {
  const OomDetails& oom = *burst.last;
  report::Finding finding;
  finding.id = "out_of_memory";
  finding.severity = report::FindingSeverity::kCritical;
  std::string evidence = oom.line + " requested " + bytes_text(oom.requested_bytes) + " (event " +
                         base::format_count(oom.event) + "). " +
                         bytes_text(oom.requested_active_bytes.value_or(0));
  if (oom.reserved_bytes > 0)
    evidence += " of " + bytes_text(oom.reserved_bytes.value_or(0)) + " reserved";
  evidence += " were live";
  if (!is_cpu(device)) {
    evidence += ", and the device had " + free_text(device, oom);
  } else if (oom.device_total_bytes) {
    evidence += ", and the machine had " + free_text(device, oom);
  }
  finding.evidence.push_back(evidence + ".");
  report_cause(facts, device, oom, finding);
  report_surroundings(facts, device, burst, finding);
  return finding;
}

}  // namespace

Findings out_of_memory(const Facts& facts) {
  Findings findings;
  for (const DeviceFacts& device : devices_of(facts)) {
    const auto messages = facts.trace.messages_about(device.trace.device);
    if (!messages.empty()) {
      const std::string& line = device.report.oom_details.back().line;
      findings.push_back(explain_message(*messages.back(), is_named(line) ? line : std::string{},
                                         messages.size(), facts.names));
      continue;
    }
    const std::vector<Burst> bursts = bursts_of(device.report.oom_details);
    const std::size_t reported = std::min(kMostReported, bursts.size());
    for (std::size_t at = 1; at <= reported; ++at) {
      findings.push_back(make_finding(facts, device, bursts[bursts.size() - at]));
    }
    if (bursts.size() > reported) {
      findings.back().evidence.push_back(
          "It also happened at " + counted(bursts.size() - reported, "other place") + " before.");
    }
  }
  return findings;
}

}  // namespace plimsoll::findings

// out_of_memory: the request that failed, with its cause class and the next step for that class.
// Retries on the same line are one finding, about the last one. The last failure comes first,
// because only that one can have ended the program.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "analysis/steady_growth.h"
#include "base/units.h"
#include "findings/allocator/pinning.h"
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

using report::Finding;
using report::OomDetails;

// A loop that fails on different lines each time would fill the report; further failures are only
// counted.
constexpr std::size_t kMostReported = 3;
// Activations of a new caller, or of a failed try, that explain a failure.
constexpr double kShareOfCaller = 0.25;
// A smaller share would not determine the next step.
constexpr double kKnownShare = 0.5;

// The last of the failures in a row on one line.
struct Failure {
  const Facts& facts;
  const DeviceFacts& device;
  const OomDetails& oom;
  std::uint64_t count = 1;

  std::uint64_t live_bytes() const { return not_negative(oom.requested_active_bytes.value_or(0)); }
  std::uint64_t free_bytes() const { return oom.device_free_bytes.value_or(0); }
  bool is_cpu() const { return device.trace.device.type == model::DeviceType::kCpu; }
  bool is_last() const { return &oom == &device.report.oom_details.back(); }
  // What the request lacked; if the driver had enough but it failed anyway, all of it.
  std::uint64_t missing_bytes() const {
    return oom.requested_bytes - std::min(oom.requested_bytes, oom.is_limited ? 0 : free_bytes());
  }
  std::string top_line() const {
    return oom.top_lines.empty() ? "the largest holder" : oom.top_lines.front().key;
  }
};

std::vector<Failure> failures_of(const Facts& facts, const DeviceFacts& device) {
  std::vector<Failure> failures;
  std::uint64_t count = 0;
  const auto& ooms = device.report.oom_details;
  for (std::size_t at = 0; at < ooms.size(); ++at) {
    ++count;
    if (at + 1 < ooms.size() && ooms[at + 1].line == ooms[at].line) continue;
    failures.push_back(Failure{facts, device, ooms[at], std::exchange(count, 0)});
  }
  return failures;
}

std::string of_fragmentation(const Failure& failure, Finding& finding) {
  const OomDetails& oom = failure.oom;
  finding.evidence.push_back("The largest free piece it could have used was " +
                             bytes_text(oom.largest_usable_bytes) +
                             "; live blocks pin the segments, so none could be released.");
  add_pins(failure.facts, oom.pinning_lines, bytes_in_pieces(oom), finding);
  return " through fragmentation: " + bytes_text(bytes_in_pieces(oom)) +
         " were free in pieces that could not serve " + bytes_text(oom.requested_bytes);
}

std::string of_growth(const Failure& failure, Finding& finding) {
  std::vector<report::GrowthRow> rows;
  for (const report::GrowthRow& row : failure.facts.report.tables.growth) {
    const bool is_here = row.device == failure.device.report.device;
    if (is_here && analysis::grown_bytes(row) > 0 && rows.size() < kMostReported) {
      rows.push_back(row);
    }
  }
  for (const report::GrowthRow& row : rows) {
    finding.evidence.push_back(row.line + " grew by " + rate_text(row.bytes_per_step) + ", to " +
                               bytes_text(row.last_bytes) + " after " + counted(row.steps, "step") +
                               ".");
  }
  rows.resize(std::min<std::size_t>(rows.size(), 1));
  const Holder holder{rows.empty() ? failure.top_line() : rows.front().line,
                      retained_by(failure.facts, failure.device, rows),
                      rows.empty() ? nullptr : rows.data()};
  const std::uint64_t grown = failure.oom.grown_bytes;
  finding.steps = {step_up_to(free_advice(failure.device, holder), grown)};
  return " through steady growth: " + bytes_text(grown) + " of the " +
         bytes_text(failure.live_bytes()) + " live were added step by step";
}

std::string of_cpu_limit(const Failure& failure, Finding& finding) {
  finding.steps = {{has_limit(failure.oom) ? "Raise the limit of the address space (ulimit -v, " +
                                                 bytes_text(*failure.oom.limit_bytes) + " now)."
                                           : "Look for what limits the address space (ulimit -v, "
                                             "vm.overcommit_memory)."},
                   {"Make " + failure.oom.line + " request less at a time."}};
  return " at a limit of the process: " + failure.oom.line + " requested " +
         bytes_text(failure.oom.requested_bytes) + ", and " + bytes_text(failure.free_bytes()) +
         " of the machine's memory were free";
}

std::string of_large_request(const Failure& failure, Finding& finding) {
  const OomDetails& oom = failure.oom;
  finding.steps = {{"Make " + oom.line + " request less at a time: " +
                    (is_batch_enough(oom.need) ? "a smaller batch or chunk" : "a chunk") +
                    ", or a fused operator that never stores the whole tensor "
                    "(torch.nn.functional.scaled_dot_product_attention for attention)."}};
  for (std::string& enough : enough_texts(oom)) finding.steps.push_back({std::move(enough)});
  // At a limit of the process, idle reserved memory might have served the request.
  if (!oom.is_limited && !is_known(oom.need)) {
    finding.evidence.push_back("The line must request " + bytes_text(failure.missing_bytes()) +
                               " less to fit.");
  }
  return " on one large request: " + oom.line + " requested " + bytes_text(oom.requested_bytes) +
         " in one allocation, with " + bytes_text(failure.live_bytes()) + " live";
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

// Whether a line that no earlier step had called, such as the first validation, runs the forward
// that fails. If no backward follows, the memory that it keeps for backward is wasted.
bool is_of_new_caller(const Failure& failure) {
  const report::OomNeed& need = failure.oom.need;
  const bool is_large = is_at_least(need.caller_bytes, kShareOfCaller, failure.live_bytes()) ||
                        (need.basis == "earlier_forward" && is_mostly_batch(need));
  return !need.new_caller.empty() && is_large;
}

std::string of_new_caller(const Failure& failure, Finding& finding) {
  const report::OomNeed& need = failure.oom.need;
  const model::Site& site = failure.facts.trace.site(failure.device.trace, failure.oom.event);
  if (site.autograd != model::Autograd::kOff) {
    finding.steps.push_back(
        {"If no backward follows, as in validation, run it under torch.no_grad(), which keeps no "
         "activations."});
  }
  std::vector<std::string> enough = enough_texts(failure.oom);
  if (enough.empty()) enough.emplace_back("Use a smaller batch.");
  for (std::string& text : enough) finding.steps.push_back({std::move(text)});
  return " in a forward that no earlier step has run, at " + need.new_caller + ": it " +
         (is_known(need) ? "needs " + need_text(failure.oom)
                         : "holds " + bytes_text(need.caller_bytes) + " of activations");
}

std::string of_known_need(const Failure& failure, const Steps& of_kind, Finding& finding) {
  const OomDetails& oom = failure.oom;
  const report::OomNeed& need = oom.need;
  const bool is_of_state = need.basis == "optimizer_state";
  for (std::string& enough : enough_texts(oom)) finding.steps.push_back({std::move(enough)});
  if (finding.steps.empty() && is_of_state) {
    finding.steps = {{"Keep the state in 8 bits (AdamW8bit of bitsandbytes or torchao)."},
                     {"Shard parameters, gradients and state over your devices (FSDP, ZeRO)."},
                     {"Use an optimizer with less state (Adafactor, SGD), or train fewer "
                      "parameters (LoRA)."}};
    // Without dtypes it is unknown whether 8 bits would have been enough.
    const auto is_8bit = [](const auto& change) { return change.change == "optimizer_8bit"; };
    if (std::ranges::any_of(need.changes, is_8bit)) finding.steps.erase(finding.steps.begin());
  }
  if (finding.steps.empty()) finding.steps = of_kind;
  if (finding.steps.empty()) {
    finding.steps.push_back({"Begin with " + failure.top_line() + ", which uses the most."});
  }
  if (const auto left = left_if_contiguous(oom); left && !failure.facts.conf.expandable_segments) {
    finding.steps.push_back({failure.facts.names.set_expandable_segments() +
                             ", which is just enough: it leaves " + bytes_text(*left) + "."});
  }
  if (is_of_state) return " in the optimizer's first step: it needs " + need_text(oom);
  std::string reason;
  if (is_mostly_batch(need) && !has_fitted_before(need)) {
    // If the step fits into all available memory, it failed only because that memory was in pieces.
    reason = std::string(" because the batch ") +
             (*need.bytes <= *need.available_bytes ? "leaves too little room" : "is too large");
  }
  return reason + ": the step needs " + need_text(oom);
}

std::string of_too_much(const Failure& failure, Finding& finding) {
  const Facts& facts = failure.facts;
  const OomDetails& oom = failure.oom;
  const LiveByKind live = live_by_kind(facts, failure.device, static_cast<std::int64_t>(oom.event));
  const Steps of_kind = steps_of_kind(live);
  if (!of_kind.empty()) {
    finding.evidence.push_back("Live then were " + kinds_text(live) +
                               (facts.trace.has_inferred_roles ? " (inferred)." : "."));
  }
  if (is_of_new_caller(failure)) return of_new_caller(failure, finding);
  if (is_known(oom.need)) return of_known_need(failure, of_kind, finding);
  if (failure.missing_bytes() > 0 && !oom.is_limited) {
    finding.evidence.push_back("It needs at least " + bytes_text(failure.missing_bytes()) +
                               " more.");
  }
  finding.steps = of_kind;
  if (of_kind.empty()) {
    finding.steps = {{"Begin with " + failure.top_line() +
                      ", which uses the most. Its purpose is unknown; plimsoll run records it."}};
  }
  return ": " + bytes_text(failure.live_bytes()) + " were live, and " + oom.line + " requested " +
         bytes_text(oom.requested_bytes) + " more";
}

std::string of_failed_try(const Failure& failure, const FailedTry& left, Finding& finding) {
  finding.evidence.push_back("They are " + counted(left.tensors, "tensor") + " that the call at " +
                             left.call + " made before it failed (event " +
                             base::format_count(left.event) + ").");
  finding.steps = {step_up_to(
      "Retry after the except block, not inside it: while the exception is handled or stored, it "
      "refers to the frames of the failed try, and so to their tensors.",
      left.bytes)};
  return " in a retry: " + bytes_text(left.bytes) + " of the " + bytes_text(failure.live_bytes()) +
         " live are left from a try that failed before";
}

// Adds evidence and steps for the cause; returns the end of the title.
std::string explain_cause(const Failure& failure, Finding& finding) {
  const FailedTry left = failed_try(failure.facts, failure.device, failure.oom);
  if (left.bytes > 0 && is_at_least(left.bytes, kShareOfCaller, failure.live_bytes())) {
    return of_failed_try(failure, left, finding);
  }
  using ExplainCause = std::string (*)(const Failure&, Finding&);
  constexpr std::array<std::pair<const char*, ExplainCause>, 4> kCauses{
      {{"fragmentation", of_fragmentation},
       {"steady_growth", of_growth},
       {"process_limit", of_cpu_limit},
       {"one_large_request", of_large_request}}};
  for (const auto& [cause, explain] : kCauses) {
    if (failure.oom.cause == cause) return explain(failure, finding);
  }
  return of_too_much(failure, finding);
}

// What the allocator did not have: the driver's figures at the last failure, if it was queried.
std::string outside_text(const Failure& failure) {
  const auto& bars = failure.device.report.bars;
  const OomDetails& oom = failure.oom;
  std::uint64_t total = oom.device_total_bytes.value_or(0);
  std::uint64_t bytes =
      total - std::min(total, not_negative(oom.reserved_bytes.value_or(0)) + failure.free_bytes());
  std::string users =
      "other processes (see " + failure.facts.names.tool + "), the CUDA context and libraries";
  if (!bars.empty() && bars.back().point == "oom") {
    if (!failure.is_last()) return {};
    std::vector<report::BarPart> others = bars.back().parts;
    std::erase_if(others, [](const report::BarPart& part) {
      return part.kind == "tensors" || part.kind == "cached";
    });
    total = bars.back().total_bytes;
    users = report::parts_text(others);
    std::uint64_t sum = 0;  // wraps: a part may be negative
    for (const report::BarPart& part : others) sum += static_cast<std::uint64_t>(part.bytes);
    bytes = not_negative(static_cast<std::int64_t>(sum));
  }
  if (bytes == 0 || !is_at_least(bytes, kMuchOfDevice, total)) return {};
  return "Of the device's " + bytes_text(total) + ", " + bytes_text(bytes) +
         " were not PyTorch's: " + users + ".";
}

void add_surroundings(const Failure& failure, Finding& finding) {
  const OomDetails& oom = failure.oom;
  const auto say = [&](std::string sentence) {
    if (!sentence.empty()) finding.evidence.push_back(std::move(sentence));
  };
  if (!failure.is_cpu()) say(outside_text(failure));
  if (!oom.top_lines.empty()) say("Most was used by " + holders_text(oom.top_lines) + ".");
  for (std::string& sentence : need_sentences(oom)) say(std::move(sentence));
  if (oom.is_limited && !has_limit(oom) && !failure.is_cpu()) {
    say(bytes_text(failure.free_bytes()) +
        " of the device were free when the request failed. The file does not show why they could "
        "not be used. A limit of this process or another allocation may be the reason.");
  }
  if (oom.private_idle_bytes >= oom.requested_bytes) {
    say(bytes_text(oom.private_idle_bytes) + " were idle in " + oom.private_pools +
        " of a CUDA graph or MemPool. This request could not use them, and empty_cache() cannot "
        "release them while the graph or the pool exists.");
  }
  if (failure.facts.conf.max_split_size_bytes && oom.largest_usable_bytes >= oom.requested_bytes) {
    say("A free block of " + bytes_text(oom.largest_usable_bytes) +
        " would have been large enough, but max_split_size_mb keeps blocks of that size whole.");
  }
  if (failure.count > 1) {
    say("The same line failed " + base::format_count(failure.count) +
        " times in a row; this is the last.");
  }
  if (report::went_on_after(failure.device.report, oom.event)) {
    say("The program went on: " + base::format_count(failure.device.report.events - oom.event) +
        " events follow.");
    finding.severity = report::FindingSeverity::kWarning;
  }
}

// "x.py:9 (f) requested 2.0 GiB (event 7). 3.0 GiB of 4.0 GiB reserved were live, and the device
// had 1.0 GiB free of 80.0 GiB, limit 40.0 GiB set by set_per_process_memory_fraction."
std::string request_text(const Failure& failure) {
  const OomDetails& oom = failure.oom;
  std::string text = oom.line + " requested " + bytes_text(oom.requested_bytes) + " (event " +
                     base::format_count(oom.event) + "). " + bytes_text(failure.live_bytes());
  if (oom.reserved_bytes > 0) text += " of " + bytes_text(*oom.reserved_bytes) + " reserved";
  text += " were live";
  if (failure.is_cpu() && !oom.device_total_bytes) return text + ".";
  text += std::string(", and the ") + (failure.is_cpu() ? "machine" : "device") + " had " +
          bytes_text(failure.free_bytes()) + " free";
  if (oom.device_total_bytes) text += " of " + bytes_text(*oom.device_total_bytes);
  if (has_limit(oom)) {
    text += ", limit " + bytes_text(*oom.limit_bytes) + " set by " +
            (failure.is_cpu() ? "ulimit -v" : "set_per_process_memory_fraction");
  }
  return text + ".";
}

Finding make_finding(const Failure& failure) {
  Finding finding;
  finding.id = "out_of_memory";
  finding.severity = report::FindingSeverity::kCritical;
  finding.evidence.push_back(request_text(failure));
  finding.title = failure.device.name + " ran out of memory" + explain_cause(failure, finding);
  add_surroundings(failure, finding);
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
    const std::vector<Failure> failures = failures_of(facts, device);
    const std::size_t reported = std::min(kMostReported, failures.size());
    for (std::size_t at = 1; at <= reported; ++at) {
      findings.push_back(make_finding(failures[failures.size() - at]));
    }
    if (failures.size() > reported) {
      findings.back().evidence.push_back(
          "It also happened at " + counted(failures.size() - reported, "other place") + " before.");
    }
  }
  return findings;
}

}  // namespace plimsoll::findings

// out_of_memory: the request that failed, with its cause class and the next step for that class.
// Retries on the same line are one finding, about the last one. The last failure comes first,
// because only that one can have ended the program.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/steady_growth.h"
#include "base/units.h"
#include "findings/allocator/pinning.h"
#include "findings/growth/retained.h"
#include "findings/oom/oom_message.h"
#include "findings/rules.h"
#include "findings/text.h"
#include "model/categories.h"
#include "model/inner_lines.h"
#include "model/live_set.h"
#include "report/devices.h"

namespace plimsoll::findings {
namespace {

using report::Finding;
using report::OomChange;
using report::OomDetails;
using report::OomNeed;

// A loop that fails on different lines each time would fill the report; further failures are only
// counted.
constexpr std::size_t kMostReported = 3;
// Activations of a new caller, or of a failed try, that explain a failure.
constexpr double kShareOfCaller = 0.25;
// A smaller share would not determine the next step.
constexpr double kKnownShare = 0.5;

// Sizes that differ by less than this factor count as equal, because blocks are rounded.
constexpr double kLeastGrowth = 1.05;
// Between linear and quadratic growth.
constexpr double kQuadraticPower = 1.5;

bool is_known(const OomNeed& need) { return need.bytes && need.available_bytes; }

// Whether most of what the step needed grows with the batch.
bool is_mostly_batch(const OomNeed& need) {
  return is_known(need) && is_at_least(need.scaling_bytes.value_or(0), 0.5, *need.bytes);
}

// Whether an earlier step with tensors of the same size has completed.
bool has_fitted_before(const OomNeed& need) {
  const double ratio = need.ratio.value_or(1.0);
  return need.basis == "earlier_step" && ratio < kLeastGrowth && ratio > 1 / kLeastGrowth;
}

// Whether the process may use less than the device has.
bool has_limit(const OomDetails& oom) {
  return oom.limit_bytes && oom.device_total_bytes && *oom.limit_bytes < *oom.device_total_bytes;
}

// The bytes that were free in pieces and that contiguous memory would make usable. Memory of other
// private pools does not count.
std::uint64_t bytes_in_pieces(const OomDetails& oom) {
  return minus_or_zero(oom.stranded_bytes, oom.private_idle_bytes);
}

const OomChange* find(const OomNeed& need, std::string_view change) {
  const auto found = std::ranges::find(need.changes, change, &OomChange::change);
  return found == need.changes.end() ? nullptr : &*found;
}

// Whether the free pieces together would have served the request, so that readers may suspect
// fragmentation.
bool was_enough_in_sum(const OomDetails& oom) {
  const std::uint64_t left = oom.is_limited ? 0 : oom.device_free_bytes.value_or(0);
  return bytes_in_pieces(oom) + left >= oom.requested_bytes;
}

// What contiguous memory would have left, if it would have been just enough.
std::optional<std::uint64_t> left_if_contiguous(const OomDetails& oom) {
  const OomChange* contiguous = find(oom.need, "contiguous_memory");
  if (contiguous == nullptr || contiguous->is_enough || !is_known(oom.need)) return {};
  if (*oom.need.bytes > *oom.need.available_bytes || !was_enough_in_sum(oom)) return {};
  return *oom.need.available_bytes - *oom.need.bytes;
}

std::string times_text(double ratio) {
  constexpr double kMost = 1e15;  // a hostile file may have any size
  const auto tenths = static_cast<std::uint64_t>(std::llround(std::min(ratio, kMost) * 10));
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " times";
}

// Explains what the estimate is based on.
std::string basis_text(const OomDetails& oom) {
  const OomNeed& need = oom.need;
  if (need.basis == "optimizer_state") {
    std::string text = bytes_text(need.state_bytes.value_or(0)) +
                       " of it is optimizer state of parameters that have none yet";
    if (need.scratch_bytes) {
      text +=
          ", and " + bytes_text(*need.scratch_bytes) + " are temporaries, which fused=True avoids";
    }
    return text + ".";
  }
  std::string text = need.basis == "earlier_forward"
                         ? "The estimate covers only its forward, and follows an earlier step"
                         : "The estimate follows an earlier step of this recording";
  const double ratio = need.ratio.value_or(1.0);
  if (has_fitted_before(need)) {
    return text +
           " with tensors of the same size, which completed. Since then, more is kept or less "
           "is available.";
  }
  text += ": the tensors of this one are " + times_text(ratio) + " as large";
  if (!need.input_shape.empty() && !need.earlier_input_shape.empty() &&
      need.input_shape != need.earlier_input_shape) {
    text += " (input " + need.input_shape + " instead of " + need.earlier_input_shape + ")";
  }
  const double request =
      static_cast<double>(oom.requested_bytes) /
      static_cast<double>(std::max<std::uint64_t>(need.earlier_request_bytes.value_or(1), 1));
  if (ratio > 1.0 && std::log(request) >= kQuadraticPower * std::log(ratio)) {
    text += ", and this request is " + times_text(request) + " as large: it grows quadratically";
  }
  return text + ".";
}

// "about 96.3 GiB, and 79.2 GiB are available".
std::string need_text(const OomDetails& oom) {
  const std::uint64_t needed = *oom.need.bytes, available = *oom.need.available_bytes;
  const std::string text = "about " + bytes_text(needed);
  const std::string all = bytes_text(available);
  if (needed <= available) {
    const std::uint64_t pieces = bytes_in_pieces(oom);
    return text + " of the " + all + " that are available" +
           (pieces > 0 ? ", of which " + bytes_text(pieces) + " were free in pieces" : "");
  }
  return text +
         (has_limit(oom) ? ", and the process may use " + all : ", and " + all + " are available");
}

// "contiguous memory (needs 96.0 GiB), optimizer state in 8 bits (needs 92.0 GiB)"
std::string not_enough_text(const OomDetails& oom) {
  std::string text;
  for (const OomChange& change : oom.need.changes) {
    if (change.is_enough || !change.needed_bytes) continue;
    std::string name = "optimizer state in 8 bits";
    if (change.change == "contiguous_memory") {
      if (!was_enough_in_sum(oom) || left_if_contiguous(oom)) continue;
      name = "contiguous memory (expandable_segments)";
    } else if (change.change == "checkpoint") {
      name = "checkpoints of " + change.layers;
    } else if (change.change == "smaller_batch") {
      name = "a batch of 1 instead of " + base::format_count(oom.need.batch_size.value_or(0));
    }
    text += (text.empty() ? "" : ", ") + name + " (needs " + bytes_text(*change.needed_bytes) + ")";
  }
  return text;
}

// The estimate with its source, what has grown since the earlier step, and the changes that would
// not have been enough.
std::vector<std::string> need_sentences(const OomDetails& oom) {
  const OomNeed& need = oom.need;
  if (need.basis.empty()) return {};
  if (!is_known(need)) return {"What the whole step needs is unknown: " + need.why_unknown + "."};
  std::vector<std::string> sentences{"The whole step needs " + need_text(oom) + ". " +
                                     basis_text(oom)};
  const std::string not_enough = not_enough_text(oom);
  if (!not_enough.empty()) sentences.push_back("Not enough on its own: " + not_enough + ".");
  return sentences;
}

// "Use a batch of at most 15 instead of 16"
std::string batch_text(const OomNeed& need, const OomChange& change) {
  if (change.batch_size) {
    return "Use a batch of at most " + base::format_count(*change.batch_size) + " instead of " +
           base::format_count(need.batch_size.value_or(0));
  }
  const auto percent = static_cast<std::uint64_t>(change.batch_share.value_or(0) * 100);
  return "Use at most " + std::to_string(percent) + "% of this batch";
}

std::string change_text(const OomNeed& need, const OomChange& change) {
  if (change.change == "smaller_batch") return batch_text(need, change);
  const std::string needed = ", which needs about " + bytes_text(change.needed_bytes.value_or(0));
  if (change.change == "checkpoint") {
    return "Run " + change.layers +
           " through torch.utils.checkpoint.checkpoint(…, use_reentrant=False)" + needed;
  }
  return "Keep the optimizer's state in 8 bits (AdamW8bit of bitsandbytes or torchao)" + needed;
}

// The changes that would have been enough, each as a next step.
std::vector<std::string> enough_texts(const OomDetails& oom) {
  std::vector<std::string> texts;
  for (const OomChange& change : oom.need.changes) {
    if (!change.is_enough || change.change == "contiguous_memory") continue;
    texts.push_back(change_text(oom.need, change) + ".");
  }
  return texts;
}

// Whether a smaller batch may be enough; true if that is unknown.
bool is_batch_enough(const OomNeed& need) {
  const OomChange* change = find(need, "smaller_batch");
  return change == nullptr || change->is_enough;
}

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
    return minus_or_zero(oom.requested_bytes, oom.is_limited ? 0 : free_bytes());
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
  add_pins(failure.facts, oom.pinning_lines, bytes_in_pieces(oom), oom.joinable_bytes, finding);
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
  const report::GrowthRow* const row = rows.empty() ? nullptr : rows.data();
  const Retained retained = retained_by(failure.facts, failure.device, rows);
  const std::string name = rows.empty() ? failure.top_line() : row->line;
  const std::uint64_t grown = failure.oom.grown_bytes;
  finding.steps = {step_up_to(free_advice(failure.device, name, retained, row), grown)};
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
Steps steps_of_kind(LiveBytes live) {
  std::uint64_t all = 0;
  for (const auto& [category, bytes] : live) all += bytes;
  const std::uint64_t parameters = live[model::kParameter], gradients = live[model::kGradient];
  const std::uint64_t state = live[model::kOptimizerState], model = parameters + gradients + state;
  const std::uint64_t activations = live[model::kActivation] + live[model::kActivationGradient];
  if (!is_at_least(activations + model, kKnownShare, all)) return {};
  if (activations >= model) {
    return {{"Activations are the largest part: use a smaller batch."},
            {"Run the layers through torch.utils.checkpoint.checkpoint(…, use_reentrant=False)."}};
  }
  if (state >= parameters) {
    return {{"The optimizer's state is the largest part: keep it in 8 bits (AdamW8bit of "
             "bitsandbytes or torchao)."},
            {"Shard it with parameters and gradients over your devices (FSDP, ZeRO)."}};
  }
  if (gradients > 0) {
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
  const OomNeed& need = failure.oom.need;
  const bool is_large = is_at_least(need.caller_bytes, kShareOfCaller, failure.live_bytes()) ||
                        (need.basis == "earlier_forward" && is_mostly_batch(need));
  return !need.new_caller.empty() && is_large;
}

std::string of_new_caller(const Failure& failure, Finding& finding) {
  const OomNeed& need = failure.oom.need;
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
  const OomNeed& need = oom.need;
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
  const LiveBytes live = live_bytes(facts, failure.device, oom.event);
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

// The stack of the request that failed at an event or, if that has no line, of the last allocation
// before it that does.
model::StackId stack_of_try(const Facts& facts, const model::DeviceTrace& device,
                            std::uint64_t event) {
  model::StackId stack = facts.trace.site(device, event).stack;
  const model::Lifetimes& lifetimes = device.lifetimes;
  const auto end = std::lower_bound(lifetimes.alloc.begin() + lifetimes.baseline_count,
                                    lifetimes.alloc.end(), event);
  auto row = static_cast<std::uint32_t>(end - lifetimes.alloc.begin());
  while (facts.lines.why(stack) != model::NoLine::kHasLine && row > lifetimes.baseline_count) {
    stack = facts.trace.birth(device, --row).stack;
  }
  return stack;
}

// How many calls the stacks share, from the outermost one.
std::size_t shared_calls(const model::Trace& trace, model::StackId a, model::StackId b) {
  const auto first = trace.stacks.frames(a), second = trace.stacks.frames(b);
  const auto end =
      std::mismatch(first.rbegin(), first.rend(), second.rbegin(), second.rend()).first;
  return static_cast<std::size_t>(end - first.rbegin());
}

// What a try that ran out of memory leaves behind for the next one. While an exception is handled
// or stored, it refers to the frames of its try, and so to their tensors.
struct FailedTry {
  std::uint64_t bytes = 0;
  std::size_t tensors = 0;
  std::uint64_t event = 0;  // at which the try failed; the last one of several
  std::string call;         // the line whose call failed
};

// What earlier tries made for a forward or a backward and is live when `last` fails. A tensor is of
// an earlier try if it was made inside the call that failed next and the last try is outside that
// call.
FailedTry failed_try(const Facts& facts, const DeviceFacts& device,
                     const report::OomDetails& last) {
  FailedTry found;
  const auto& ooms = device.report.oom_details;
  if (ooms.empty() || ooms.front().event >= last.event) return found;
  const model::Trace& trace = facts.trace;
  const model::StackId final_try = stack_of_try(facts, device.trace, last.event);
  std::map<std::uint64_t, model::StackId> tries;  // by event
  for (const std::uint32_t row :
       model::live_set(device.trace, model::default_liveness(device.trace),
                       static_cast<std::int64_t>(last.event))) {
    const std::uint32_t born = device.trace.lifetimes.alloc[row];
    const std::string_view category = trace.strings[trace.category(device.trace, row)];
    const bool is_of_training = category == model::kActivation ||
                                category == model::kActivationGradient ||
                                category == model::kTemporaryCategory;
    if (born == model::kNone || !is_of_training) continue;
    const auto next =
        std::ranges::upper_bound(ooms, std::uint64_t{born}, {}, &report::OomDetails::event);
    if (next == ooms.end() || next->event >= last.event) continue;
    const auto [at, is_new] = tries.try_emplace(next->event);
    if (is_new) at->second = stack_of_try(facts, device.trace, next->event);
    const auto frames = trace.stacks.frames(at->second);
    const std::size_t common = shared_calls(trace, at->second, final_try);
    if (shared_calls(trace, trace.stack(device.trace, row), at->second) <= common) continue;
    found.bytes += trace.lifetime_bytes(device.trace, row);
    ++found.tensors;
    found.event = next->event;
    // The line at which the call of the failed try leaves the calls of the last one.
    found.call = model::package_line(trace, frames[frames.size() - 1 - common]);
  }
  return found;
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
    const std::uint64_t events = failure.device.report.events - oom.event;
    say("The program went on: " + base::counted(events, "event") +
        (events == 1 ? " follows." : " follow."));
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

void out_of_memory(const Facts& facts, const DeviceFacts& device, Findings& out) {
  const auto messages = facts.trace.messages_about(device.trace.device);
  if (!messages.empty()) {
    const std::string& line = device.report.oom_details.back().line;
    out.push_back(explain_message(*messages.back(), is_named(line) ? line : std::string{},
                                  messages.size(), facts.names));
    return;
  }
  const std::vector<Failure> failures = failures_of(facts, device);
  const std::size_t reported = std::min(kMostReported, failures.size());
  for (std::size_t at = 1; at <= reported; ++at) {
    out.push_back(make_finding(failures[failures.size() - at]));
  }
  if (failures.size() > reported) {
    out.back().evidence.push_back("It also happened at " +
                                  counted(failures.size() - reported, "other place") + " before.");
  }
}

}  // namespace plimsoll::findings

#include "findings/advice/advice.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "findings/advice/advice.h"
#include "findings/text.h"
#include "model/categories.h"

namespace plimsoll::findings {
namespace {

// Fewer could come from a model with two inputs, or an operator with two outputs.
constexpr std::size_t kFewestRuns = 5;
constexpr double kShareOfEarlier = 0.1;
constexpr double kShareOfCalls = 0.5;

bool is_made_by_forward(const Allocation& each) {
  return each.is(model::kActivation) && each.phase() == model::Phase::kForward;
}

// The backward that makes the allocation, or the first one after it; null if there is none.
const evidence::Span* first_backward(const Allocation& each) {
  const evidence::Spans& spans = each.known->evidence.spans();
  const std::size_t number = each.phase() == model::Phase::kBackward ? spans.backward_at(each.born)
                                                                     : spans.round(each.born);
  return number < spans.backwards().size() ? &spans.backwards()[number] : nullptr;
}

// At most the fall of the peak if each backward frees its graph and what it makes.
std::uint64_t saving_of_first_order(const Peak& peak) {
  std::vector<whatif::Freed> freed;
  peak.for_each([&](const Allocation& each) {
    const bool is_of_graph = is_made_by_forward(each) || each.is(model::kActivationGradient);
    const evidence::Span* const backward = is_of_graph ? first_backward(each) : nullptr;
    if (backward != nullptr) freed.push_back({each.lifetime, backward->end});
  });
  return worthwhile(peak, peak.replay().freed_early(freed));
}

// What backwards that have ended have left behind.
struct Left {
  std::uint64_t activations = 0;  // of graphs that were to be used again
  // Gradients of activations that belong to a graph: a later backward frees them, or activations
  // of several operators are left as well. Others are kept by the program, or memory of a library.
  std::uint64_t gradients = 0;
  std::string call;  // the line that calls the backward; empty if unknown
};

// The line that calls a backward: it makes the first gradient.
std::string call_of(const Peak& peak, const evidence::Span& backward) {
  const model::DeviceTrace& device = peak.device().trace;
  const std::uint32_t begin = backward.begin;
  if (begin == 0 || device.events.action[begin - 1] != model::Action::kAlloc) return {};
  const model::StackId stack = peak.trace().site(device, begin - 1).stack;
  const bool is_call = peak.evidence().stacks().has(stack, evidence::StackFlag::kAutogradCall);
  return is_call ? peak.facts().lines.label(stack) : std::string();
}

Left left_by_backwards(const Peak& peak, const Explanation& explanation) {
  const evidence::Evidence& evidence = peak.evidence();
  Left left;
  std::set<std::pair<std::uint32_t, std::uint32_t>> calls;  // layer, operator
  const Parts parts = those_of(explanation.parts, [&](const Allocation& each) {
    const evidence::Span* const backward = first_backward(each);
    return backward != nullptr && backward->end <= peak.event();
  });
  for (const Allocation& each : parts) {
    if (!is_made_by_forward(each)) continue;
    calls.insert({each.site().layer.value, each.site().op.value});
    if (evidence.is_left_by_backward(each.lifetime)) left.activations += each.size_bytes;
  }
  for (const Allocation& each : parts) {
    if (!each.is(model::kActivationGradient)) continue;
    if (calls.size() < 2 && !evidence.is_freed_by_backward(each.lifetime)) continue;
    left.gradients += each.size_bytes;
    left.call = call_of(peak, *first_backward(each));
  }
  return left;
}

// The forward passes that a line of the program starts.
struct Calls {
  std::string line;
  std::uint64_t bytes = 0;        // all that the line leads to
  std::uint64_t forward = 0;      // made in forwards
  std::uint64_t freed = 0;        // the part of it that a backward frees
  std::set<evidence::Pass> runs;  // whose tensors are live
};

// Of the line outside all forwards that leads to the most bytes.
Calls calls_of_most(const Explanation& explanation) {
  std::map<std::string, Calls> lines;
  for (const Allocation& each : explanation.parts) {
    if (!each.has_line()) continue;
    Calls& calls = lines[each.caller()];
    calls.bytes += each.size_bytes;
    if (!is_made_by_forward(each) || each.site().layer == model::StringId{}) continue;
    const evidence::Evidence& evidence = each.known->evidence;
    calls.forward += each.size_bytes;
    if (evidence.is_freed_by_backward(each.lifetime)) calls.freed += each.size_bytes;
    calls.runs.insert(evidence.pass_of(each.lifetime));
  }
  Calls most;
  for (auto& [line, calls] : lines) {
    if (calls.bytes <= most.bytes) continue;
    most = std::move(calls);
    most.line = line;
  }
  return most;
}

// The fall of the peak if the graph of each forward pass that the line starts is freed before the
// next pass.
std::uint64_t saving_of_rounds(const Peak& peak, const std::string& line) {
  std::unordered_map<std::uint32_t, bool> is_of_line;  // by stack
  std::vector<Allocation> made;
  std::vector<std::uint32_t> begins;
  evidence::Pass last;
  peak.for_each([&](const Allocation& each) {
    if (!is_made_by_forward(each)) return;
    const auto [of_stack, is_new] = is_of_line.try_emplace(each.stack.value);
    if (is_new) of_stack->second = each.caller() == line;
    if (!of_stack->second) return;
    made.push_back(each);
    const evidence::Pass pass = peak.evidence().pass_of(each.lifetime);
    if (pass.number == 0 || pass == last) return;  // the loss of a pass may be outside all layers
    begins.push_back(each.born);
    last = pass;
  });
  std::vector<whatif::Freed> freed;
  for (const Allocation& each : made) {
    const auto next = std::ranges::upper_bound(begins, each.born);
    if (next != begins.end()) freed.push_back({each.lifetime, *next});
  }
  return peak.replay().freed_early(freed);
}

}  // namespace

Steps steps_for_calls(const Peak& peak, Explanation& explanation) {
  if (peak.is_inferred()) return {};
  auto& evidence = explanation.finding.evidence;
  const Calls calls = calls_of_most(explanation);
  const Left left = left_by_backwards(peak, explanation);
  const bool is_repeated = calls.runs.size() >= kFewestRuns &&
                           is_at_least(calls.bytes, kShareOfCalls, explanation.bytes);
  if (is_repeated) {
    evidence.push_back(bytes_text(calls.bytes) + " of it are created by repeated calls at " +
                       calls.line + ": tensors of " + std::to_string(calls.runs.size()) +
                       " forward passes are live.");
  }
  if (is_at_least(left.gradients, kShareOfEarlier, explanation.bytes)) {
    explanation.kind = Kind::kCause;
    const std::string at = left.call.empty() ? "" : " at " + left.call;
    evidence.push_back(bytes_text(left.gradients) +
                       " of it are tensors of a backward that has ended: create_graph=True" + at +
                       " keeps them, and the graph behind them, for another backward.");
    // A single call may need the second derivative, as that of a differential equation.
    Steps steps = {step_up_to("Pass create_graph=True" + at +
                                  " only if you differentiate through the gradient. Without it, "
                                  "each backward frees its graph.",
                              is_repeated ? saving_of_first_order(peak) : 0)};
    if (is_repeated) {
      steps.push_back({"Make fewer of the calls at " + calls.line +
                       " before the backward that needs them: each adds its graph."});
    }
    return steps;
  }
  if (is_repeated && is_at_least(left.activations, kShareOfCalls, explanation.bytes)) {
    explanation.kind = Kind::kCause;
    evidence.push_back(bytes_text(left.activations) +
                       " of it belong to calls whose backward has ended: the graph of a later call "
                       "leads to theirs, and retain_graph=True keeps them.");
    return {{"Detach what a call at " + calls.line +
                 " gets from the previous one (a hidden state: h = h.detach()), and call "
                 "backward() without retain_graph=True: each backward then frees its graph.",
             saving_of_first_order(peak)}};
  }
  // If no backward needs the results, they are retained for another reason.
  if (!is_repeated || !is_at_least(calls.freed, kShareOfCalls, calls.forward)) return {};
  return {step_up_to("If the calls at " + calls.line +
                         " are independent, call backward() after each: gradients add up, and one "
                         "graph is live at a time.",
                     saving_of_rounds(peak, calls.line)),
          {"If each call needs the previous one, detach between some of them."}};
}

}  // namespace plimsoll::findings

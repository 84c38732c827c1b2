#include "findings/advice/calls.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "findings/advice/line_advice.h"
#include "findings/peak/graph.h"
#include "findings/text.h"
#include "model/categories.h"
#include "model/function_name.h"
#include "model/user_line.h"

namespace plimsoll::findings {
namespace {

constexpr double kShareOfCaller = 0.5;
// Fewer could come from a model with two inputs, or an operator with two outputs.
constexpr std::size_t kFewestRuns = 5;
constexpr double kShareOfEarlier = 0.1;
// If no backward needs the results, they are retained for another reason.
constexpr double kShareOfFreed = 0.5;

// For each stack, the line outside all forwards that leads to its allocations, or the stack's own
// line if it is not in a forward. Cached by stack, because many allocations share one.
class Callers {
 public:
  explicit Callers(const Peak& peak) : peak_(peak) {}

  const std::string& of(const PeakAllocation& allocation) {
    const auto [found, is_new] = by_stack_.try_emplace(allocation.stack.value);
    if (is_new) {
      found->second = peak_.facts().lines.caller(allocation.stack);
      if (found->second.empty()) found->second = peak_.line_label(allocation);
    }
    return found->second;
  }

 private:
  const Peak& peak_;
  std::unordered_map<std::uint32_t, std::string> by_stack_;
};

struct CallerRuns {
  std::size_t most = 0;     // forward passes that keep tensors of one operator in one layer
  std::uint64_t bytes = 0;  // allocated in forward
  std::uint64_t freed = 0;  // the part freed by a backward
};

CallerRuns runs_of(const Peak& peak, const Explanation& explanation, Callers& callers,
                   const std::string& caller) {
  CallerRuns runs;
  // By stack, layer and operator. An operator may make several tensors in one pass, and a layer may
  // run an operator several times.
  std::map<std::array<std::uint32_t, 3>, std::set<std::size_t>> calls;
  for (const std::uint32_t part : explanation.parts) {
    const PeakAllocation& allocation = peak.live()[part];
    if (peak.phase(allocation) != model::Phase::kForward) continue;
    if (peak.category(allocation) != model::kActivation) continue;
    const model::Site& site = peak.site(allocation);
    if (site.layer == model::StringId{}) continue;
    if (callers.of(allocation) != caller) continue;
    auto& of_call = calls[{allocation.stack.value, site.layer.value, site.op.value}];
    of_call.insert(peak.evidence().pass(allocation.lifetime));
    runs.most = std::max(runs.most, of_call.size());
    runs.bytes += allocation.size_bytes;
    if (peak.evidence().is_freed_by_backward(allocation.lifetime))
      runs.freed += allocation.size_bytes;
  }
  return runs;
}

// The fall of the peak if the graph of each forward pass that the caller starts is freed before the
// next pass.
std::uint64_t saving_of_rounds(const Peak& peak, Callers& callers, const std::string& caller) {
  const auto is_of_round = [&](const PeakAllocation& allocation) {
    return is_forward_activation(peak, allocation) && callers.of(allocation) == caller;
  };
  std::unordered_map<std::size_t, std::uint32_t> begins;  // first birth, by pass
  peak.for_each([&](const PeakAllocation& allocation) {
    if (is_of_round(allocation))
      begins.try_emplace(peak.evidence().pass(allocation.lifetime), allocation.born);
  });
  return peak.saving([&](const PeakAllocation& allocation) {
    if (!is_of_round(allocation)) return allocation.died;
    const auto next = begins.find(peak.evidence().pass(allocation.lifetime) + 1);
    return next == begins.end() ? allocation.died : std::min(next->second, allocation.died);
  });
}

// Whether backwards that have ended left their graphs behind: activations of several operators that
// were live when such a backward began are still live at the peak.
bool has_graphs_of_ended(const Peak& peak, const Explanation& explanation) {
  const auto& begins = peak.backward_begins();
  const auto& ends = peak.backward_ends();
  std::set<std::pair<std::uint32_t, std::uint32_t>> calls;  // layer, operator
  std::uint64_t bytes = 0;
  for (const std::uint32_t part : explanation.parts) {
    const PeakAllocation& allocation = peak.live()[part];
    if (!is_forward_activation(peak, allocation)) continue;
    const auto begin = std::ranges::upper_bound(begins, allocation.born);
    if (begin == begins.end()) continue;
    const auto end = std::ranges::lower_bound(ends, *begin);
    if (end == ends.end() || *end > peak.event()) continue;
    calls.insert({peak.site(allocation).layer.value, peak.site(allocation).op.value});
    bytes += allocation.size_bytes;
  }
  return calls.size() > 1 && is_at_least(bytes, kShareOfEarlier, explanation.bytes);
}

// Bytes allocated by a backward that has ended, other than gradients of parameters, if they belong
// to its graph (create_graph=True): a later backward frees them, or the activations of that
// backward are live as well. Otherwise they are a gradient that the program keeps, or memory of a
// library.
struct LeftByBackward {
  std::uint64_t bytes = 0;
  std::string call;  // the line that calls the backward which leaves most; empty if unknown
};

// The line that calls the backward which begins before this event: it makes the first gradient.
std::string call_of_backward(const Peak& peak, std::uint32_t begin) {
  const model::DeviceTrace& device = peak.device().trace;
  if (begin == 0 || device.events.action[begin - 1] != model::Action::kAlloc) return {};
  const model::StackId stack = peak.trace().site(device, begin - 1).stack;
  const bool is_call = peak.stacks().has(stack, evidence::StackFlag::kAutogradCall);
  return is_call ? peak.facts().lines.label(stack) : std::string();
}

LeftByBackward left_by_backward(const Peak& peak, const Explanation& explanation) {
  const auto& ends = peak.backward_ends();
  const bool has_graphs = has_graphs_of_ended(peak, explanation);
  LeftByBackward left;
  std::map<std::string, std::uint64_t> calls;
  for (const std::uint32_t part : explanation.parts) {
    const PeakAllocation& allocation = peak.live()[part];
    if (peak.category(allocation) != model::kActivationGradient) continue;
    const auto end = std::ranges::upper_bound(ends, allocation.born);
    const bool has_ended = end != ends.end() && *end <= peak.event();
    const bool is_of_graph =
        has_graphs || peak.evidence().is_freed_by_backward(allocation.lifetime);
    if (!has_ended || !is_of_graph) continue;
    left.bytes += allocation.size_bytes;
    const auto next = std::ranges::upper_bound(peak.backward_begins(), allocation.born);
    if (next == peak.backward_begins().begin()) continue;
    calls[call_of_backward(peak, *std::prev(next))] += allocation.size_bytes;
  }
  const auto most =
      std::ranges::max_element(calls, {}, [](const auto& call) { return call.second; });
  if (most != calls.end()) left.call = most->first;
  return left;
}

// At most the fall of the peak if each backward frees its graph, as without create_graph: what a
// forward keeps is then freed by the next backward, and what a backward leaves is used only until
// the one after it.
std::uint64_t saving_of_first_order(const Peak& peak) {
  return peak.saving([&](const PeakAllocation& allocation) {
    const bool is_of_graph = is_forward_activation(peak, allocation) ||
                             peak.category(allocation) == model::kActivationGradient;
    const auto begin = std::ranges::lower_bound(peak.backward_begins(), allocation.born);
    if (!is_of_graph || begin == peak.backward_begins().end()) return allocation.died;
    if (!peak.evidence().is_freed_by_backward(allocation.lifetime)) return allocation.died;
    const auto end = std::ranges::upper_bound(peak.backward_ends(), *begin);
    return end == peak.backward_ends().end() ? allocation.died : std::min(*end, allocation.died);
  });
}

// The activations of graphs that a backward has run through without freeing them, as with
// retain_graph=True, and the fall of the peak if that backward freed them.
struct RetainedGraphs {
  std::uint64_t bytes = 0;
  std::uint64_t saving_bytes = 0;
};

// `rounds`: the forward passes that are live. A pass whose results alone are kept has fewer tensors
// than a graph.
RetainedGraphs retained_graphs(const Peak& peak, const Explanation& explanation,
                               std::size_t rounds) {
  constexpr std::size_t kFewestOfGraph = 4;
  const auto& begins = peak.backward_begins();
  const auto& ends = peak.backward_ends();
  const auto end_of_use = [&](const PeakAllocation& allocation) {
    const bool is_used_later = peak.evidence().is_freed_by_backward(allocation.lifetime);
    if (!is_forward_activation(peak, allocation) || is_used_later) return allocation.died;
    const auto begin = std::ranges::upper_bound(begins, allocation.born);
    if (begin == begins.end()) return allocation.died;
    const auto end = std::ranges::lower_bound(ends, *begin);
    return end == ends.end() ? allocation.died : std::min(*end, allocation.died);
  };
  RetainedGraphs retained;
  std::size_t tensors = 0;
  for (const std::uint32_t part : explanation.parts) {
    const PeakAllocation& allocation = peak.live()[part];
    if (end_of_use(allocation) > peak.event()) continue;
    ++tensors;
    retained.bytes += allocation.size_bytes;
  }
  // The backward of the last one may still run.
  if (tensors < kFewestOfGraph * (rounds - 1)) return {};
  retained.saving_bytes = peak.saving(end_of_use);
  return retained;
}

// A function of the program: file and name.
using Function = std::pair<std::uint32_t, std::uint32_t>;

Function function_in(const model::Frame& frame) { return {frame.file.value, frame.function.value}; }

// Adds the functions of the program that are outside all forwards in the allocation's stack.
void add_callers(const Peak& peak, const PeakAllocation& allocation, std::set<Function>& callers) {
  const model::Trace& trace = peak.trace();
  std::vector<Function> outside;  // of the forwards seen so far, innermost first
  for (const model::FrameId id : trace.stacks.frames(allocation.stack)) {
    const model::Frame& frame = trace.stacks.frame(id);
    if (model::origin_of(trace.strings[frame.file]) != model::FrameOrigin::kUser) continue;
    if (model::is_forward(trace.strings[frame.function])) {
      outside.clear();
    } else {
      outside.push_back(function_in(frame));
    }
  }
  callers.insert(outside.begin(), outside.end());
}

// Whether the allocation's line has called the forward of a module.
bool calls_forward(const Peak& peak, const PeakAllocation& allocation) {
  const model::Trace& trace = peak.trace();
  const model::FrameId line = peak.facts().lines.frame(allocation.stack);
  for (const model::FrameId id : trace.stacks.frames(allocation.stack)) {
    if (id == line) return false;
    if (model::is_forward(trace.strings[trace.stacks.frame(id).function])) return true;
  }
  return false;
}

}  // namespace

bool is_of_autograd_function(const Peak& peak, const PeakAllocation& allocation) {
  return peak.stacks().has(allocation.stack, evidence::StackFlag::kAutogradFunction);
}

FunctionOfMost function_of_most(const Peak& peak, const Explanation& explanation) {
  const model::Trace& trace = peak.trace();
  std::map<Function, std::uint64_t> functions;
  std::set<Function> of_autograd;
  std::set<Function> callers;
  for (const std::uint32_t part : explanation.parts) {
    const PeakAllocation& allocation = peak.live()[part];
    if (allocation.born == model::kNone || !peak.has_line(allocation)) continue;
    // A snapshot records no layers, but its stacks show which forwards a line calls.
    const bool is_in_layer = peak.is_inferred()
                                 ? calls_forward(peak, allocation)
                                 : !trace.strings[peak.site(allocation).layer].empty();
    if (is_in_layer) add_callers(peak, allocation, callers);
    const model::Frame& frame = trace.stacks.frame(peak.facts().lines.frame(allocation.stack));
    functions[function_in(frame)] += allocation.size_bytes;
    if (is_of_autograd_function(peak, allocation)) of_autograd.insert(function_in(frame));
  }
  const auto most =
      std::ranges::max_element(functions, {}, [](const auto& each) { return each.second; });
  if (most == functions.end() || callers.contains(most->first)) return {};
  const std::string_view name = trace.strings[model::StringId{most->first.second}];
  const bool is_of_autograd = of_autograd.contains(most->first);
  if (model::is_forward(name) && !is_of_autograd) return {};
  if (model::is_comprehension(name) || name == "<module>") return {};
  return {std::string(name), most->second, is_of_autograd};
}

void add_calls(const Peak& peak, Explanation& explanation) {
  if (peak.is_inferred()) return;
  report::Finding& finding = explanation.finding;
  Callers callers(peak);
  std::map<std::string, std::uint64_t> bytes;
  for (const std::uint32_t part : explanation.parts) {
    const PeakAllocation& allocation = peak.live()[part];
    if (peak.has_line(allocation)) bytes[callers.of(allocation)] += allocation.size_bytes;
  }
  const auto most =
      std::ranges::max_element(bytes, {}, [](const auto& caller) { return caller.second; });
  if (most == bytes.end()) return;
  const CallerRuns runs = runs_of(peak, explanation, callers, most->first);
  const bool is_repeated =
      runs.most >= kFewestRuns && is_at_least(most->second, kShareOfCaller, explanation.bytes);
  if (is_repeated) {
    finding.evidence.push_back(
        bytes_text(most->second) + " of it are created by repeated calls at " + most->first +
        ": tensors of " + std::to_string(runs.most) + " forward passes are live.");
  }
  const LeftByBackward left = left_by_backward(peak, explanation);
  const bool is_left = is_at_least(left.bytes, kShareOfEarlier, explanation.bytes);
  if (is_repeated && !is_left && is_at_least(runs.freed, kShareOfFreed, runs.bytes)) {
    finding.steps.insert(
        finding.steps.begin(),
        {step_up_to("If the calls at " + most->first +
                        " are independent, call backward() after each: gradients add up, and one "
                        "graph is live at a time.",
                    saving_of_rounds(peak, callers, most->first)),
         {"If each call needs the previous one, detach between some of them."}});
  }
  const RetainedGraphs retained =
      is_repeated && !is_left ? retained_graphs(peak, explanation, runs.most) : RetainedGraphs{};
  if (retained.bytes > 0 && is_at_least(retained.bytes, kShareOfFreed, explanation.bytes)) {
    explanation.kind = Kind::kCause;
    finding.evidence.push_back(bytes_text(retained.bytes) +
                               " of it belong to calls whose backward has ended: the graph of a "
                               "later call leads to theirs, and retain_graph=True keeps them.");
    finding.steps = {{"Detach what a call at " + most->first +
                          " gets from the previous one (a hidden state: h = h.detach()), and call "
                          "backward() without retain_graph=True: each backward then frees its "
                          "graph.",
                      retained.saving_bytes}};
  }
  if (!is_left) return;
  explanation.kind = Kind::kCause;
  const std::string at = left.call.empty() ? "" : " at " + left.call;
  finding.evidence.push_back(bytes_text(left.bytes) +
                             " of it are tensors of a backward that has ended: create_graph=True" +
                             at + " keeps them, and the graph behind them, for another backward.");
  Steps steps = {
      step_up_to("Pass create_graph=True" + at + " only if you differentiate through the gradient" +
                     (is_repeated ? ". Without it (first order), each call frees its graph." : "."),
                 is_repeated ? worthwhile(peak, saving_of_first_order(peak)) : 0)};
  if (is_repeated) {
    steps.push_back({"Make fewer of the calls at " + most->first +
                     " before the backward that needs them: each adds its graph."});
  }
  finding.steps.insert(finding.steps.begin(), steps.begin(), steps.end());
}

}  // namespace plimsoll::findings

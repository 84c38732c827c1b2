#include "findings/advice/checkpoints.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <string_view>

#include "base/units.h"
#include "findings/advice/advice.h"
#include "findings/text.h"
#include "model/categories.h"
#include "model/function_name.h"
#include "report/folded_layers.h"

namespace plimsoll::findings {
namespace {

// A package, or a function that is not a forward, is worth its own advice if it makes this share.
constexpr double kShareOfMaker = 0.5;

constexpr std::string_view kThrough =
    " through torch.utils.checkpoint.checkpoint(…, use_reentrant=False)";

// A function of the program: file and name.
using Function = std::pair<model::StringId, model::StringId>;

struct MadeBy {
  std::map<Function, std::uint64_t> bytes;
  std::set<Function> calling_forwards;
  std::set<Function> of_autograd;  // the forwards of torch.autograd.Functions
};

MadeBy made_by_functions(const Peak& peak, const Parts& parts) {
  std::map<model::StackId, Explanation> stacks;
  for (const Allocation& each : parts) {
    if (each.has_line()) stacks[each.stack].add(each);
  }
  MadeBy made;
  const model::Trace& trace = peak.trace();
  for (const auto& [stack, of_stack] : stacks) {
    const model::FrameId line = peak.facts().lines.frame(stack);
    const Allocation& first = of_stack.parts.front();
    bool is_in_forward = false;
    for (const model::FrameId id : trace.stacks.frames(stack)) {
      const model::Frame& frame = trace.stacks.frame(id);
      const Function function(frame.file, frame.function);
      if (is_in_forward) made.calling_forwards.insert(function);
      if (id == line) made.bytes[function] += of_stack.bytes;
      if (id == line && first.has(evidence::StackFlag::kAutogradFunction)) {
        made.of_autograd.insert(function);
      }
      is_in_forward = is_in_forward || model::is_forward(trace.strings[frame.function]);
    }
  }
  return made;
}

// For a function that makes most of it and calls no layer, so that it can run under a checkpoint.
// `has_other`: other checkpoints are worthwhile.
Steps steps_for_function(Peak& peak, Explanation& explanation, bool has_other) {
  const MadeBy made = made_by_functions(peak, explanation.parts);
  const auto [function, bytes] = largest(made.bytes);
  if (bytes == 0 || made.calling_forwards.contains(function)) return {};
  const std::string name(peak.trace().strings[function.second]);
  const bool is_of_autograd = made.of_autograd.contains(function);
  if (!is_at_least(bytes, kShareOfMaker, explanation.bytes) || name == "<module>") return {};
  if (model::is_comprehension(name) || (model::is_forward(name) && !is_of_autograd)) return {};
  explanation.finding.evidence.push_back(
      bytes_text(bytes) + " of it are made by " + name +
      (is_of_autograd ? " of a torch.autograd.Function." : ", which calls no layer."));
  if (is_of_autograd) {
    return {{"Pass fewer tensors to ctx.save_for_backward in " + name +
             ", and compute the others again in backward."}};
  }
  Runs runs(peak);
  peak.for_each([&, &makes = function](const Allocation& each) {
    if (!each.has_line() || !each.is(model::kActivation)) return;
    const model::Frame& frame = peak.trace().stacks.frame(peak.facts().lines.frame(each.stack));
    const bool is_theirs = frame.file == makes.first && frame.function == makes.second;
    if (is_theirs) runs.add(peak.layer(each).value, each);
  });
  const std::uint64_t saving = worthwhile(peak, runs.saving());
  if (saving == 0 && has_other) return {};
  return {step_up_to("Run " + (saving > 0 ? name : "parts of " + name + ", such as a round,") +
                         std::string(kThrough) +
                         ": what it makes is then recomputed in backward instead of being kept.",
                     saving)};
}

}  // namespace

Runs::Runs(const Peak& peak)
    : Runs(peak, peak.backward_begins(), ends_in_forward(peak) ? peak.event() : model::kNone) {}

void Runs::add(std::uint32_t number, const Allocation& activation) {
  const auto next = std::ranges::upper_bound(begins_, activation.born);
  const bool waits = next == begins_.end();
  if (waits ? activation.died <= waits_after_ : activation.died < *next) return;
  const Key key(number, waits ? model::kNone : *next);
  whatif::Run& run = runs_[key];
  run.rows.push_back(activation.lifetime);
  run.done = activation.born;
  if (waits) {
    waiting_bytes_[key] += activation.size_bytes;
  } else {
    run.again = std::min(run.again, activation.died);
  }
}

std::uint64_t Runs::saving() const {
  auto largest = waiting_bytes_.begin();  // of equal ones the last, which is first in backward
  for (auto each = largest; each != waiting_bytes_.end(); ++each) {
    if (each->second >= largest->second) largest = each;
  }
  std::vector<whatif::Run> runs;
  for (const auto& [key, run] : runs_) {
    if (waiting_bytes_.empty() || key != largest->first) runs.push_back(run);
  }
  return peak_.replay().recomputed(runs);
}

std::string sizes_text(const std::vector<std::uint64_t>& bytes) {
  const std::uint64_t sum = std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
  const auto [least, most] = std::ranges::minmax(bytes);
  return bytes_text(sum) + " of it" +
         (report::is_of_equal_size(least, most)
              ? ": " + base::format_count(bytes.size()) + " × " + bytes_text(sum / bytes.size())
              : "; the largest " + bytes_text(most));
}

std::string_view advice_of_package(const Parts& parts, evidence::Remedy remedy) {
  std::map<std::string_view, std::uint64_t> advice;
  for (const Allocation& each : parts) {
    const std::string_view known = each.known->evidence.stacks().advice(each.stack, remedy);
    if (!known.empty()) advice[known] += each.size_bytes;
  }
  const auto [text, bytes] = largest(advice);
  return is_at_least(bytes, kShareOfMaker, bytes_of(parts)) ? text : std::string_view();
}

bool ends_in_forward(const Peak& peak) {
  const auto& begins = peak.backward_begins();
  return !peak.device().report.oom_details.empty() && !begins.empty() &&
         begins.back() <= peak.event() && peak.point().phase == "forward";
}

Steps steps_for_checkpoints(Peak& peak, Explanation& explanation) {
  report::Finding& finding = explanation.finding;
  const auto checkpoint = peak.is_inferred() ? forward_to_checkpoint(peak, explanation, finding)
                                             : layers_to_checkpoint(peak, explanation, finding);
  Steps steps;
  if (checkpoint && worthwhile(peak, checkpoint->saving_bytes) > 0) {
    const std::string_view call =
        advice_of_package(checkpoint->parts, evidence::Remedy::kCheckpoint);
    steps.push_back(step_up_to(
        (checkpoint->is_turned_off
             ? "Call train() on " + checkpoint->what +
                   ": their gradient_checkpointing is True, but does nothing in eval mode"
         : call.empty() ? "Run " + checkpoint->what + std::string(kThrough)
                        : std::string(call)) +
            ". Backward then recomputes the activations inside these layers, one layer at a time, "
            "instead of keeping them. This costs one more forward of these layers.",
        checkpoint->saving_bytes));
  }
  const std::string path = peak.is_inferred() ? path_text(explanation.parts) : std::string();
  if (!path.empty()) {
    finding.evidence.push_back("The calls that lead to most of it: " + path + ".");
    if (!checkpoint) {
      steps.push_back({"Run the modules that these calls reach" + std::string(kThrough) +
                       ", which recomputes them in backward."});
    }
  }
  Steps of_function = steps_for_function(peak, explanation, !steps.empty());
  std::ranges::move(of_function, std::back_inserter(steps));
  return steps;
}

}  // namespace plimsoll::findings

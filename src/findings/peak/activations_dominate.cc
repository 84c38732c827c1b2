// activations_dominate: most of the peak is saved for backward, and a few layers hold much of it.
#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "findings/advice/advice.h"
#include "findings/advice/checkpoints.h"
#include "findings/peak/peak.h"
#include "findings/rules.h"
#include "findings/text.h"
#include "model/categories.h"

namespace plimsoll::findings {
namespace {

// States what was saved when backward began, if the recording shows it.
void add_kept(const Facts& facts, const DeviceFacts& device, report::Finding& finding) {
  const auto& kept = facts.report.tables.saved;
  const auto row = std::ranges::find(kept, device.report.device, &report::SavedRow::device);
  if (row == kept.end() || row->bytes == 0) return;
  std::vector<report::GroupRow> makers;
  for (const report::GroupRow& maker : facts.report.tables.saved_by_operator) {
    if (maker.device == device.report.device) makers.push_back(maker);
  }
  finding.evidence.push_back("When backward began" +
                             (row->step ? " in step " + std::to_string(*row->step) : "") + ", " +
                             bytes_text(row->bytes) + " of the " + bytes_text(row->live_bytes) +
                             " live had been created in forward" +
                             (makers.empty() ? "" : "; most by " + holders_text(makers)) + ".");
}

// ", of which a.py:1 (f) creates 2.0 GiB": the line of a package that allocates most of what a line
// of the program creates.
std::string package_text(const Peak& peak, const Parts& parts, const std::string& line) {
  const model::InnerLines& inner = peak.facts().inner_lines();
  std::map<std::string, std::uint64_t> lines;
  for (const Allocation& each : parts) {
    const model::InnerLine& row = inner.rows()[inner.of(each.stack)];
    if (row.is_in_package && each.label() == line) lines[row.name] += each.size_bytes;
  }
  const auto [name, bytes] = largest(lines);
  return bytes == 0 ? "" : ", of which " + name + " creates " + bytes_text(bytes);
}

constexpr double kShareOfDtype = 0.5;

// The steps if nothing else helps.
Steps smaller_batch(const Explanation& explanation) {
  const Parts& parts = explanation.parts;
  if (auto chunks = chunk_size_step(largest_of(parts))) return {*std::move(chunks)};
  // In half precision, the program already computes in it.
  const bool has_half = std::ranges::any_of(parts, [](const Allocation& each) {
    return each.dtype() == "bfloat16" || each.dtype() == "float16";
  });
  const Parts single =
      those_of(parts, [](const Allocation& each) { return each.dtype() == "float32"; });
  Steps steps = {{"Use a smaller batch."}};
  if (!has_half && is_at_least(bytes_of(single), kShareOfDtype, explanation.bytes)) {
    steps.insert(steps.begin(), {"Compute in bfloat16 (torch.autocast)."});
  }
  return steps;
}

// The step if most of them have twice the usual size.
Steps steps_for_doubles(const Explanation& explanation) {
  const std::uint64_t doubles = bytes_of(those_of(
      explanation.parts, [](const Allocation& each) { return each.dtype() == "float64"; }));
  if (!is_at_least(doubles, kShareOfDtype, explanation.bytes)) return {};
  return {
      step_up_to("Compute in float32, if float64 is not on purpose: tensors made from NumPy's "
                 "arrays and Python's floats may have it.",
                 doubles / 2)};
}

// One forward may call a module twice.
constexpr std::size_t kFewestOfPlace = 3;

// For parts that were made while autograd was off, at places that have several live tensors: the
// program collects them, since no graph does. Returns whether most of the activations are such
// parts, which need other advice.
bool add_collected(const Peak& peak, Explanation& explanation) {
  using Place = std::array<std::uint32_t, 3>;  // layer, operator, line
  std::map<Place, Explanation> places;
  for (const Allocation& each : explanation.parts) {
    const model::Site& site = each.site();
    if (site.autograd != model::Autograd::kOff) continue;
    places[{site.layer.value, site.op.value, each.line().value}].add(each);
  }
  Explanation collected;
  for (const auto& [place, made] : places) {
    if (made.parts.size() < kFewestOfPlace) continue;
    for (const Allocation& each : made.parts) collected.add(each);
  }
  if (!is_at_least(collected.bytes, kShareOfActivations, explanation.bytes)) return false;
  const std::string line = line_of_most(collected.parts).first;
  explanation.finding.evidence.push_back(
      bytes_text(collected.bytes) + " of it, in " + counted(collected.parts.size(), "tensor") +
      ", were made while autograd was off: the program keeps them, not a graph.");
  if (advise_appended(peak, collected.parts, explanation.finding)) return true;
  explanation.finding.steps = {
      {"Free what " + (is_named(line) ? line + " has made in" : std::string("is left of")) +
       " earlier calls: usually a list, dict or attribute collects it, maybe in a hook. Store only "
       "the part that you need; if that is a view or a slice, its .clone(): a view retains the "
       "whole tensor."}};
  return true;
}

// Whether an explanation of less memory, which is more specific, states the step.
bool is_stated(const Explanations& others, const report::FindingStep& step) {
  return std::ranges::any_of(others, [&](const Explanation& each) {
    return std::ranges::find(each.finding.steps, step.text, &report::FindingStep::text) !=
           each.finding.steps.end();
  });
}

// The changes that lower the peak and that `others` do not state, by what they save.
void advise(Peak& peak, const Explanations& others, Explanation& explanation) {
  report::Finding& finding = explanation.finding;
  Steps& steps = finding.steps;
  const auto add = [&](Steps more) { std::ranges::move(more, std::back_inserter(steps)); };
  const auto is_known = [&](const report::FindingStep& step) { return is_stated(others, step); };
  const std::size_t evidence = finding.evidence.size();
  add(steps_for_logits(peak, explanation.parts, finding));
  std::erase_if(steps, is_known);
  if (steps.empty()) finding.evidence.resize(evidence);
  add(substitutes(peak));
  add(steps_for_doubles(explanation));
  if (!peak.may_train()) {
    finding.evidence.emplace_back("No backward ran: a forward needs them only while it runs.");
  } else {
    add_kept(peak.facts(), peak.device(), finding);
    add(steps_for_checkpoints(peak, explanation));
  }
  Steps calls = steps_for_calls(peak, explanation);
  if (explanation.kind != Kind::kCause) add(std::exchange(calls, {}));
  order_by_saving(steps);
  std::ranges::move(calls, std::inserter(steps, steps.begin()));
  std::erase_if(steps, is_known);
}

}  // namespace

void explain_activations(Peak& peak, Explanations& out) {
  Explanation activations(
      peak.live_if([](const Allocation& each) { return each.is(model::kActivation); }));
  Explanation both(peak.live_if([](const Allocation& each) {
    return each.is(model::kActivation, model::kActivationGradient);
  }));
  // An operator of the forward needs temporaries while it runs.
  Explanation working(peak.live_if([&](const Allocation& each) {
    const bool is_of_forward = !peak.is_inferred() && each.phase() == model::Phase::kForward &&
                               peak.point().phase == "forward";
    return each.is(model::kActivation) || (is_of_forward && each.is(model::kTemporaryCategory));
  }));
  // During backward, gradients have replaced some activations.
  const bool is_alone = is_at_least(activations.bytes, kShareOfActivations, peak.bytes());
  const bool is_working = !is_alone && working.bytes > both.bytes;
  Explanation& explanation = is_alone ? activations : is_working ? working : both;
  const std::uint64_t others = explanation.bytes - activations.bytes;
  // A forward without a graph needs its activations. They are of note once they are large.
  const std::uint64_t least = peak.may_train() ? kLeastPeakBytes : kLeastHabitBytes;
  if (!peak.is_much(explanation.bytes, kShareOfActivations, least)) return;
  report::Finding& finding = explanation.finding;
  finding.id = "activations_dominate";
  finding.title = (is_working   ? "Activations and temporaries of forward are "
                   : others > 0 ? "Activations and their gradients are "
                                : "Activations are ") +
                  amount_text(peak, explanation.bytes);
  if (others > 0) {
    finding.evidence.push_back(bytes_text(others) + " of it are " +
                               (is_working ? "temporaries, which one operator needs."
                                           : "gradients of activations, which backward creates."));
  }
  const auto [line, of_line] = line_of_most(explanation.parts);
  if (is_named(line)) {
    finding.evidence.push_back("Most of it is created at " + line + ": " + bytes_text(of_line) +
                               package_text(peak, explanation.parts, line) + ".");
  }
  if (!add_collected(peak, explanation)) advise(peak, out, explanation);
  if (finding.steps.empty()) finding.steps = smaller_batch(explanation);
  out.push_back(std::move(explanation));
}

}  // namespace plimsoll::findings

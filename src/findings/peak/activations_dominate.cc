// activations_dominate: most of the peak is saved for backward, and a few layers hold much of it.
#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "findings/advice/appending.h"
#include "findings/advice/calls.h"
#include "findings/advice/checkpoints.h"
#include "findings/advice/line_advice.h"
#include "findings/advice/logits.h"
#include "findings/peak/peak.h"
#include "findings/rules.h"
#include "findings/text.h"
#include "model/categories.h"
#include "model/inner_lines.h"

namespace plimsoll::findings {
namespace {

// A forward without a graph needs its activations. They are of note once they are large.
constexpr std::uint64_t kLeastOfForwardOnly = kLeastHabitBytes;

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

// "; of which a.py:1 (f) creates 2.0 GiB": the line of a package that allocates most of what a line
// of the program creates.
std::string package_text(const Peak& peak, const std::vector<std::uint32_t>& parts,
                         const std::string& line) {
  const model::InnerLines inner(peak.trace(), peak.facts().lines);
  std::map<std::string, std::uint64_t> lines;
  for (const std::uint32_t part : parts) {
    const PeakAllocation& each = peak.live()[part];
    const model::InnerLine& row = inner.rows()[inner.of(each.stack)];
    if (row.is_in_package && peak.line_label(each) == line) lines[row.name] += each.size_bytes;
  }
  const auto most =
      std::ranges::max_element(lines, {}, [](const auto& each) { return each.second; });
  if (most == lines.end()) return {};
  return ", of which " + most->first + " creates " + bytes_text(most->second);
}

constexpr double kShareOfFloat32 = 0.5;

// The steps if nothing else helps.
Steps smaller_batch(const Peak& peak, const Explanation& explanation) {
  std::uint64_t single = 0;
  bool has_half = false;  // then the program already computes in it
  const PeakAllocation* largest = &peak.live()[explanation.parts.front()];
  for (const std::uint32_t part : explanation.parts) {
    const PeakAllocation& allocation = peak.live()[part];
    if (allocation.size_bytes > largest->size_bytes) largest = &allocation;
    const std::string_view dtype = peak.trace().strings[peak.tensor(allocation).dtype];
    if (dtype == "float32") single += allocation.size_bytes;
    has_half = has_half || dtype == "bfloat16" || dtype == "float16";
  }
  if (auto chunks = chunk_size_step(peak, *largest)) return {*std::move(chunks)};
  const bool is_single = !has_half && is_at_least(single, kShareOfFloat32, explanation.bytes);
  Steps steps;
  if (is_single) steps.push_back({"Compute in bfloat16 (torch.autocast)."});
  steps.push_back({"Use a smaller batch."});
  return steps;
}

// One forward may call a module twice.
constexpr std::size_t kFewestOfPlace = 3;

// For parts that were made while autograd was off, at places that have several live tensors: the
// program collects them, since no graph does. Returns whether most of the activations are such
// parts, which need other advice.
bool add_collected(const Peak& peak, Explanation& explanation) {
  using Place = std::array<std::uint32_t, 3>;  // layer, operator, line
  std::map<Place, std::vector<std::uint32_t>> places;
  for (const std::uint32_t part : explanation.parts) {
    const PeakAllocation& allocation = peak.live()[part];
    const model::Site& site = peak.site(allocation);
    if (site.autograd != model::Autograd::kOff) continue;
    places[{site.layer.value, site.op.value, peak.line(allocation).value}].push_back(part);
  }
  Explanation collected;
  for (const auto& [place, parts] : places) {
    if (parts.size() < kFewestOfPlace) continue;
    for (const std::uint32_t part : parts) collected.add(peak, part);
  }
  if (!is_at_least(collected.bytes, kShareOfActivations, explanation.bytes)) return false;
  const std::string line = line_of_most(peak, collected.parts).first;
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

// Memory that an operator of the forward needs while it runs.
bool is_of_forward(const Peak& peak, const PeakAllocation& allocation) {
  return !peak.is_inferred() && peak.phase(allocation) == model::Phase::kForward &&
         peak.point().phase == "forward";
}

// The changes that lower the peak, by what they save.
void advise(Peak& peak, Explanation& explanation) {
  report::Finding& finding = explanation.finding;
  Steps& steps = finding.steps;
  const auto add = [&](Steps more) { std::ranges::move(more, std::back_inserter(steps)); };
  add(steps_for_logits(peak, explanation.parts, finding));
  add(substitutes(peak));
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
}

}  // namespace

void explain_activations(Peak& peak, Explanations& out) {
  Explanation activations, both, working;
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const std::string_view category = peak.category(peak.live()[part]);
    if (category == model::kActivation) activations.add(peak, part);
    if (category == model::kActivation || category == model::kActivationGradient) {
      both.add(peak, part);
    }
    if (category == model::kActivation ||
        (category == model::kTemporaryCategory && is_of_forward(peak, peak.live()[part]))) {
      working.add(peak, part);
    }
  }
  // During backward, gradients have replaced some activations.
  const bool is_alone = is_at_least(activations.bytes, kShareOfActivations, peak.bytes());
  const bool is_working = !is_alone && working.bytes > both.bytes;
  const std::uint64_t gradients = is_alone || is_working ? 0 : both.bytes - activations.bytes;
  Explanation& explanation = is_alone ? activations : is_working ? working : both;
  const std::uint64_t bytes = explanation.bytes;
  const std::uint64_t least = peak.may_train() ? kLeastPeakBytes : kLeastOfForwardOnly;
  if (bytes < least || !is_at_least(bytes, kShareOfActivations, peak.bytes())) return;
  report::Finding& finding = explanation.finding;
  finding.id = "activations_dominate";
  finding.title = (is_working      ? "Activations and temporaries of forward are "
                   : gradients > 0 ? "Activations and their gradients are "
                                   : "Activations are ") +
                  share_text(peak, bytes) + ": " + bytes_text(bytes) + " of " +
                  bytes_text(peak.bytes());
  if (gradients > 0) {
    finding.evidence.push_back(bytes_text(gradients) +
                               " of it are gradients of activations, which backward creates.");
  }
  if (is_working) {
    finding.evidence.push_back(bytes_text(working.bytes - activations.bytes) +
                               " of it are temporaries, which one operator needs.");
  }
  const auto [line, of_line] = line_of_most(peak, explanation.parts);
  if (is_named(line)) {
    finding.evidence.push_back("Most of it is created at " + line + ": " + bytes_text(of_line) +
                               package_text(peak, explanation.parts, line) + ".");
  }
  if (!add_collected(peak, explanation)) advise(peak, explanation);
  // An explanation of less memory states these steps, too, and is more specific.
  const auto is_stated = [&](const report::FindingStep& step) {
    return std::ranges::any_of(out, [&](const Explanation& each) {
      return std::ranges::find(each.finding.steps, step.text, &report::FindingStep::text) !=
             each.finding.steps.end();
    });
  };
  while (!finding.steps.empty() && is_stated(finding.steps.front())) {
    finding.steps.erase(finding.steps.begin());
  }
  if (finding.steps.empty()) finding.steps = smaller_batch(peak, explanation);
  out.push_back(std::move(explanation));
}

}  // namespace plimsoll::findings

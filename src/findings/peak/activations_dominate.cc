// activations_dominate: most of the peak is saved for backward, and a few layers hold much of it.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "findings/advice/appending.h"
#include "findings/advice/blocks.h"
#include "findings/advice/calls.h"
#include "findings/advice/line_advice.h"
#include "findings/advice/logits.h"
#include "findings/advice/packages.h"
#include "findings/advice/repeated_forward.h"
#include "findings/peak/peak.h"
#include "findings/rules.h"
#include "findings/text.h"
#include "model/categories.h"
#include "report/folded_layers.h"

namespace plimsoll::findings {
namespace {

constexpr double kLeastInBlocks = 0.2;
// As a share of the peak; a smaller saving does not justify running a forward twice.
constexpr double kLeastSaving = 0.02;
// A function that is not a forward is worth a checkpoint if it allocates this share.
constexpr double kShareOfFunction = 0.5;
// A forward without a graph needs its activations. They are of note once they are large.
constexpr std::uint64_t kLeastOfForwardOnly = kLeastHabitBytes;

// Returns true if the recording shows what was saved when backward began.
bool add_kept(const Facts& facts, const DeviceFacts& device, report::Finding& finding) {
  const auto& kept = facts.report.tables.saved;
  const auto row = std::ranges::find(kept, device.report.device, &report::SavedRow::device);
  if (row == kept.end() || row->bytes == 0) return false;
  std::vector<report::GroupRow> makers;
  for (const report::GroupRow& maker : facts.report.tables.saved_by_operator) {
    if (maker.device == device.report.device) makers.push_back(maker);
  }
  finding.evidence.push_back("When backward began" +
                             (row->step ? " in step " + std::to_string(*row->step) : "") + ", " +
                             bytes_text(row->bytes) + " of the " + bytes_text(row->live_bytes) +
                             " live had been created in forward" +
                             (makers.empty() ? "" : "; most by " + holders_text(makers)) + ".");
  return true;
}

// Tensors of half precision show that the program already computes in it. Most operators have no
// recorded dtype, so a small share is enough.
constexpr double kShareOfFloat32 = 0.5;
constexpr double kMostOfHalf = 0.1;

// The steps if no checkpoint helps.
Steps smaller_batch(const Peak& peak, const Explanation& explanation) {
  std::uint64_t single = 0, half = 0;
  const PeakAllocation* largest = &peak.live()[explanation.parts.front()];
  for (const std::uint32_t part : explanation.parts) {
    const PeakAllocation& allocation = peak.live()[part];
    if (allocation.size_bytes > largest->size_bytes) largest = &allocation;
    const std::string_view dtype = peak.trace().strings[peak.tensor(allocation).dtype];
    if (dtype == "float32") single += allocation.size_bytes;
    if (dtype == "bfloat16" || dtype == "float16") half += allocation.size_bytes;
  }
  std::string chunks = chunk_size_advice(peak, *largest, "the function");
  if (!chunks.empty()) return {{std::move(chunks)}};
  const bool is_single = is_at_least(single, kShareOfFloat32, explanation.bytes) &&
                         !is_at_least(half, kMostOfHalf, explanation.bytes);
  Steps steps;
  if (is_single) steps.push_back({"Compute in bfloat16 (torch.autocast)."});
  steps.push_back({"Use a smaller batch."});
  return steps;
}

bool is_worth_it(const Peak& peak, std::uint64_t saving_bytes) {
  return is_at_least(saving_bytes, kLeastSaving, peak.bytes());
}

constexpr const char* kCostOfCheckpoint = " This costs one more forward of these layers.";

void add_blocks(Peak& peak, Measure measure, const Explanation& explanation,
                report::Finding& finding) {
  const LayerRows all =
      blocks_of(peak.facts().report.tables.layers, peak.device().report.device, measure);
  if (all.size() < 2) return;
  LayerRows blocks = without_checkpoint(peak, all);
  if (blocks.size() < all.size()) {
    finding.evidence.push_back(counted(all.size() - blocks.size(), "layer") +
                               " already run through torch.utils.checkpoint.");
  }
  auto call = checkpoint_call(peak, explanation.parts);
  if (const LayerRows listed = in_lists(blocks); call && listed.size() >= 2) {
    blocks = listed;
  } else {
    call = nullptr;
  }
  blocks = without_single_operators(peak, blocks);
  if (blocks.size() < 2) return;
  const std::uint64_t in_blocks = sum_of(blocks, measure);
  // Checkpoints do not free what is allocated outside the layers.
  if (!is_at_least(in_blocks, kLeastInBlocks, explanation.bytes)) return;
  std::uint64_t largest = 0;
  for (const report::LayerRow* block : blocks) {
    largest = std::max(largest, block->inclusive.*measure);
  }
  // Without marks of backward, it is unknown when the memory of a block is allocated again. At
  // worst, all of the largest block is.
  const std::uint64_t saving =
      peak.backward_begins().empty() ? in_blocks - largest : saving_of_checkpoints(peak, blocks);
  finding.evidence.push_back(blocks_text(blocks, measure));
  if (!is_worth_it(peak, saving)) return;
  const std::string names = names_of(blocks);
  finding.steps = {step_up_to(
      (call ? std::string(call->advice)
            : "Run " + names +
                  " through torch.utils.checkpoint.checkpoint(…, use_reentrant=False)") +
          ". Backward then recomputes the activations inside " + (call ? names : "these layers") +
          ", one layer at a time, instead of keeping them." + kCostOfCheckpoint,
      saving)};
}

// Adds advice for a snapshot, which records no layers.
void add_repeated_forward(const Peak& peak, const Explanation& explanation,
                          report::Finding& finding) {
  const auto forward = repeated_forward(peak, explanation);
  if (!forward) return;
  finding.evidence.push_back(
      base::format_count(forward->calls) + " calls of forward at " + forward->place +
      (forward->caller.empty() ? "" : ", from " + forward->caller + ",") + " create " +
      bytes_text(forward->bytes) + " of it" +
      (report::is_of_equal_size(forward->smallest_bytes, forward->largest_bytes)
           ? ": " + base::format_count(forward->calls) + " × " +
                 bytes_text(forward->bytes / forward->calls)
           : "; the largest " + bytes_text(forward->largest_bytes)) +
      ".");
  if (forward->runs_in_checkpoint || !is_worth_it(peak, forward->saving_bytes)) {
    finding.steps.clear();
    return;
  }
  const auto call = checkpoint_call(peak, forward->parts);
  finding.steps = {step_up_to(
      (call ? std::string(call->advice)
            : "Run the module whose forward is at " + forward->place +
                  " through torch.utils.checkpoint.checkpoint(…, use_reentrant=False)") +
          ". Backward then recomputes the activations of each call, one call at a time, instead of "
          "keeping them." +
          kCostOfCheckpoint,
      forward->saving_bytes)};
}

// Names the line whose tensors large gradients of one size belong to. In a snapshot, stacks in
// backward have no line, but a gradient has the size of its tensor.
void add_line_of_size(const Peak& peak, const std::vector<std::uint32_t>& parts,
                      report::Finding& finding) {
  std::map<std::uint64_t, std::uint64_t> counts;
  for (const std::uint32_t part : parts) {
    const PeakAllocation& allocation = peak.live()[part];
    if (!peak.has_line(allocation)) ++counts[allocation.size_bytes];
  }
  const auto bytes_of = [](const auto& each) { return each.first * each.second; };
  const auto most = std::ranges::max_element(counts, {}, bytes_of);
  if (most == counts.end() || !is_at_least(bytes_of(*most), kShareOfPlace, peak.bytes())) return;
  std::map<std::string, std::size_t> lines;
  peak.for_each([&](const PeakAllocation& allocation) {
    const bool is_twin = allocation.size_bytes == most->first && peak.has_line(allocation);
    if (is_twin && allocation.born < peak.event()) ++lines[peak.line_label(allocation)];
  });
  if (lines.empty()) return;
  const std::string& line =
      std::ranges::max_element(lines, {}, [](const auto& each) { return each.second; })->first;
  finding.evidence.push_back(counted(most->second, "gradient") + " of " + bytes_text(most->first) +
                             " have the size of what " + line + " creates.");
  finding.steps = {
      {"Avoid the full-size tensors of " + line +
       " and their gradients: compute them in chunks, or use a fused operator that never stores "
       "them (torch.nn.functional.scaled_dot_product_attention for attention)."},
      {"Use a smaller batch."}};
}

// One forward may call a module twice.
constexpr std::size_t kFewestOfPlace = 3;

// The parts that were made while autograd was off, of places that have several live tensors: the
// program collects them, since no graph does.
std::vector<std::uint32_t> collected_without_graph(const Peak& peak,
                                                   const Explanation& explanation) {
  using Place = std::array<std::uint32_t, 3>;  // layer, operator, line
  std::map<Place, std::vector<std::uint32_t>> places;
  for (const std::uint32_t part : explanation.parts) {
    const PeakAllocation& allocation = peak.live()[part];
    const model::Site& site = peak.site(allocation);
    if (site.autograd != model::Autograd::kOff) continue;
    places[{site.layer.value, site.op.value, peak.line(allocation).value}].push_back(part);
  }
  std::vector<std::uint32_t> parts;
  for (const auto& [place, of_place] : places) {
    if (of_place.size() < kFewestOfPlace) continue;
    parts.insert(parts.end(), of_place.begin(), of_place.end());
  }
  return parts;
}

// For collected results that torch.cat makes longer, such as the keys and values of a decoder.
// Returns whether they are.
bool advise_appended(const Peak& peak, const Explanation& collected, const std::string& line,
                     report::Finding& finding) {
  const PeakAllocation& largest = peak.live()[*std::ranges::max_element(
      collected.parts, {}, [&](std::uint32_t part) { return peak.live()[part].size_bytes; })];
  if (peak.line_label(largest) != line || times_appended(peak, largest) == 0) return false;
  finding.evidence.push_back("That line makes tensors longer again and again, up to " +
                             bytes_text(largest.size_bytes) +
                             " each. Each time, the old and the new tensor are live.");
  finding.steps = {{"Allocate each tensor that " + line +
                        " makes longer once, in its final size, and write each part into a slice "
                        "of it, which also saves the copies.",
                    worthwhile(peak, saving_of_appended(peak, largest))}};
  return true;
}

// Returns whether most of the activations are collected results, which needs other advice.
bool add_collected(const Peak& peak, Explanation& explanation) {
  Explanation collected;
  for (const std::uint32_t part : collected_without_graph(peak, explanation)) {
    collected.add(peak, part);
  }
  if (!is_at_least(collected.bytes, kShareOfActivations, explanation.bytes)) return false;
  const auto [line, of_line] = line_of_most(peak, collected.parts);
  explanation.finding.evidence.push_back(
      bytes_text(collected.bytes) + " of it, in " + counted(collected.parts.size(), "tensor") +
      ", were made while autograd was off: the program keeps them, not a graph.");
  if (advise_appended(peak, collected, line, explanation.finding)) return true;
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

// Adds the steps for them, if there are any but to process less at a time.
void advise(Peak& peak, Explanation& explanation) {
  report::Finding& finding = explanation.finding;
  if (advise_logits(peak, logits_of(peak), explanation)) {
    add_kept(peak.facts(), peak.device(), finding);
    return;
  }
  if (add_collected(peak, explanation)) return;
  if (!peak.may_train()) {
    finding.evidence.emplace_back("No backward ran: a forward needs them only while it runs.");
    return;
  }
  const std::string path = peak.is_inferred() ? path_text(peak, explanation.parts) : std::string();
  if (!path.empty()) {
    finding.evidence.push_back("The calls that lead to most of it: " + path + ".");
    finding.steps = {
        {"Run the modules that these calls reach through torch.utils.checkpoint.checkpoint(…, "
         "use_reentrant=False), which recomputes them in backward."},
        {"Use a smaller batch."}};
  }
  if (peak.is_inferred() && path.empty()) add_line_of_size(peak, explanation.parts, finding);
  if (peak.is_inferred()) add_repeated_forward(peak, explanation, finding);
  const auto [function, of_function, is_of_autograd] = function_of_most(peak, explanation);
  const bool is_of_function =
      !function.empty() && is_at_least(of_function, kShareOfFunction, explanation.bytes);
  if (is_of_function) {
    finding.evidence.push_back(
        bytes_text(of_function) + " of it are made by " + function +
        (is_of_autograd ? " of a torch.autograd.Function." : ", which calls no layer."));
  }
  if (is_of_function && !is_of_autograd) {
    finding.steps = {
        {"Run " + function +
         " through torch.utils.checkpoint.checkpoint(…, use_reentrant=False): what it makes is "
         "then recomputed in backward instead of being kept."},
        {"Let it make less: fewer rounds, smaller tensors, a smaller batch."}};
  }
  const Facts& facts = peak.facts();
  const bool is_kept_known = add_kept(facts, peak.device(), finding);
  // An earlier backward's use of memory is no evidence about a forward that failed before its own
  // backward.
  const bool is_measured = is_kept_known && !ends_in_forward(peak);
  add_blocks(peak,
             is_measured ? &report::LayerBytes::saved_bytes : &report::LayerBytes::activation_bytes,
             explanation, finding);
  add_calls(peak, explanation);
  if (is_of_function && is_of_autograd) {
    finding.steps.insert(finding.steps.begin(),
                         {"Pass fewer tensors to ctx.save_for_backward in " + function +
                          ", and compute the others again in backward."});
  }
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
    const auto [inside, of_inside] = package_line_of_most(peak, explanation.parts, line);
    finding.evidence.push_back(
        "Most of it is created at " + line + ": " + bytes_text(of_line) +
        (inside.empty() ? "" : ", of which " + inside + " creates " + bytes_text(of_inside)) + ".");
  }
  advise(peak, explanation);
  if (finding.steps.empty()) finding.steps = smaller_batch(peak, explanation);
  out.push_back(std::move(explanation));
}

}  // namespace plimsoll::findings

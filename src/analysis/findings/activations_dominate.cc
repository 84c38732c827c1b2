// activations_dominate: most of the peak is saved for backward, and a few layers hold much of it.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/findings/calls.h"
#include "analysis/findings/peak.h"
#include "analysis/findings/rules.h"
#include "analysis/findings/text.h"
#include "base/units.h"
#include "model/categories.h"

namespace plimsoll::analysis::findings {
namespace {

using report::LayerRow;

// A larger layer is represented by the layers inside it: a checkpoint around most of the model
// recomputes everything and saves nothing.
constexpr double kLargestBlock = 0.25;
// If the children hold at least this share of a layer, they replace it.
constexpr double kShareOfChildren = 0.8;
// The smallest block that is worth a checkpoint.
constexpr double kLeastShareOfBlock = 0.05;
constexpr std::size_t kBlocksNamed = 4;
constexpr double kLeastInBlocks = 0.2;
// As a share of the peak; a smaller saving does not justify running a forward twice.
constexpr double kLeastSaving = 0.02;
// A function that is not a forward is worth a checkpoint if it allocates this share.
constexpr double kShareOfFunction = 0.5;

std::string_view parent_path(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

using LayerRows = std::vector<const LayerRow*>;

// What counts for a layer: bytes saved for backward or, if those are unknown, its activations at
// the peak.
using Measure = std::uint64_t report::LayerBytes::*;

std::uint64_t sum_of(const LayerRows& rows, Measure measure) {
  std::uint64_t sum = 0;
  for (const LayerRow* row : rows) sum += row->inclusive.*measure;
  return sum;
}

// Layers side by side, none inside another, that are worth a checkpoint; largest first.
LayerRows blocks_of(const std::vector<LayerRow>& layers, std::int32_t device, Measure measure) {
  const auto bytes = [measure](const LayerRow* row) { return row->inclusive.*measure; };
  std::map<std::string_view, LayerRows> children;
  for (const LayerRow& row : layers) {
    if (row.device != device || row.layer.empty() || bytes(&row) == 0) continue;
    children[parent_path(row.layer)].push_back(&row);
  }
  LayerRows open = children[""];
  const auto whole = static_cast<double>(sum_of(open, measure));
  LayerRows blocks;
  while (!open.empty()) {
    const LayerRow* row = open.back();
    open.pop_back();
    const LayerRows& inside = children[row->layer];
    const bool is_large = static_cast<double>(bytes(row)) > kLargestBlock * whole;
    if (is_large && is_at_least(sum_of(inside, measure), kShareOfChildren, bytes(row))) {
      open.insert(open.end(), inside.begin(), inside.end());
    } else if (static_cast<double>(bytes(row)) >= kLeastShareOfBlock * whole) {
      blocks.push_back(row);
    }
  }
  std::ranges::sort(blocks, [&](const LayerRow* a, const LayerRow* b) {
    return bytes(a) != bytes(b) ? bytes(a) > bytes(b) : a->layer < b->layer;
  });
  return blocks;
}

std::string names_of(const LayerRows& blocks) {
  std::string names;
  for (const LayerRow* row : std::span(blocks).first(std::min(kBlocksNamed, blocks.size()))) {
    names += (names.empty() ? "" : ", ") + row->layer;
  }
  if (blocks.size() > kBlocksNamed) {
    names += " and " + counted(blocks.size() - kBlocksNamed, "layer") + " more";
  }
  return names;
}

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

// The events of the device at which a block runs, ascending.
struct BlockRuns {
  std::vector<std::uint32_t> forward;   // births of allocations that backward uses
  std::vector<std::uint32_t> backward;  // births during its backward
};

// How much the peak falls if everything allocated inside the blocks, except the last tensor of
// each, is freed after the block has run and allocated again when its backward begins.
std::uint64_t saving_of_checkpoints(Peak& peak, const LayerRows& blocks) {
  model::Layers& layers = peak.layers();
  std::map<std::uint32_t, BlockRuns> runs;  // by layer
  for (const LayerRow* block : blocks) runs[layers.named(block->layer).value];
  std::vector<std::uint32_t> block_of;  // by layer: the enclosing block, or 0
  const auto run_of = [&](const PeakAllocation& allocation) {
    const model::LayerId layer = peak.layer(allocation);
    for (auto id = static_cast<std::uint32_t>(block_of.size()); id < layers.size(); ++id) {
      const bool is_block = id == 0 || runs.contains(id);
      block_of.push_back(is_block ? id : block_of[layers.parent(model::LayerId{id}).index()]);
    }
    return runs.find(block_of[layer.index()]);
  };
  const auto is_kept = [&](const PeakAllocation& allocation) {
    return peak.category(allocation) == model::kActivation && peak.meets_backward(allocation);
  };
  peak.for_each([&](const PeakAllocation& allocation) {
    const auto run = run_of(allocation);
    if (run == runs.end()) return;
    if (peak.phase(allocation) == model::Phase::kBackward) {
      run->second.backward.push_back(allocation.born);
    } else if (is_kept(allocation)) {
      run->second.forward.push_back(allocation.born);
    }
  });
  const auto& begins = peak.backward_begins();
  return peak.saving_of_absence([&](const PeakAllocation& allocation) -> Peak::Absence {
    const auto run = run_of(allocation);
    if (run == runs.end() || !is_kept(allocation)) return {};
    if (peak.phase(allocation) == model::Phase::kBackward) return {};
    const auto& [forward, backward] = run->second;
    const std::uint32_t begin = *std::ranges::upper_bound(begins, allocation.born);
    const std::uint32_t last = *std::prev(std::ranges::lower_bound(forward, begin));
    if (last == allocation.born) return {};
    const auto back = std::ranges::lower_bound(backward, begin);
    return {last, back == backward.end() ? allocation.died : *back};
  });
}

void add_blocks(Peak& peak, Measure measure, std::uint64_t bytes, report::Finding& finding) {
  const LayerRows blocks =
      blocks_of(peak.facts().report.tables.layers, peak.device().report.device, measure);
  if (blocks.size() < 2) return;
  const std::uint64_t held = sum_of(blocks, measure);
  // Checkpoints do not free what is allocated outside the layers.
  if (!is_at_least(held, kLeastInBlocks, bytes)) return;
  const std::uint64_t largest = blocks.front()->inclusive.*measure;
  // Without marks of backward it is unknown when a block's memory returns. At worst all of the
  // largest block's does.
  finding.saving_bytes =
      peak.backward_begins().empty() ? held - largest : saving_of_checkpoints(peak, blocks);
  finding.evidence.push_back(counted(blocks.size(), "layer") + " side by side hold " +
                             bytes_text(held) + " of it; the largest, " + blocks.front()->layer +
                             ", holds " + bytes_text(largest) + ".");
  if (!is_at_least(finding.saving_bytes, kLeastSaving, peak.bytes())) {
    finding.saving_bytes = 0;
    return;
  }
  finding.next_step =
      "Run " + names_of(blocks) +
      " through torch.utils.checkpoint.checkpoint(…, use_reentrant=False). Backward then "
      "recomputes the activations inside these layers, one layer at a time, instead of keeping "
      "them. This costs one more forward of these layers and saves about " +
      bytes_text(finding.saving_bytes) + ".";
}

// In a snapshot, stacks in backward have no line. A gradient has the size of its tensor, so large
// gradients of one size show which line's tensors they belong to.
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
  finding.next_step =
      "Avoid the full-size tensors of " + line +
      " and their gradients: compute them in chunks, use a fused operator that never stores them "
      "(torch.nn.functional.scaled_dot_product_attention for attention), or use a smaller batch.";
}

// Memory that an operator of the forward needs while it runs.
bool is_of_forward(const Peak& peak, const PeakAllocation& allocation) {
  return !peak.is_inferred() && peak.phase(allocation) == model::Phase::kForward &&
         peak.point().phase == "forward";
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
  if (bytes < kLeastPeakBytes || !is_at_least(bytes, kShareOfActivations, peak.bytes())) return;
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
                               ".");
  }
  finding.next_step = "Use a smaller batch, or compute in bfloat16 (torch.autocast).";
  const std::string path = peak.is_inferred() ? path_text(peak, explanation.parts) : std::string();
  if (!path.empty()) {
    finding.evidence.push_back("The calls that lead to most of it: " + path + ".");
    finding.next_step =
        "Run the modules that these calls reach through torch.utils.checkpoint.checkpoint(…, "
        "use_reentrant=False), which recomputes them in backward. Or use a smaller batch, or "
        "compute in bfloat16 (torch.autocast).";
  }
  if (peak.is_inferred() && path.empty()) add_line_of_size(peak, explanation.parts, finding);
  const auto [function, of_function, is_of_autograd] = function_of_most(peak, explanation);
  const bool is_of_function =
      !function.empty() && is_at_least(of_function, kShareOfFunction, bytes);
  if (is_of_function) {
    finding.evidence.push_back(
        bytes_text(of_function) + " of it are made by " + function +
        (is_of_autograd ? " of a torch.autograd.Function." : ", which calls no layer."));
  }
  if (is_of_function && !is_of_autograd) {
    finding.next_step =
        "Run " + function +
        " through torch.utils.checkpoint.checkpoint(…, use_reentrant=False): what it makes is then "
        "recomputed in backward instead of being kept. Or let it make less: fewer rounds, smaller "
        "tensors, a smaller batch.";
  }
  const Facts& facts = peak.facts();
  const bool is_kept_known = add_kept(facts, peak.device(), finding);
  add_blocks(
      peak,
      is_kept_known ? &report::LayerBytes::saved_bytes : &report::LayerBytes::activation_bytes,
      bytes, finding);
  add_calls(peak, explanation, finding);
  if (is_of_function && is_of_autograd) {
    finding.next_step =
        "Pass fewer tensors to ctx.save_for_backward in " + function +
        ", and compute the others again in backward. Otherwise: " + finding.next_step;
  }
  out.push_back(std::move(explanation));
}

}  // namespace plimsoll::analysis::findings

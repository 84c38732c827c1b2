// activations_dominate: most of the peak is kept for backward, and some layers hold much of it.
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

// Layers larger than this are told by those inside them: a checkpoint as large as the whole model
// computes everything again and saves nothing.
constexpr double kLargestBlock = 0.25;
// Layers that hold a layer's insides for the most part can stand for it.
constexpr double kShareOfChildren = 0.8;
// A block worth a checkpoint.
constexpr double kSmallestBlock = 0.05;
constexpr std::size_t kBlocksNamed = 4;
constexpr double kLeastInBlocks = 0.2;
// Of the peak: for less nobody computes a forward twice.
constexpr double kLeastSaving = 0.02;
// A function that makes as much, and is no forward, is worth a checkpoint.
constexpr double kShareOfFunction = 0.5;

std::string_view parent_path(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

using Rows = std::vector<const LayerRow*>;

// What of a layer counts: what is kept for backward, or where nobody knows, its activations at the
// peak.
using Measure = std::uint64_t report::LayerBytes::*;

std::uint64_t sum_of(const Rows& rows, Measure measure) {
  std::uint64_t sum = 0;
  for (const LayerRow* row : rows) sum += row->inclusive.*measure;
  return sum;
}

// Layers side by side, none inside another, that are worth a checkpoint; largest first.
Rows blocks_of(const std::vector<LayerRow>& layers, std::int32_t device, Measure measure) {
  const auto bytes = [measure](const LayerRow* row) { return row->inclusive.*measure; };
  std::map<std::string_view, Rows> children;
  for (const LayerRow& row : layers) {
    if (row.device != device || row.layer.empty() || bytes(&row) == 0) continue;
    children[parent_path(row.layer)].push_back(&row);
  }
  Rows open = children[""];
  const auto whole = static_cast<double>(sum_of(open, measure));
  Rows blocks;
  while (!open.empty()) {
    const LayerRow* row = open.back();
    open.pop_back();
    const Rows& inside = children[row->layer];
    const bool is_large = static_cast<double>(bytes(row)) > kLargestBlock * whole;
    if (is_large && is_at_least(sum_of(inside, measure), kShareOfChildren, bytes(row))) {
      open.insert(open.end(), inside.begin(), inside.end());
    } else if (static_cast<double>(bytes(row)) >= kSmallestBlock * whole) {
      blocks.push_back(row);
    }
  }
  std::ranges::sort(blocks, [&](const LayerRow* a, const LayerRow* b) {
    return bytes(a) != bytes(b) ? bytes(a) > bytes(b) : a->layer < b->layer;
  });
  return blocks;
}

std::string names_of(const Rows& blocks) {
  std::string names;
  for (const LayerRow* row : std::span(blocks).first(std::min(kBlocksNamed, blocks.size()))) {
    names += (names.empty() ? "" : ", ") + row->layer;
  }
  if (blocks.size() > kBlocksNamed) {
    names += " and " + counted(blocks.size() - kBlocksNamed, "layer") + " more";
  }
  return names;
}

// True if the recording tells what was kept when backward began.
bool add_kept(const Facts& facts, const DeviceFacts& device, report::Finding& finding) {
  const auto& kept = facts.report.tables.saved;
  const auto row = std::ranges::find(kept, device.report.device, &report::SavedRow::device);
  if (row == kept.end() || row->bytes == 0) return false;
  std::vector<report::GroupRow> makers;
  for (const report::GroupRow& maker : facts.report.tables.saved_by_operator) {
    if (maker.device == device.report.device) makers.push_back(maker);
  }
  finding.evidence.push_back(bytes_text(row->bytes) + " of " + bytes_text(row->live_bytes) +
                             " live had been created in forward when backward began" +
                             (row->step ? " in step " + std::to_string(*row->step) : "") +
                             (makers.empty() ? "" : "; most by " + holders_text(makers)) + ".");
  return true;
}

// When a block runs, in events of the device, ascending.
struct Runs {
  std::vector<std::uint32_t> forward;   // births of what backward uses
  std::vector<std::uint32_t> backward;  // births in its backward
};

// By how much the peak falls if what happens inside the blocks is freed when each has run, but for
// the last tensor it made, and comes back when its backward begins.
std::uint64_t saving_of_checkpoints(Peak& peak, const Rows& blocks) {
  model::Layers& layers = peak.layers();
  std::map<std::uint32_t, Runs> runs;  // by layer
  for (const LayerRow* block : blocks) runs[layers.named(block->layer).value];
  std::vector<std::uint32_t> block_of;  // by layer: the block around it, or 0
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
  const Rows blocks =
      blocks_of(peak.facts().report.tables.layers, peak.device().report.device, measure);
  if (blocks.size() < 2) return;
  const std::uint64_t held = sum_of(blocks, measure);
  // What is made outside the layers is not freed by their checkpoints.
  if (!is_at_least(held, kLeastInBlocks, bytes)) return;
  const std::uint64_t largest = blocks.front()->inclusive.*measure;
  // Without marks of backward nobody knows when a block comes back: all of the largest, at worst.
  finding.saving_bytes =
      peak.backward_begins().empty() ? held - largest : saving_of_checkpoints(peak, blocks);
  finding.evidence.push_back(counted(blocks.size(), "layer") + " side by side hold " +
                             bytes_text(held) + " of it, the largest, " + blocks.front()->layer +
                             ", " + bytes_text(largest) + ".");
  if (!is_at_least(finding.saving_bytes, kLeastSaving, peak.bytes())) {
    finding.saving_bytes = 0;
    return;
  }
  finding.next_step =
      "Run " + names_of(blocks) +
      " through torch.utils.checkpoint.checkpoint(…, use_reentrant=False): the inside of a layer "
      "is then recomputed in backward, one layer at a time, instead of being kept. This costs one "
      "more forward of these layers, and saves about " +
      bytes_text(finding.saving_bytes) + ".";
}

}  // namespace

void explain_activations(Peak& peak, Explanations& out) {
  Explanation activations, both;
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const std::string_view category = peak.category(peak.live()[part]);
    if (category == model::kActivation) activations.add(peak, part);
    if (category == model::kActivation || category == model::kActivationGradient) {
      both.add(peak, part);
    }
  }
  // In backward, gradients have taken the place of some activations.
  const bool is_alone = is_at_least(activations.bytes, kShareOfActivations, peak.bytes());
  const std::uint64_t gradients = is_alone ? 0 : both.bytes - activations.bytes;
  Explanation& explanation = is_alone ? activations : both;
  const std::uint64_t bytes = explanation.bytes;
  if (bytes < kLeastPeakBytes || !is_at_least(bytes, kShareOfActivations, peak.bytes())) return;
  report::Finding& finding = explanation.finding;
  finding.id = "activations_dominate";
  finding.title = (gradients > 0 ? "Activations and their gradients are " : "Activations are ") +
                  share_text(peak, bytes) + ": " + bytes_text(bytes) + " of " +
                  bytes_text(peak.bytes());
  if (gradients > 0) {
    finding.evidence.push_back(bytes_text(gradients) +
                               " of it are gradients of activations, which backward creates.");
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
  const auto [function, of_function] = function_of_most(peak, explanation);
  if (!function.empty() && is_at_least(of_function, kShareOfFunction, bytes)) {
    finding.evidence.push_back(bytes_text(of_function) + " of it are made by " + function +
                               ", which calls no layer.");
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
  out.push_back(std::move(explanation));
}

}  // namespace plimsoll::analysis::findings

// activations_dominate: most of the peak is kept for backward, and some layers hold much of it.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/findings/peak.h"
#include "analysis/findings/rules.h"
#include "analysis/findings/text.h"
#include "base/units.h"
#include "model/categories.h"

namespace plimsoll::analysis::findings {
namespace {

using report::LayerRow;

// Half of the peak: nothing else can matter more.
constexpr double kShareOfPeak = 0.5;
// Layers larger than this are told by those inside them: a checkpoint as large as the whole model
// computes everything again and saves nothing.
constexpr double kLargestBlock = 0.25;
// Layers that hold a layer's insides for the most part can stand for it.
constexpr double kShareOfChildren = 0.8;
// A block worth a checkpoint.
constexpr double kSmallestBlock = 0.05;
constexpr std::size_t kBlocksNamed = 4;

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
                             " live had been made in forward when backward began" +
                             (row->step ? " in step " + std::to_string(*row->step) : "") +
                             (makers.empty() ? "" : "; most by " + holders_text(makers)) + ".");
  return true;
}

// What the blocks but the largest hand on, which checkpoints keep: of each, the last tensor that it
// made and that is live when backward begins.
std::uint64_t outputs_of(Peak& peak, const Rows& blocks) {
  const auto& kept = peak.facts().report.tables.saved;
  const auto row = std::ranges::find(kept, peak.device().report.device, &report::SavedRow::device);
  if (row == kept.end() || !row->event) return 0;
  const auto moment = static_cast<std::uint32_t>(*row->event);
  std::map<std::string_view, std::uint64_t> last;  // by block
  for (const LayerRow* block : blocks) last[block->layer] = 0;
  model::Layers& layers = peak.layers();
  peak.for_each([&](const PeakAllocation& allocation) {
    if (allocation.born > moment || allocation.died <= moment) return;
    if (peak.category(allocation) != model::kActivation) return;
    for (auto at = layers.of(allocation.event); at != model::kNoLayer; at = layers.parent(at)) {
      const auto block = last.find(layers.path(at));
      if (block != last.end()) block->second = allocation.size_bytes;
    }
  });
  last.erase(blocks.front()->layer);
  std::uint64_t sum = 0;
  for (const auto& [block, bytes] : last) sum += bytes;
  return sum;
}

void add_blocks(Peak& peak, Measure measure, report::Finding& finding) {
  const Rows blocks =
      blocks_of(peak.facts().report.tables.layers, peak.device().report.device, measure);
  if (blocks.size() < 2) return;
  const std::uint64_t held = sum_of(blocks, measure);
  const std::uint64_t largest = blocks.front()->inclusive.*measure;
  const std::uint64_t outputs = outputs_of(peak, blocks);
  finding.saving_bytes = held - largest - std::min(held - largest, outputs);
  finding.evidence.push_back(
      counted(blocks.size(), "layer") + " side by side hold " + bytes_text(held) +
      " of it, the largest, " + blocks.front()->layer + ", " + bytes_text(largest) +
      (outputs == 0 ? "" : "; the others hand on " + bytes_text(outputs)) + ".");
  finding.next_step =
      "Run " + names_of(blocks) +
      " through torch.utils.checkpoint.checkpoint(…, use_reentrant=False): what happens inside a "
      "layer is computed again in backward, one layer at a time, in place of being kept. Costs one "
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
  const bool is_alone = is_at_least(activations.bytes, kShareOfPeak, peak.bytes());
  const std::uint64_t gradients = is_alone ? 0 : both.bytes - activations.bytes;
  Explanation& explanation = is_alone ? activations : both;
  const std::uint64_t bytes = explanation.bytes;
  if (bytes < kLeastPeakBytes || !is_at_least(bytes, kShareOfPeak, peak.bytes())) return;
  report::Finding& finding = explanation.finding;
  finding.id = "activations_dominate";
  finding.title = (gradients > 0 ? "Activations and their gradients are " : "Activations are ") +
                  share_text(peak, bytes) + ": " + bytes_text(bytes) + " of " +
                  bytes_text(peak.bytes());
  if (gradients > 0) {
    finding.evidence.push_back(bytes_text(gradients) +
                               " of it are gradients of activations, which backward makes.");
  }
  std::map<std::string, std::uint64_t> lines;
  for (const std::uint32_t part : explanation.parts) {
    lines[peak.line_label(peak.live()[part])] += peak.live()[part].size_bytes;
  }
  const auto most =
      std::ranges::max_element(lines, {}, [](const auto& line) { return line.second; });
  if (is_named(most->first)) {
    finding.evidence.push_back("The line that makes most of it is " + most->first + ": " +
                               bytes_text(most->second) + ".");
  }
  finding.next_step = "Take a smaller batch, or compute in bfloat16 (torch.autocast).";
  const Facts& facts = peak.facts();
  const bool is_kept_known = add_kept(facts, peak.device(), finding);
  add_blocks(
      peak,
      is_kept_known ? &report::LayerBytes::saved_bytes : &report::LayerBytes::activation_bytes,
      finding);
  out.push_back(std::move(explanation));
}

}  // namespace plimsoll::analysis::findings

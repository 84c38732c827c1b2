// Layers side by side that are worth a checkpoint.
#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/natural_order.h"
#include "base/units.h"
#include "findings/advice/checkpoints.h"
#include "findings/text.h"
#include "model/categories.h"
#include "report/folded_layers.h"

namespace plimsoll::findings {
namespace {

using report::FoldedLayerRow;
using report::LayerRow;

// A larger layer is represented by the layers inside it: a checkpoint around most of the model
// recomputes everything and saves nothing.
constexpr double kLargestBlock = 0.25;
// If the children hold at least this share of a layer, they replace it; those of twice the largest
// block always do.
constexpr double kShareOfChildren = 0.8;
// The smallest block, or the smallest number of equal blocks together, that is worth a checkpoint.
constexpr double kLeastShareOfBlock = 0.05;
constexpr std::size_t kBlocksNamed = 4;

// The figure by which layers are compared: bytes saved for backward or, if those are unknown,
// activations at the peak.
using Measure = std::uint64_t report::LayerBytes::*;
using LayerRows = std::vector<const LayerRow*>;
using FoldedRows = std::vector<const FoldedLayerRow*>;

template <typename Rows>
std::uint64_t sum_of(const Rows& rows, Measure measure) {
  std::uint64_t sum = 0;
  for (const auto* row : rows) sum += row->inclusive.*measure;
  return sum;
}

// Layers of the device, none inside another, that are worth a checkpoint, in natural order. Equal
// siblings count together, because each of 40 may be small.
LayerRows blocks_of(const Peak& peak, Measure measure) {
  const std::vector<LayerRow>& layers = peak.facts().report.tables.layers;
  const std::int32_t device = peak.device().report.device;
  std::map<std::string_view, const LayerRow*> by_path;
  for (const LayerRow& row : layers) {
    if (row.device == device) by_path.emplace(row.layer, &row);
  }
  std::set<std::string_view> holders;  // that can't be called
  for (const model::Module& module : peak.trace().modules) {
    if (module.only_holds) holders.insert(peak.trace().strings[module.path]);
  }
  const std::vector<FoldedLayerRow> folded =
      report::fold_layers(layers, report::FoldedBy::kStructure);
  std::map<std::string_view, FoldedRows> children;
  for (const FoldedLayerRow& row : folded) {
    if (row.device != device || row.layer.empty() || row.inclusive.*measure == 0) continue;
    children[report::parent_layer(row.layer)].push_back(&row);
  }
  FoldedRows open = children[""];
  const std::uint64_t whole = sum_of(open, measure);
  FoldedRows chosen;
  while (!open.empty()) {
    const FoldedLayerRow* row = open.back();
    open.pop_back();
    const FoldedRows& inside = children[row->layer];
    const std::uint64_t bytes = row->inclusive.*measure;
    const std::uint64_t one = bytes / row->layers.size();  // they are equal
    const bool is_large = static_cast<double>(one) > kLargestBlock * static_cast<double>(whole);
    const bool is_most = static_cast<double>(one) > 2 * kLargestBlock * static_cast<double>(whole);
    const bool only_holds = holders.contains(row->layers.front());
    if (is_most || only_holds
            ? !inside.empty() || only_holds
            : is_large && is_at_least(sum_of(inside, measure), kShareOfChildren, bytes)) {
      open.insert(open.end(), inside.begin(), inside.end());
    } else if (is_at_least(bytes, kLeastShareOfBlock, whole)) {
      chosen.push_back(row);
    }
  }
  LayerRows blocks;
  for (const FoldedLayerRow* row : chosen) {
    for (const std::string& path : row->layers) blocks.push_back(by_path.at(path));
  }
  std::ranges::sort(blocks, base::natural_less,
                    [](const LayerRow* row) -> std::string_view { return row->layer; });
  return blocks;
}

// "Net.blocks.0…11, Net.neck and 3 more".
std::string names_of(const LayerRows& blocks) {
  std::vector<std::string> paths;
  for (const LayerRow* row : blocks) paths.push_back(row->layer);
  const std::vector<std::string> names = report::ranges_of(paths);
  std::string text;
  for (std::size_t i = 0; i < std::min(kBlocksNamed, names.size()); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kBlocksNamed) {
    text += " and " + base::format_count(names.size() - kBlocksNamed) + " more";
  }
  return text;
}

// What the allocations of one block show.
struct Block {
  bool is_checkpointed = false;
  std::set<std::pair<model::StringId, model::StringId>> calls;  // layer, operator
  std::vector<Allocation> activations;
};

// By path.
std::map<std::string_view, Block> allocations_of(Peak& peak, const LayerRows& rows) {
  std::map<std::string_view, Block> blocks;
  std::map<std::uint32_t, Block*> of_layer = {{0, nullptr}};
  for (const LayerRow* row : rows) {
    of_layer[peak.layers().named(row->layer).value] = &blocks[row->layer];
  }
  const auto block_of = [&](auto&& self, model::LayerId layer) -> Block* {
    const auto known = of_layer.find(layer.value);
    if (known != of_layer.end()) return known->second;
    return of_layer[layer.value] = self(self, peak.layers().parent(layer));
  };
  peak.for_each([&](const Allocation& each) {
    Block* const block = block_of(block_of, peak.layer(each));
    if (block == nullptr) return;
    block->is_checkpointed = block->is_checkpointed || each.has(evidence::StackFlag::kCheckpoint);
    if (!each.is(model::kActivation)) return;
    block->calls.emplace(each.site().layer, each.site().op);
    if (each.phase() != model::Phase::kBackward) block->activations.push_back(each);
  });
  return blocks;
}

// A layer whose activations one operator makes (Dropout, a convolution): a checkpoint would
// recompute it and save little.
bool is_single_operator(const Peak& peak, const Block& block, std::string_view path) {
  if (block.calls.size() != 1) return false;
  const auto& [layer, op] = *block.calls.begin();
  // Another layer's: one inside the block, whose forward may have failed.
  return op != model::StringId{} && peak.trace().strings[layer] == path;
}

// "Net.blocks.3": packages checkpoint the layers of lists.
bool is_in_list(std::string_view path) {
  return path.substr(path.rfind('.') + 1).find_first_not_of("0123456789") == path.npos;
}

}  // namespace

std::optional<Checkpoint> layers_to_checkpoint(Peak& peak, const Explanation& explanation,
                                               report::Finding& finding) {
  const auto& tables = peak.facts().report.tables;
  const bool is_measured = std::ranges::any_of(tables.saved, [&](const report::SavedRow& row) {
    return row.device == peak.device().report.device && row.bytes > 0;
  });
  // An earlier backward's use of memory is no evidence about a forward that failed before its own.
  const Measure measure = is_measured && !ends_in_forward(peak)
                              ? &report::LayerBytes::saved_bytes
                              : &report::LayerBytes::activation_bytes;
  LayerRows rows = blocks_of(peak, measure);
  if (rows.size() < 2) return std::nullopt;
  const auto blocks = allocations_of(peak, rows);
  const std::size_t checkpointed = std::erase_if(
      rows, [&](const LayerRow* row) { return blocks.at(row->layer).is_checkpointed; });
  if (checkpointed > 0) {
    finding.evidence.push_back(counted(checkpointed, "layer") +
                               " already run through torch.utils.checkpoint.");
  }
  const auto listed =
      std::ranges::count_if(rows, [](const LayerRow* row) { return is_in_list(row->layer); });
  const bool is_of_package =
      listed >= 2 && !advice_of_package(explanation.parts, evidence::Remedy::kCheckpoint).empty();
  std::erase_if(rows, [&](const LayerRow* row) {
    return (is_of_package && !is_in_list(row->layer)) ||
           is_single_operator(peak, blocks.at(row->layer), row->layer);
  });
  if (rows.size() < 2) return std::nullopt;
  Checkpoint checkpoint;
  checkpoint.what = names_of(rows);
  checkpoint.is_turned_off = std::ranges::all_of(rows, [&](const LayerRow* row) {
    return std::ranges::any_of(peak.trace().modules, [&](const model::Module& module) {
      return module.checkpoints && module.is_in_eval_mode &&
             peak.trace().strings[module.path] == row->layer;
    });
  });
  if (is_of_package) checkpoint.parts = explanation.parts;
  std::vector<std::uint64_t> bytes;
  for (const LayerRow* row : rows) bytes.push_back(row->inclusive.*measure);
  finding.evidence.push_back(checkpoint.what + " hold " + sizes_text(bytes) + ".");
  if (peak.backward_begins().empty()) {
    // It is unknown when the memory of a block is allocated again. At worst, all of the largest is.
    checkpoint.saving_bytes = sum_of(rows, measure) - std::ranges::max(bytes);
    return checkpoint;
  }
  Runs runs(peak);
  for (std::uint32_t i = 0; i < rows.size(); ++i) {
    for (const Allocation& each : blocks.at(rows[i]->layer).activations) runs.add(i, each);
  }
  checkpoint.saving_bytes = runs.saving();
  return checkpoint;
}

}  // namespace plimsoll::findings

#include "findings/advice/blocks.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/natural_order.h"
#include "findings/advice/packages.h"
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
// If the children hold at least this share of a layer, they replace it.
constexpr double kShareOfChildren = 0.8;
// The smallest block, or the smallest number of equal blocks together, that is worth a checkpoint.
constexpr double kLeastShareOfBlock = 0.05;
constexpr std::size_t kBlocksNamed = 4;

// The block around each allocation.
class BlockOf {
 public:
  BlockOf(Peak& peak, const LayerRows& blocks) : peak_(peak) {
    for (const LayerRow* block : blocks) blocks_.insert(peak.layers().named(block->layer).value);
  }

  // The number of its layer; 0: none.
  std::uint32_t operator()(const PeakAllocation& allocation) {
    model::Layers& layers = peak_.layers();
    const model::LayerId layer = peak_.layer(allocation);
    for (auto id = static_cast<std::uint32_t>(block_of_.size()); id < layers.size(); ++id) {
      const bool is_block = id == 0 || blocks_.contains(id);
      block_of_.push_back(is_block ? id : block_of_[layers.parent(model::LayerId{id}).index()]);
    }
    return block_of_[layer.index()];
  }

 private:
  Peak& peak_;
  std::set<std::uint32_t> blocks_;
  std::vector<std::uint32_t> block_of_;  // by layer
};

using FoldedRows = std::vector<const FoldedLayerRow*>;

std::uint64_t folded_sum(const FoldedRows& rows, Measure measure) {
  std::uint64_t sum = 0;
  for (const FoldedLayerRow* row : rows) sum += row->inclusive.*measure;
  return sum;
}

}  // namespace

std::uint64_t sum_of(const LayerRows& rows, Measure measure) {
  std::uint64_t sum = 0;
  for (const LayerRow* row : rows) sum += row->inclusive.*measure;
  return sum;
}

LayerRows blocks_of(const std::vector<LayerRow>& layers, std::int32_t device, Measure measure) {
  std::map<std::string_view, const LayerRow*> by_path;
  for (const LayerRow& row : layers) {
    if (row.device == device) by_path.emplace(row.layer, &row);
  }
  const auto largest = [&](const FoldedLayerRow* row) {
    std::uint64_t most = 0;
    for (const std::string& path : row->layers) {
      most = std::max(most, by_path.at(path)->inclusive.*measure);
    }
    return static_cast<double>(most);
  };
  const std::vector<FoldedLayerRow> folded =
      report::fold_layers(layers, report::FoldedBy::kStructure);
  std::map<std::string_view, FoldedRows> children;
  for (const FoldedLayerRow& row : folded) {
    if (row.device != device || row.layer.empty() || row.inclusive.*measure == 0) continue;
    children[report::parent_layer(row.layer)].push_back(&row);
  }
  FoldedRows open = children[""];
  const auto whole = static_cast<double>(folded_sum(open, measure));
  FoldedRows chosen;
  while (!open.empty()) {
    const FoldedLayerRow* row = open.back();
    open.pop_back();
    const FoldedRows& inside = children[row->layer];
    const std::uint64_t bytes = row->inclusive.*measure;
    const bool is_large = largest(row) > kLargestBlock * whole;
    if (is_large && is_at_least(folded_sum(inside, measure), kShareOfChildren, bytes)) {
      open.insert(open.end(), inside.begin(), inside.end());
    } else if (static_cast<double>(bytes) >= kLeastShareOfBlock * whole) {
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

std::string names_of(const LayerRows& blocks) {
  std::vector<std::string> paths;
  for (const LayerRow* row : blocks) paths.push_back(row->layer);
  const std::vector<std::string> names = report::ranges_of(paths);
  std::string text;
  for (std::size_t i = 0; i < std::min(kBlocksNamed, names.size()); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kBlocksNamed) {
    // The largest number of layers whose names are all among the first kBlocksNamed names.
    std::size_t named = 0;
    for (std::size_t step = std::bit_ceil(paths.size()); step > 0; step /= 2) {
      if (named + step > paths.size()) continue;
      const auto end = paths.begin() + static_cast<std::ptrdiff_t>(named + step);
      if (report::ranges_of({paths.begin(), end}).size() <= kBlocksNamed) named += step;
    }
    text += " and " + counted(paths.size() - named, "layer") + " more";
  }
  return text;
}

std::string blocks_text(const LayerRows& blocks, Measure measure) {
  const auto bytes = [measure](const LayerRow* row) { return row->inclusive.*measure; };
  const LayerRow* const most = *std::ranges::max_element(blocks, {}, bytes);
  const LayerRow* const least = *std::ranges::min_element(blocks, {}, bytes);
  const std::uint64_t sum = sum_of(blocks, measure);
  std::vector<std::string> paths;
  for (const LayerRow* row : blocks) paths.push_back(row->layer);
  const bool is_one_range = report::ranges_of(paths).size() == 1;
  if (is_one_range && report::is_of_equal_size(bytes(least), bytes(most))) {
    return names_of(blocks) + " hold " + bytes_text(sum) +
           " of it: " + base::format_count(blocks.size()) + " × " +
           bytes_text(sum / blocks.size()) + ".";
  }
  return counted(blocks.size(), "layer") + " side by side hold " + bytes_text(sum) +
         " of it; the largest, " + most->layer + ", holds " + bytes_text(bytes(most)) + ".";
}

LayerRows without_checkpoint(Peak& peak, const LayerRows& blocks) {
  BlockOf block_of(peak, blocks);
  std::set<std::uint32_t> done;
  peak.for_each([&](const PeakAllocation& allocation) {
    const bool is_checkpointed =
        peak.stacks().has(allocation.stack, evidence::StackFlag::kCheckpoint);
    if (is_checkpointed) done.insert(block_of(allocation));
  });
  LayerRows left = blocks;
  std::erase_if(left, [&](const LayerRow* block) {
    return done.contains(peak.layers().named(block->layer).value);
  });
  return left;
}

LayerRows without_single_operators(Peak& peak, const LayerRows& blocks) {
  BlockOf block_of(peak, blocks);
  using Operator = std::pair<model::StringId, model::StringId>;  // layer, name
  std::map<std::uint32_t, std::set<Operator>> operators;         // by block
  peak.for_each([&](const PeakAllocation& allocation) {
    if (peak.category(allocation) != model::kActivation) return;
    const model::Site& site = peak.site(allocation);
    operators[block_of(allocation)].emplace(site.layer, site.op);
  });
  LayerRows left = blocks;
  std::erase_if(left, [&](const LayerRow* block) {
    const std::set<Operator>& made = operators[peak.layers().named(block->layer).value];
    if (made.size() != 1) return false;
    const auto& [layer, op] = *made.begin();
    // Another layer's: one inside the block, whose forward may have failed.
    return op != model::StringId{} && peak.trace().strings[layer] == block->layer;
  });
  return left;
}

LayerRows in_lists(const LayerRows& blocks) {
  LayerRows listed = blocks;
  std::erase_if(listed, [](const LayerRow* block) {
    const std::string_view path = block->layer;
    return path.substr(path.rfind('.') + 1).find_first_not_of("0123456789") != path.npos;
  });
  return listed;
}

bool ends_in_forward(const Peak& peak) {
  const auto& begins = peak.backward_begins();
  return !peak.device().report.oom_details.empty() && !begins.empty() &&
         begins.back() <= peak.event() && peak.point().phase == "forward";
}

std::uint64_t saving_of_checkpoints(Peak& peak, const LayerRows& blocks) {
  using RunId = std::pair<std::uint32_t, std::uint32_t>;  // layer, event at which backward begins
  std::map<RunId, whatif::Run> runs;
  std::map<std::uint32_t, std::vector<std::uint32_t>> backward;  // births in backward, by layer
  std::map<std::uint32_t, std::uint64_t> waiting_bytes;  // for a backward that has not begun
  for (const LayerRow* block : blocks) {
    waiting_bytes[peak.layers().named(block->layer).value] = 0;
  }
  BlockOf block_of(peak, blocks);
  const auto& begins = peak.backward_begins();
  const bool is_cut_off = ends_in_forward(peak);
  peak.for_each([&](const PeakAllocation& allocation) {
    const std::uint32_t block = block_of(allocation);
    if (!waiting_bytes.contains(block)) return;
    if (peak.phase(allocation) == model::Phase::kBackward) {
      backward[block].push_back(allocation.born);
      return;
    }
    if (peak.category(allocation) != model::kActivation) return;
    const auto next = std::ranges::upper_bound(begins, allocation.born);
    const std::uint32_t begin = next == begins.end() ? model::kNone : *next;
    const bool waits = is_cut_off && begin == model::kNone && allocation.died > peak.event();
    if (!peak.meets_backward(allocation) && !waits) return;
    whatif::Run& run = runs[{block, begin}];
    run.rows.push_back(allocation.lifetime);
    run.done = allocation.born;
    if (begin == model::kNone) waiting_bytes[block] += allocation.size_bytes;
  });
  // When the next backward begins, the memory of the largest block is allocated again while all
  // others wait. Of equal blocks, the last one is first.
  auto largest = waiting_bytes.begin();
  for (auto each = largest; each != waiting_bytes.end(); ++each) {
    if (each->second >= largest->second) largest = each;
  }
  std::vector<whatif::Run> all;
  for (auto& [id, run] : runs) {
    const auto& [block, begin] = id;
    if (begin == model::kNone && block == largest->first) continue;
    const std::vector<std::uint32_t>& births = backward[block];
    const auto again = std::ranges::lower_bound(births, begin);
    if (again != births.end()) run.again = *again;
    all.push_back(std::move(run));
  }
  return peak.replay().recomputed(all);
}

}  // namespace plimsoll::findings

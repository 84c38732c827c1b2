// The tree of layers of a device as reports show it: the largest layers, each after the layer that
// contains it. Equal siblings share a row.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "report/folded_layers.h"

namespace plimsoll::exporters {

struct LayerTreeRow {
  const report::FoldedLayerRow* layer = nullptr;
  std::size_t depth = 0;
  // The path below the nearest preceding row that contains it, and the number of equal layers:
  // "blocks.0…3 (4 × 2.9 GiB)". Text from the file is made printable.
  std::string name;
};

// At most `top` of the rows with live bytes. `rows` are the device's Tables::folded_layers.
std::vector<LayerTreeRow> layer_tree(const std::vector<const report::FoldedLayerRow*>& rows,
                                     std::size_t top);

}  // namespace plimsoll::exporters

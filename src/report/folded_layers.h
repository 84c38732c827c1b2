// Shows equal layers as one row, so that the layers that differ stay visible: the 22 equal blocks
// of a model are "Net.blocks.0…21".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "report/attribution.h"

namespace plimsoll::report {

struct FoldedLayerRow {
  std::int32_t device = 0;
  std::string layer;                // "Net.blocks.0…21.mlp"
  std::vector<std::string> layers;  // paths of the layers of the row, in natural order
  LayerBytes own;
  LayerBytes inclusive;
  std::uint64_t smallest_bytes = 0;
  std::uint64_t largest_bytes = 0;
  std::string type = {};  // their class; empty if unknown

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"device", &FoldedLayerRow::device,
              "Device index; -1 for the CPU, -2 for pinned host memory."},
        Field{"layer", &FoldedLayerRow::layer,
              "Path of the layer, with the numbers of equal layers side by side as a range; empty "
              "for memory that belongs to no layer."},
        Field{"layers", &FoldedLayerRow::layers,
              "Paths of the layers that the row adds up, in natural order."},
        Field{"own", &FoldedLayerRow::own,
              "Sum of own of these layers; the peak is the largest of theirs."},
        Field{"inclusive", &FoldedLayerRow::inclusive,
              "Sum of inclusive of these layers; the peak is the largest of theirs."},
        Field{"smallest_bytes", &FoldedLayerRow::smallest_bytes,
              "Least inclusive.bytes of these layers."},
        Field{"largest_bytes", &FoldedLayerRow::largest_bytes,
              "Most inclusive.bytes of these layers."},
        Field{"class", &FoldedLayerRow::type, "Class of these modules; empty if unknown."});
  }
};

// A path without its last name: "Net.blocks" for "Net.blocks.0".
std::string_view parent_layer(std::string_view path);

// Whether two layers are equal in size, as far as a fold is concerned.
bool is_of_equal_size(std::uint64_t a, std::uint64_t b);

// At a peak during backward, equal layers differ in their live bytes. Tables show that difference;
// advice that applies to all of them ignores it.
enum class FoldedBy : std::uint8_t { kStructureAndLiveBytes, kStructure };

// Siblings are equal if their names differ only in a number at the end, they are of one class and
// contain the same layers, and they have about the same parameters, memory kept for backward
// (without a backward: activations) and live bytes. If the names are not just a number ("conv1"),
// at least three siblings must be equal. Layers inside equal layers are folded too. Each row
// follows its parent; the layers of a parent are in natural order. `rows` are Tables::layers.
std::vector<FoldedLayerRow> fold_layers(const std::vector<LayerRow>& rows,
                                        FoldedBy by = FoldedBy::kStructureAndLiveBytes);

// "Net.blocks.0…3, Net.blocks.5, Net.head": paths in natural order, consecutive numbers as one
// name.
std::vector<std::string> ranges_of(const std::vector<std::string>& paths);

}  // namespace plimsoll::report

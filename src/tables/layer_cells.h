// The column `layer` of tables about allocations: the layer that reports assign them to, which for
// parameters, gradients and optimizer state is their owner. All batches of a table share the texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "model/layers.h"
#include "tables/table_builder.h"

namespace plimsoll::tables {

class LayerCells {
 public:
  explicit LayerCells(const model::Trace& trace) : layers_(trace) {}

  // `layer_of(layers, row)` returns the layer of a row.
  template <typename LayerOf>
  void add_to(TableBuilder& table, const char* description, LayerOf&& layer_of) {
    const auto layer_at = [&](std::size_t row) { return layer_of(layers_, row); };
    BatchColumn cells =
        table.compute<std::uint32_t>([&](std::size_t row) { return place_of(layer_at(row)); });
    cells.dictionary = texts_;
    table.add("layer", description, table.with_nulls(std::move(cells), [&](std::size_t row) {
      return layer_at(row) == model::kNoLayer;
    }));
  }

 private:
  std::uint32_t place_of(model::LayerId layer) {
    if (layer.index() >= places_.size()) places_.resize(layers_.size(), model::kNone);
    std::uint32_t& place = places_[layer.index()];
    if (place == model::kNone) place = TableBuilder::append(*texts_, layers_.path(layer));
    return place;
  }

  model::Layers layers_;
  std::vector<std::uint32_t> places_;  // rows of the texts, by layer
  std::shared_ptr<Dictionary> texts_ = std::make_shared<Dictionary>();
};

}  // namespace plimsoll::tables

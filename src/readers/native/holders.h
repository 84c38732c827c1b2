// Reads the walks for holders: numbers of a walk's links become rows of the model.
#pragma once

#include <cstdint>

#include "format/records.h"
#include "model/trace_builder.h"
#include "readers/native/allocation.h"
#include "readers/native/definitions.h"

namespace plimsoll::readers::native {

class HolderRecords {
 public:
  HolderRecords(model::Holders& holders, const Definitions& definitions)
      : holders_(holders), definitions_(definitions) {}

  void add(const format::HolderWalk& walk);
  void add(const format::HolderLink& link);
  void add(const format::HolderCut& cut);
  // The row of a link of the last walk; 0: there is none.
  std::uint32_t row_of(std::uint32_t link) const;
  // Records may be missing: what follows belongs to no known walk.
  void lose_block() { is_in_walk_ = false; }
  std::size_t memory_bytes() const;

 private:
  model::Holders& holders_;
  const Definitions& definitions_;
  std::size_t first_ = 0;  // row of the walk's first link
  bool is_in_walk_ = false;
};

}  // namespace plimsoll::readers::native

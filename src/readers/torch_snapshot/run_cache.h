// RunCache caches the value of a run of memo references by its bytes. The stack of an allocation is
// such a run of 20 to 80 references to frames; few runs are distinct, and comparing the bytes is
// much cheaper than executing them. The cache is valid as long as no memo slot changes: the machine
// clears it when one does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/column.h"
#include "readers/torch_snapshot/pickle_value.h"

namespace plimsoll::readers::torch_snapshot {

class RunCache {
 public:
  // The value of these bytes, or null. The pointer is valid until the next insert.
  const Value* find(std::span<const std::uint8_t> run, std::uint64_t hash) const;
  void insert(std::span<const std::uint8_t> run, std::uint64_t hash, const Value& value);
  void clear();
  std::uint64_t memory_bytes() const;

 private:
  struct Entry {
    std::uint64_t hash = 0;
    std::uint64_t start = 0;  // of the run in bytes_
    std::uint32_t len = 0;    // 0: a free slot; runs are never empty
    Value value;
  };
  void grow();

  std::vector<Entry> slots_;
  base::Column<std::uint8_t> bytes_;
  std::size_t used_ = 0;
};

}  // namespace plimsoll::readers::torch_snapshot

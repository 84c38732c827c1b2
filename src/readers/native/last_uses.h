// The last use of each allocation: converts ages on the recorder's clock, which counts allocations,
// into events of the device, and decides what is unknown. Until finish(), the lifetimes' column
// `unused_from` has the clock of the last use.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/column.h"
#include "format/records.h"
#include "model/trace_builder.h"
#include "readers/native/allocation.h"

namespace plimsoll::readers::native {

class LastUses {
 public:
  explicit LastUses(const DeviceTables& tables) : tables_(tables) {}

  bool are_known() const { return has_uses_; }
  // The recorder observes uses from here on, or no longer.
  void observe(bool is_on);
  // A child process may use what is live here.
  void fork();
  void allocated(const Allocation& allocation, bool is_adopted) {
    if (has_uses_) count(allocation, is_adopted);
  }
  // A free or free requested. `allocation` is null if the free ends none.
  void freed(const Allocation* allocation, bool is_in_op) {
    if (has_uses_) note_free(allocation, is_in_op);
  }
  void add(const format::EndUses& uses);
  void add(const Allocation& allocation, const format::EndUse& use) {
    set(allocation, use, clock_);
  }

  // `is_in_pool`: whether the allocation is in a private pool, whose memory CUDA graphs use.
  template <typename IsInPool>
  void finish(const base::Column<Allocation>& allocations, IsInPool&& is_in_pool) {
    if (!has_uses_) return;
    for (const Allocation& allocation : allocations) {
      const bool is_unseen = is_in_pool(allocation) || is_used_elsewhere(allocation);
      resolve(allocation, is_unseen);
    }
  }
  std::size_t memory_bytes() const;

 private:
  // For each device, the number of its events.
  using Point = std::array<std::uint32_t, 256>;
  struct Freed {
    Allocation allocation;
    std::uint32_t clock = 0;
    bool is_known = false;
  };

  Point now() const;
  void count(const Allocation& allocation, bool is_adopted);
  void note_free(const Allocation* allocation, bool is_in_op);
  void set(const Allocation& allocation, const format::EndUse& use, std::uint32_t clock);
  bool is_used_elsewhere(const Allocation& allocation) const;
  void resolve(const Allocation& allocation, bool is_unseen);
  std::uint32_t first_alloc_after(std::uint8_t device, std::uint32_t clock) const;

  const DeviceTables& tables_;
  bool has_uses_ = false;
  std::uint32_t clock_ = 0;
  std::array<base::Column<std::uint32_t>, 256> born_;  // by device and lifetime: the clock
  std::array<Freed, format::EndUses::kMost> freed_{};  // the last ones
  std::size_t frees_ = 0;
  std::vector<std::pair<Point, Point>> observed_;  // spans; the last one may be open
  bool is_observed_ = false;
  std::vector<Point> forks_;
};

}  // namespace plimsoll::readers::native

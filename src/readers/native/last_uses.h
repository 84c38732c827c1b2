// The last use of each allocation: converts ages on the recorder's clock, which counts allocations,
// into events of the device, and decides what is unknown. Until finish(), the lifetimes' column
// `unused_from` has the clock of the last use.
//
// A last use is known if every use from then on until the memory is freed was observed. It takes
// constant time per event, however often observation begins and ends.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

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
  void fork() { forked_ = clock_; }
  // The recorder counted allocations here that the file does not have.
  void lose_events();
  // Any records may be missing here.
  void lose_block();
  void allocated(const Allocation& allocation, bool is_adopted) {
    if (has_uses_) count(allocation, is_adopted);
  }
  // A free or free requested. `allocation` is null if the free ends none.
  void freed(const Allocation* allocation, bool is_in_op) {
    if (has_uses_) note_free(allocation, is_in_op);
  }
  void add(const format::EndUses& uses);
  void add(const Allocation& allocation, const format::EndUse& use) { set(end(allocation), use); }

  // `is_in_pool`: whether the allocation is in a private pool, whose memory CUDA graphs use.
  template <typename IsInPool>
  void finish(const base::Column<Allocation>& allocations, IsInPool&& is_in_pool) {
    if (!has_uses_) return;
    for (const Allocation& allocation : allocations) {
      resolve(allocation, is_in_pool(allocation));
    }
  }
  std::size_t memory_bytes() const;

 private:
  // An allocation and what is known where it ends.
  struct Ended {
    Allocation allocation;
    std::uint32_t clock = 0;
    std::uint32_t known_from = 0;
  };

  Ended end(const Allocation& allocation) const {
    return {allocation, clock_, known_from(allocation)};
  }
  std::uint32_t known_from(const Allocation& allocation) const;
  void count(const Allocation& allocation, bool is_adopted);
  void note_free(const Allocation* allocation, bool is_in_op);
  void set(const Ended& ended, const format::EndUse& use);
  void resolve(const Allocation& allocation, bool is_unseen);
  std::uint32_t first_alloc_after(std::uint8_t device, std::uint32_t clock) const;

  const DeviceTables& tables_;
  bool has_uses_ = false;
  std::uint32_t clock_ = 0;
  std::array<base::Column<std::uint32_t>, 256> born_;  // by device and lifetime: the clock
  // The last frees; nullopt: of an allocation that is not in the file.
  std::array<std::optional<Ended>, format::EndUses::kMost> freed_{};
  std::size_t frees_ = 0;
  bool is_observed_ = false;
  std::uint32_t known_from_ = 0;  // the clock when observation last began, or events were lost
  std::uint32_t forked_ = 0;      // the clock at the last fork
};

}  // namespace plimsoll::readers::native

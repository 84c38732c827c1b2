// The state of each site within one block, kept by both the encoder and the decoder: the size, the
// padding and the address of its last allocation, and which site followed it. It is reset for each
// block, so that each block can be read on its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <type_traits>

#include "format/records.h"

namespace plimsoll::format {

struct SiteState {
  std::uint64_t size_bytes = 0;
  std::uint64_t address = 0;
  std::uint64_t padding_bytes = 0;
  std::uint32_t next_site = 0;
  std::uint32_t block = 0;  // the block that this state belongs to
};

class SiteMemory {
 public:
  SiteMemory() = default;
  SiteMemory(const SiteMemory&) = delete;
  SiteMemory& operator=(const SiteMemory&) = delete;
  ~SiteMemory() { std::free(states_); }

  // Resets the state. The first allocation of each site is encoded relative to `address`.
  void begin_block(std::uint64_t address) noexcept {
    last_address_ = address;
    last_site_ = 0;
    if (++block_ != 0) return;
    for (std::size_t site = 0; site < size_; ++site) states_[site] = SiteState{};
    block_ = 1;
  }

  // The site that followed the last occurrence of the current site.
  std::uint32_t predicted_site() const noexcept {
    if (last_site_ >= size_ || states_[last_site_].block != block_) return 0;
    return states_[last_site_].next_site;
  }

  // The state of a site in this block, valid until the next call. Null if memory for it cannot be
  // allocated.
  SiteState* at(std::uint32_t site) noexcept {
    if (site >= size_ && !grow(site)) return nullptr;
    SiteState* state = &states_[site];
    if (state->block != block_) *state = SiteState{0, last_address_, 0, 0, block_};
    return state;
  }

  void remember(SiteState* state, const Alloc& alloc) noexcept {
    const std::uint32_t site = alloc.site;
    state->size_bytes = alloc.size_bytes;
    state->address = alloc.address;
    state->padding_bytes = alloc.padding_bytes;
    last_address_ = alloc.address;
    if (last_site_ < size_) {
      SiteState* last = &states_[last_site_];
      if (last->block == block_) last->next_site = site;
    }
    last_site_ = site;
  }

 private:
  static_assert(std::is_trivially_copyable_v<SiteState>);

  bool grow(std::uint32_t site) noexcept {
    std::size_t size = size_ < 64 ? 64 : size_ * 2;
    if (size <= site) size = std::size_t{site} + 1;
    void* moved = std::realloc(static_cast<void*>(states_), size * sizeof(SiteState));
    if (moved == nullptr) return false;
    states_ = static_cast<SiteState*>(moved);
    for (; size_ < size; ++size_) states_[size_] = SiteState{};
    return true;
  }

  SiteState* states_ = nullptr;
  std::size_t size_ = 0;
  std::uint64_t last_address_ = 0;
  std::uint32_t last_site_ = 0;
  std::uint32_t block_ = 0;
};

}  // namespace plimsoll::format

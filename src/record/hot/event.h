// One event in a thread's ring: 48 bytes without pointers, written by a hook and read by the drain.
// Details of caching allocators' blocks do not fit: they take a second slot, which is published
// together with the first.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "format/records.h"
#include "plimsoll/recorder_c.h"

namespace plimsoll::record {

enum class Kind : std::uint8_t {
  kAlloc,
  kFree,
  kAdopt,
  kTag,
  kSetPhase,
  kMark,
  kFreeRequested,
  kDeviceFigure,
  // Kinds with details in the next slot:
  kAllocBlock,
  kAdoptBlock,
  kSegment,
  kOutOfMemory
};
constexpr bool has_details(Kind kind) { return kind >= Kind::kAllocBlock; }

inline constexpr unsigned kPhaseBits = 4, kAutogradBits = 2, kKindBits = 4;
inline constexpr unsigned kTickBits = 64 - kPhaseBits - kAutogradBits - kKindBits;
static_assert(static_cast<unsigned>(Kind::kOutOfMemory) < 1u << kKindBits);
inline constexpr std::uint64_t kTickMask = (std::uint64_t{1} << kTickBits) - 1;
inline constexpr std::uint64_t kMaxSizeBytes = (std::uint64_t{1} << 56) - 1;

struct Event {
  std::uint64_t stamp;    // ticks in the upper 54 bits, kind in 4, autograd in 2, phase in 4
  std::uint64_t address;  // mark, figure: its value; out of memory: free device memory
  std::uint64_t
      size;  // size in the upper 56 bits, device in 8; mark, figure: its kind in the upper bits
  std::uint32_t layer;  // as in plimsoll_context; figure: the name of the process
  std::uint32_t outer_op;
  std::uint32_t inner_op;
  std::uint32_t forward_op;
  std::uint32_t stack;
  std::uint32_t op_instance;  // adopt, tag: the tensor; figure: the process

  std::uint64_t slots() const { return has_details(kind()) ? 2 : 1; }
  Kind kind() const {
    return static_cast<Kind>((stamp >> (kPhaseBits + kAutogradBits)) & ((1u << kKindBits) - 1));
  }
  std::uint8_t autograd() const { return static_cast<std::uint8_t>((stamp >> kPhaseBits) & 3u); }
  std::uint8_t phase() const { return static_cast<std::uint8_t>(stamp & 15u); }
  std::uint64_t ticks() const { return stamp >> (64 - kTickBits); }  // only the lower 54 bits
  // Frees: the last use, in place of operators; autograd() is not 0 if there is one.
  void set_use(const format::EndUse& use) {
    stamp |= std::uint64_t{use.age_plus_one != 0} << kPhaseBits;
    outer_op = use.age_plus_one;
    inner_op = use.gap;
  }
  format::EndUse use() const {
    if (autograd() == 0) return {};
    return {outer_op, static_cast<std::uint8_t>(inner_op)};
  }
  std::uint64_t size_bytes() const { return size >> 8; }
  std::uint8_t device() const { return static_cast<std::uint8_t>(size & 255u); }
};
static_assert(sizeof(Event) == 48 && std::is_trivially_copyable_v<Event>);

struct EventDetails {
  std::uint64_t requested_bytes = 0;  // the event's own size is the block size
  std::uint64_t stream = 0;
  std::uint64_t limit_bytes = 0;         // out of memory
  std::uint64_t device_total_bytes = 0;  // out of memory
  std::uint32_t pool = 0;
  std::uint8_t action = 0;  // segment
  std::uint8_t unused[11] = {};
};
// Reinterprets a slot as details, or details as a slot.
inline EventDetails details_of(const Event& slot) { return std::bit_cast<EventDetails>(slot); }
inline Event slot_of(const EventDetails& details) { return std::bit_cast<Event>(details); }

inline std::uint64_t make_stamp(std::uint64_t ticks, Kind kind, std::uint8_t phase,
                                std::uint8_t autograd = PLIMSOLL_AUTOGRAD_UNKNOWN) {
  return ticks << (64 - kTickBits) |
         std::uint64_t{static_cast<std::uint8_t>(kind)} << (kPhaseBits + kAutogradBits) |
         (autograd & 3u) << kPhaseBits | (phase & 15u);
}

inline std::uint64_t make_size(std::uint64_t size_bytes, std::uint8_t device) {
  return (size_bytes < kMaxSizeBytes ? size_bytes : kMaxSizeBytes) << 8 | device;
}

// The full tick count of an event within 2^53 ticks of `now`: a month at 3 GHz.
inline std::uint64_t full_ticks(std::uint64_t low, std::uint64_t now) {
  const std::uint64_t ago = (now - low) & kTickMask;
  const bool is_ahead = (ago >> (kTickBits - 1)) != 0;
  return is_ahead ? now + ((low - now) & kTickMask) : now - ago;
}

}  // namespace plimsoll::record

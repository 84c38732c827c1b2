// EventDecoder passes the events of successive blocks to a visitor. Each block is decoded on its
// own; the object only reuses its tables between blocks. It needs only std and is noexcept if the
// visitor is, so the recorder can also read back its own blocks.
//
//   struct Sum : format::NoEvents { void on_alloc(const format::Alloc& alloc) noexcept {...} };
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include "format/block.h"
#include "format/end_uses.h"
#include "format/fields.h"
#include "format/records.h"
#include "format/site_memory.h"
#include "format/wire.h"

namespace plimsoll::format {

// A base for visitors: override only the events of interest.
struct NoEvents {
#define PLIMSOLL_FAMILY(Struct, method, number) \
  void on_##method(const Struct&) noexcept {}
#define PLIMSOLL_EVENT(Struct, method, number, meaning) \
  void on_##method(const Struct&) noexcept {}
#include "format/records.def"
  // Of the last frees and free requests that were not in their operator, in order.
  void on_uses(const EndUses&) noexcept {}
};

class EventDecoder {
 public:
  enum class Outcome : std::uint8_t {
    kWhole,
    kBroken,   // events before the broken record have been passed on
    kNoMemory  // the same
  };

  // Blocks that refer to a site beyond this number are broken. This limits the memory that hostile
  // input can claim.
  void set_site_limit(std::uint64_t limit) noexcept { site_limit_ = limit; }

  // `payload` is what follows the block's head; its checksum has already been verified.
  template <typename Visitor>
  Outcome decode(std::span<const std::byte> payload, Visitor& visitor) {
    unknown_records_ = 0;
    const std::byte* const end = payload.data() + payload.size();
    // The last records are read from a padded copy, so that no read needs a bounds check.
    const std::size_t tail_bytes = payload.size() < kTailBytes ? payload.size() : kTailBytes;
    std::array<std::byte, kTailBytes + 2 * kMaxEventBytes> tail{};
    if (tail_bytes > 0) std::memcpy(tail.data(), end - tail_bytes, tail_bytes);
    const std::byte* const tail_end = tail.data() + tail_bytes;

    const bool is_short = tail_bytes == payload.size();
    const std::byte* at = is_short ? tail.data() : payload.data();
    at = take_bases(at);
    if (at > (is_short ? tail_end : end)) return Outcome::kBroken;
    if (!is_short) {
      at = run(at, end - kTailBytes, end, visitor);
      if (at == nullptr) return failure_;
      // A skipped record may end anywhere after that, as long as it is inside the block.
      const auto left = static_cast<std::size_t>(end - at);
      at = tail_end - left;
    }
    return run(at, tail_end, tail_end, visitor) == nullptr ? failure_ : Outcome::kWhole;
  }

  // The number of records in the last block that were skipped because they are from a later
  // version.
  std::uint64_t unknown_records() const noexcept { return unknown_records_; }

 private:
  static constexpr std::size_t kTailBytes = 4 * kMaxEventBytes;

  const std::byte* take_bases(const std::byte* at) noexcept {
    state_.time_ns = unzigzag(take_varint(at));
    state_.thread = static_cast<std::uint32_t>(take_varint(at));
    state_.next_serial = take_varint(at);
    sites_.begin_block(take_varint(at));
    prediction_.begin_block();
    return at;
  }

  // Passes on the records that begin before `stop`; none may extend past `end`. Returns the
  // position after the last one, or null.
  template <typename Visitor>
  const std::byte* run(const std::byte* at, const std::byte* stop, const std::byte* end,
                       Visitor& visitor) {
    failure_ = Outcome::kBroken;
    while (at < stop) {
      const auto first = std::to_integer<unsigned>(*at++);
      switch (static_cast<Family>(first & kFamilyMask)) {
        case Family::kAlloc:
          at = alloc(at, end, first, visitor);
          break;
        case Family::kFree:
        case Family::kFreeRequested:
          at = free(at, end, first, visitor);
          break;
        case Family::kOther:
          at = other(at, end, first >> 2, visitor);
          break;
      }
      if (at == nullptr) return nullptr;
    }
    return at;
  }

  template <typename Visitor>
  const std::byte* alloc(const std::byte* at, const std::byte* end, unsigned first,
                         Visitor& visitor) {
    Alloc event;
    state_.pass_time(take_varint(at));
    const std::uint64_t site =
        (first & kPredictedSite) != 0 ? sites_.predicted_site() : take_varint(at);
    if (site >= site_limit_) return nullptr;
    event.site = static_cast<std::uint32_t>(site);
    SiteState* const state = sites_.at(event.site);
    if (state == nullptr) {
      failure_ = Outcome::kNoMemory;
      return nullptr;
    }
    event.size_bytes = (first & kSameSize) != 0 ? state->size_bytes : take_varint(at);
    event.address = state->address;
    if ((first & kSameAddress) == 0) {
      const auto step = static_cast<std::uint64_t>(unzigzag(take_varint(at)));
      event.address +=
          (first & kAddressInBytes) != 0 ? step : step * static_cast<std::uint64_t>(kAddressUnit);
    }
    event.padding_bytes = (first & kOtherPadding) != 0
                              ? static_cast<std::uint64_t>(unzigzag(take_varint(at)))
                              : state->padding_bytes;
    if (at > end) return nullptr;
    event.time_ns = state_.time_ns;
    event.thread = state_.thread;
    event.serial = state_.next_serial++;
    event.is_adopted = (first & kAdopted) != 0;
    sites_.remember(state, event);
    visitor.on_alloc(event);
    return at;
  }

  template <typename Visitor>
  const std::byte* free(const std::byte* at, const std::byte* end, unsigned first,
                        Visitor& visitor) {
    Free event;
    state_.pass_time(take_varint(at));
    std::uint64_t steps = first >> kBackShift;
    if (steps == kBackFollows) steps += take_varint(at);
    if (at > end) return nullptr;
    event.time_ns = state_.time_ns;
    event.thread = state_.thread;
    event.serial = state_.back(steps);
    event.in_op = (first & kInOp) != 0;
    if (!event.in_op) prediction_.freed(steps);
    if (static_cast<Family>(first & kFamilyMask) == Family::kFree) {
      visitor.on_free(event);
    } else {
      visitor.on_free_requested(
          FreeRequested{event.time_ns, event.thread, event.serial, event.in_op});
    }
    return at;
  }

  template <typename Visitor>
  const std::byte* other(const std::byte* at, const std::byte* end, unsigned kind,
                         Visitor& visitor) {
    if (kind >= kFirstSkippableEventKind) return skippable(at, end, kind, visitor);
    RawFields fields{at};
    switch (static_cast<EventKind>(kind)) {
      case EventKind::kSetTime:
        state_.pass_time(static_cast<std::uint64_t>(fields.signed_varint()));
        break;
      case EventKind::kSetThread:
        state_.thread = static_cast<std::uint32_t>(fields.varint());
        break;
      case EventKind::kSetSerial:
        state_.next_serial += static_cast<std::uint64_t>(fields.signed_varint());
        break;
      case EventKind::kFreeUnknown: {
        Free event;
        wire::Time::take(fields, state_, event, event.time_ns);
        event.thread = state_.thread;
        event.address = fields.varint();
        if (at <= end) visitor.on_free(event);
        break;
      }
#define PLIMSOLL_EVENT(Struct, method, number, meaning)     \
  case EventKind::k##Struct: {                              \
    const auto event = take_fields<Struct>(fields, state_); \
    if (at <= end) visitor.on_##method(event);              \
    break;                                                  \
  }
#define PLIMSOLL_SKIPPABLE_EVENT(Struct, method, number, meaning)
#include "format/records.def"
      default:
        return nullptr;
    }
    return at <= end ? at : nullptr;
  }

  template <typename Visitor>
  const std::byte* skippable(const std::byte* at, const std::byte* end, unsigned kind,
                             Visitor& visitor) {
    const std::uint64_t length = take_varint(at);
    if (at > end || length > static_cast<std::uint64_t>(end - at)) return nullptr;
    // A padded copy of the fields, so that no read needs a bounds check.
    std::array<std::byte, 2 * kTailBytes> copy{};
    const std::size_t size = length < kTailBytes ? static_cast<std::size_t>(length) : kTailBytes;
    if (size > 0) std::memcpy(copy.data(), at, size);
    const std::byte* field = copy.data();
    const std::byte* const fields_end = copy.data() + size;
    RawFields fields{field};
    switch (static_cast<EventKind>(kind)) {
#define PLIMSOLL_EVENT(Struct, method, number, meaning)
#define PLIMSOLL_SKIPPABLE_EVENT(Struct, method, number, meaning) \
  case EventKind::k##Struct: {                                    \
    const auto event = take_fields<Struct>(fields, state_);       \
    if (field <= fields_end) visitor.on_##method(event);          \
    break;                                                        \
  }
#include "format/records.def"
      case EventKind::kUses: {
        const EndUses uses = prediction_.take(field);
        if (field <= fields_end) visitor.on_uses(uses);
        break;
      }
      default:
        ++unknown_records_;
    }
    return at + length;
  }

  SiteMemory sites_;
  std::uint64_t site_limit_ = std::uint64_t{1} << 32;
  UsePrediction prediction_;
  BlockState state_;
  std::uint64_t unknown_records_ = 0;
  Outcome failure_ = Outcome::kBroken;
};

}  // namespace plimsoll::format

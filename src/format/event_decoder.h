// EventDecoder: the events of one block after the other, passed to a visitor. Each block is read
// alone; the object only keeps its tables from block to block. Std only and noexcept if the visitor
// is, so the recorder can read its own blocks, too.
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
#include "format/records.h"
#include "format/site_memory.h"
#include "format/wire.h"

namespace plimsoll::format {

// A visitor that derives from this says only what it wants to hear.
struct NoEvents {
  void on_alloc(const Alloc&) noexcept {}
  void on_free(const Free&) noexcept {}
  void on_free_requested(const FreeRequested&) noexcept {}
  void on_segment(const Segment&) noexcept {}
  void on_out_of_memory(const OutOfMemory&) noexcept {}
  void on_device_figure(const DeviceFigure&) noexcept {}
  void on_tag(const Tag&) noexcept {}
  void on_set_phase(const SetPhase&) noexcept {}
  void on_mark(const Mark&) noexcept {}
  void on_dropped(const Dropped&) noexcept {}
  void on_evicted(const Evicted&) noexcept {}
};

class EventDecoder {
 public:
  enum class Outcome : std::uint8_t {
    kWhole,
    kBroken,   // what came before the broken record was told
    kNoMemory  // the same
  };

  // Sites beyond this number make a block broken: it bounds what a hostile one makes us hold.
  void set_site_limit(std::uint64_t limit) noexcept { site_limit_ = limit; }

  // `payload` is what stands behind the block's head, its checksum compared already.
  template <typename Visitor>
  Outcome decode(std::span<const std::byte> payload, Visitor& visitor) {
    unknown_records_ = 0;
    const std::byte* const end = payload.data() + payload.size();
    // The last records are read from a copy with room behind it, so that no read needs a check.
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
      // A skipped record may end anywhere behind, as long as it is within the block.
      const auto left = static_cast<std::size_t>(end - at);
      at = tail_end - left;
    }
    return run(at, tail_end, tail_end, visitor) == nullptr ? failure_ : Outcome::kWhole;
  }

  // Of the last block: records of a later version that were skipped.
  std::uint64_t unknown_records() const noexcept { return unknown_records_; }

 private:
  static constexpr std::size_t kTailBytes = 4 * kMaxEventBytes;

  const std::byte* take_bases(const std::byte* at) noexcept {
    time_ns_ = unzigzag(take_varint(at));
    thread_ = static_cast<std::uint32_t>(take_varint(at));
    next_serial_ = take_varint(at);
    sites_.begin_block(take_varint(at));
    return at;
  }

  // Tells the records that begin before `stop`; none may go beyond `end`. Where it stopped, or
  // null.
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
    pass_time(take_varint(at));
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
    event.slack_bytes = (first & kOtherSlack) != 0
                            ? static_cast<std::uint64_t>(unzigzag(take_varint(at)))
                            : state->slack_bytes;
    if (at > end) return nullptr;
    event.time_ns = time_ns_;
    event.thread = thread_;
    event.serial = next_serial_++;
    event.is_adopted = (first & kAdopted) != 0;
    sites_.remember(state, event);
    visitor.on_alloc(event);
    return at;
  }

  template <typename Visitor>
  const std::byte* free(const std::byte* at, const std::byte* end, unsigned first,
                        Visitor& visitor) {
    Free event;
    pass_time(take_varint(at));
    std::uint64_t steps = first >> kBackShift;
    if (steps == kBackFollows) steps += take_varint(at);
    if (at > end) return nullptr;
    event.time_ns = time_ns_;
    event.thread = thread_;
    event.serial = serial_back(steps);
    event.in_op = (first & kInOp) != 0;
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
    if (kind >= kFirstSkippableEventKind) {
      const std::uint64_t length = take_varint(at);
      if (at > end || length > static_cast<std::uint64_t>(end - at)) return nullptr;
      if (static_cast<EventKind>(kind) == EventKind::kDeviceFigure) {
        device_figure({at, static_cast<std::size_t>(length)}, visitor);
      } else {
        ++unknown_records_;
      }
      return at + length;
    }
    switch (static_cast<EventKind>(kind)) {
      case EventKind::kSetTime:
        pass_time(static_cast<std::uint64_t>(unzigzag(take_varint(at))));
        break;
      case EventKind::kSetThread:
        thread_ = static_cast<std::uint32_t>(take_varint(at));
        break;
      case EventKind::kSetSerial:
        next_serial_ += static_cast<std::uint64_t>(unzigzag(take_varint(at)));
        break;
      case EventKind::kFreeUnknown: {
        Free event;
        take_time(at, event);
        event.address = take_varint(at);
        if (at <= end) visitor.on_free(event);
        break;
      }
      case EventKind::kTag: {
        Tag event;
        event.serial = serial_back(take_varint(at));
        event.tensor = static_cast<std::uint32_t>(take_varint(at));
        if (at <= end) visitor.on_tag(event);
        break;
      }
      case EventKind::kSetPhase: {
        SetPhase event;
        event.serial = serial_back(take_varint(at));
        event.phase = std::to_integer<std::uint8_t>(*at++);
        if (at <= end) visitor.on_set_phase(event);
        break;
      }
      case EventKind::kMark: {
        Mark event;
        take_time(at, event);
        event.kind = std::to_integer<std::uint8_t>(*at++);
        event.value = take_varint(at);
        if (at <= end) visitor.on_mark(event);
        break;
      }
      case EventKind::kDropped: {
        Dropped event;
        take_time(at, event);
        event.count = take_varint(at);
        if (at <= end) visitor.on_dropped(event);
        break;
      }
      case EventKind::kEvicted: {
        Evicted event;
        event.count = take_varint(at);
        if (at <= end) visitor.on_evicted(event);
        break;
      }
      case EventKind::kSegment: {
        Segment event;
        take_time(at, event);
        event.site = static_cast<std::uint32_t>(take_varint(at));
        event.action = std::to_integer<std::uint8_t>(*at++);
        event.device = std::to_integer<std::uint8_t>(*at++);
        event.address = take_varint(at);
        event.size_bytes = take_varint(at);
        if (at <= end) visitor.on_segment(event);
        break;
      }
      case EventKind::kOutOfMemory: {
        OutOfMemory event;
        take_time(at, event);
        event.site = static_cast<std::uint32_t>(take_varint(at));
        event.size_bytes = take_varint(at);
        event.device_free_bytes = take_varint(at);
        event.limit_bytes = take_varint(at);
        event.device_total_bytes = take_varint(at);
        if (at <= end) visitor.on_out_of_memory(event);
        break;
      }
      default:
        return nullptr;
    }
    return at <= end ? at : nullptr;
  }

  // Its fields, whatever stands behind them.
  template <typename Visitor>
  void device_figure(std::span<const std::byte> fields, Visitor& visitor) {
    std::array<std::byte, 2 * kMaxEventBytes> copy{};  // with room: no read needs a check
    const std::size_t size = fields.size() < kMaxEventBytes ? fields.size() : kMaxEventBytes;
    if (size > 0) std::memcpy(copy.data(), fields.data(), size);
    const std::byte* at = copy.data();
    DeviceFigure event;
    event.time_ns =
        static_cast<std::int64_t>(static_cast<std::uint64_t>(time_ns_) +
                                  static_cast<std::uint64_t>(unzigzag(take_varint(at))));
    event.device = std::to_integer<std::uint8_t>(*at++);
    event.figure = std::to_integer<std::uint8_t>(*at++);
    event.value = take_varint(at);
    event.pid = static_cast<std::uint32_t>(take_varint(at));
    event.name = static_cast<std::uint32_t>(take_varint(at));
    if (at <= copy.data() + size) visitor.on_device_figure(event);
  }

  template <typename Event>
  void take_time(const std::byte*& at, Event& event) noexcept {
    pass_time(take_varint(at));
    event.time_ns = time_ns_;
    event.thread = thread_;
  }
  void pass_time(std::uint64_t step_ns) noexcept {
    time_ns_ = static_cast<std::int64_t>(static_cast<std::uint64_t>(time_ns_) + step_ns);
  }
  std::uint64_t serial_back(std::uint64_t steps) const noexcept { return next_serial_ - 1 - steps; }

  SiteMemory sites_;
  std::uint64_t site_limit_ = std::uint64_t{1} << 32;
  std::int64_t time_ns_ = 0;
  std::uint32_t thread_ = 0;
  std::uint64_t next_serial_ = 0;
  std::uint64_t unknown_records_ = 0;
  Outcome failure_ = Outcome::kBroken;
};

}  // namespace plimsoll::format

// The ledger interprets the events of all threads, in order: which allocation a free ends, what is
// live, what was temporary. It passes the resulting events to each receiver.
//
// The rules. An allocation at a live address ends the older one (a free was missed). A free of an
// unknown address is reported as such. Adopting a live allocation only tags it; tagging one that is
// not live does nothing. A free on the thread and within the operator of its allocation is marked
// in_op. A retroactive phase applies to everything that the thread's running operator allocated.
//
// For a caching allocator, sizes are block sizes. A freed block that waits for a stream is active
// but not live. A free without an earlier free request ends both states.
//
// One thread at a time. Functions may throw std::bad_alloc; after that the ledger is unusable.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "format/records.h"
#include "format/segment_set.h"
#include "record/hot/event.h"
#include "record/hot/op_log.h"
#include "record/ledger/peak_spans.h"
#include "record/ledger/probe_table.h"
#include "record/ledger/site_table.h"
#include "record/ledger/step_floors.h"

namespace plimsoll::record {

// Live memory, on all devices together and on the device of the current event.
struct LiveTotals {
  std::uint64_t bytes = 0;
  std::uint64_t device_bytes = 0;
  std::uint64_t device_reserved_bytes = 0;
  UseBytes uses{};                // of device_bytes
  std::uint64_t next_serial = 0;  // of the next allocation
  std::uint8_t device = 0;
  std::uint8_t phase = 0;  // of the current event
};

class EventReceiver {
 public:
  virtual void on_alloc(const format::Alloc& event, const LiveTotals& live) noexcept = 0;
  // `last`: the last use of the memory, if it is known.
  virtual void on_free(const format::Free& event, const format::EndUse& last) noexcept = 0;
  virtual void on_free_requested(const format::FreeRequested& event,
                                 const format::EndUse& last) noexcept = 0;
  virtual void on_use(const UseChange& change) noexcept = 0;
  // Called before the event that ended it.
  virtual void on_ended(const Ended& ended) noexcept = 0;
  // Called before the segment event that changed them.
  virtual void on_reserved(const LiveTotals& live) noexcept = 0;
  // on_segment(), on_mark() and so on.
#define PLIMSOLL_EVENT(Struct, method, number, meaning) \
  virtual void on_##method(const format::Struct& event) noexcept = 0;
#include "format/records.def"

 protected:
  ~EventReceiver() = default;
};

struct DeviceTotals {
  std::uint64_t live_bytes = 0;  // blocks, as the allocator counts them
  std::uint64_t live_count = 0;
  std::uint64_t requested_bytes = 0;  // of live blocks
  std::uint64_t active_bytes = 0;     // including blocks that wait for a stream
  std::uint64_t reserved_bytes = 0;
  UseBytes uses{};            // of live_bytes
  bool has_segments = false;  // a segment event has been seen
};

struct LiveKey {
  std::uint64_t address = 0;
  std::uint8_t device = 0;
  friend bool operator==(const LiveKey&, const LiveKey&) = default;
};

struct LiveRow {
  std::uint64_t address = 0;     // 0: an empty row
  std::uint64_t size_bytes = 0;  // of the block
  std::uint64_t requested_bytes = 0;
  std::uint64_t serial = 0;
  std::uint32_t thread = 0;
  std::uint32_t op_instance = 0;
  std::uint32_t site = 0;
  std::uint32_t tensor = 0;
  std::uint8_t device = 0;
  bool is_adopted = false;
  bool is_pending = false;  // freed, but waits for a stream

  LiveKey key() const { return {address, device}; }
  bool is_empty() const { return address == 0; }
  void make_empty() { address = 0; }
  static std::uint64_t hash(const LiveKey& key) {
    return base::hash_u64(key.address ^ std::uint64_t{key.device} << 56);
  }
};

// Where an event comes from.
struct Origin {
  std::int64_t time_ns = 0;
  std::uint32_t thread = 0;
  OpLog* op_log = nullptr;
};

// The live memory when a step ended.
struct StepEnd {
  std::uint64_t step = 0;
  std::vector<UseBytes> uses;  // by device
};

class Ledger {
 public:
  // `slot` is the ring slot after the event; it has the details of an event that has them.
  void apply(const Event& event, const Event& slot, const Origin& origin,
             std::span<EventReceiver* const> receivers);

  const ProbeTable<LiveRow>& rows() const { return rows_; }  // live and pending
  const format::SegmentSet& segments() const { return segments_; }
  std::uint64_t live_bytes() const { return live_bytes_; }
  std::uint64_t live_count() const { return live_count_; }
  // By device, the CPU first, up to the highest one seen.
  std::span<const DeviceTotals> devices() const { return {devices_.data(), device_count_}; }
  std::uint64_t next_serial() const { return next_serial_; }
  const SiteTable& sites() const { return sites_; }
  std::uint64_t replaced() const { return replaced_; }
  std::uint64_t unmatched() const { return unmatched_; }
  // The roles of all tensors so far, by id - 1. The recorder keeps them up to date.
  std::vector<std::uint8_t>& roles() { return roles_; }

  // The last failed request on the device, or null.
  const format::OutOfMemory* last_failure(std::uint8_t device) const;
  // Live memory by role at the end of the last step, or null before the first.
  const StepEnd* last_step() const { return last_step_ ? &*last_step_ : nullptr; }
  // Whether live memory was found to grow from step to step since the last call.
  bool take_growth() { return std::exchange(has_grown_, false); }
  // Allocations with a lower serial were live in a child of the last fork, unless they had ended.
  std::uint64_t fork_serial() const { return fork_serial_; }

  // Resets live allocations and segments to none.
  void forget_live();

 private:
  using Receivers = std::span<EventReceiver* const>;

  void alloc(const Event& event, const EventDetails& details, const Origin& origin,
             std::uint32_t op_instance, Receivers receivers);
  void remember(const LiveRow& row, OpLog& log);
  void free(const Event& event, const Origin& origin, Receivers receivers);
  void free_requested(const Event& event, const Origin& origin, Receivers receivers);
  void end_older(const LiveRow* row, const Origin& origin, Receivers receivers);
  void adopt(const Event& event, const EventDetails& details, const Origin& origin,
             Receivers receivers);
  void segment(const Event& event, const EventDetails& details, const Origin& origin,
               Receivers receivers);
  void out_of_memory(const Event& event, const EventDetails& details, const Origin& origin,
                     Receivers receivers);
  void tag(LiveRow* row, std::uint32_t tensor, Receivers receivers);
  void set_phase(const Event& event, const Origin& origin, Receivers receivers);
  void mark(const Event& event, const Origin& origin, Receivers receivers);
  bool has_precedence(std::uint32_t tensor, std::uint32_t than) const;
  std::uint8_t role_of(std::uint32_t tensor) const;
  void begin_life(const LiveRow& row);
  enum class Where : std::uint8_t { kInItsOperator, kElsewhere };
  void end_live(const LiveRow& row, Where where, Receivers receivers);
  void end_life(const LiveRow* row, Where where, Receivers receivers);
  std::uint8_t use_of(const LiveRow& row) const;
  void change_use(const LiveRow& row, std::uint8_t before, Receivers receivers);
  DeviceTotals& totals_of(std::uint8_t device);
  LiveTotals live_totals(std::uint8_t device) const;

  ProbeTable<LiveRow> rows_;
  format::SegmentSet segments_;
  std::uint64_t live_bytes_ = 0;
  std::uint64_t live_count_ = 0;
  std::array<DeviceTotals, 256> devices_{};
  std::size_t device_count_ = 1;  // the CPU always exists
  SiteTable sites_;
  std::uint64_t next_serial_ = 0;
  std::uint64_t fork_serial_ = 0;
  std::uint64_t replaced_ = 0;
  std::uint64_t unmatched_ = 0;
  std::vector<std::uint8_t> roles_;
  std::map<std::uint8_t, format::OutOfMemory> failures_;
  std::optional<StepEnd> last_step_;
  StepFloors floors_;
  bool has_grown_ = false;
};

}  // namespace plimsoll::record

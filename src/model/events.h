// The events of a device as columns: one row per event, in the order of the allocator (which is
// authoritative; times of different threads may go backwards slightly). Facts known only in
// hindsight are in the columns of the lifetimes (trace.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/column.h"
#include "model/ids.h"
#include "model/sites.h"

namespace plimsoll::model {

enum class Action : std::uint8_t {
  kAlloc,
  kFreeRequested,  // the program has freed it
  kFreeCompleted,  // the allocator may reuse it (later only if a stream was still using it)
  kSegmentAlloc,   // cudaMalloc
  kSegmentFree,    // cudaFree
  kSegmentMap,     // expandable segments: a range was mapped
  kSegmentUnmap,
  kSnapshot,
  kOom,  // `address` is the device's free bytes, `size_bytes` the request
  kAnnotate,
  kFree,     // requested and completed simultaneously: the allocator does not wait for streams
  kUnknown,  // an action of a later version: kept and counted, not interpreted
};

const char* to_string(Action action);  // PyTorch's name in snapshots, if it has one

constexpr bool is_free_requested(Action action) {
  return action == Action::kFreeRequested || action == Action::kFree;
}
constexpr bool is_free_completed(Action action) {
  return action == Action::kFreeCompleted || action == Action::kFree;
}

// A single event, as readers add it and passes read it: its site and its data.
struct Event : Site {
  Action action = Action::kUnknown;
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;  // alloc and free: requested bytes; segments: segment bytes
  std::int64_t time_ns = kNoTime;
  StringId user_metadata;
  std::uint64_t padding_bytes = 0;  // alloc and free: block size minus requested size
  ShortageId shortage;              // kOom: the limits of the process and the device
};

// A column that takes no memory until a row differs from the default.
template <typename Value, Value kDefault = Value{}>
class OptionalColumn {
 public:
  Value operator[](std::size_t row) const { return row < rows_.size() ? rows_[row] : kDefault; }
  bool present() const { return !rows_.empty(); }
  void set(std::size_t row, Value value) {
    if (value == kDefault) return;
    if (row >= rows_.size()) rows_.resize(row + 1, kDefault);
    rows_[row] = value;
  }
  // The first `count` rows, writable, for filling many rows in one loop.
  Value* rows(std::size_t count) {
    if (count > rows_.size()) rows_.resize(count, kDefault);
    return rows_.data();
  }
  // Appends the `count` rows from `first` on to `to`, which has `to_size` rows.
  void append_to(OptionalColumn& to, std::size_t to_size, std::size_t first,
                 std::size_t count) const {
    const std::size_t end = std::min(first + count, rows_.size());
    if (first >= end) return;
    to.rows_.resize(to_size, kDefault);
    to.rows_.append(rows_.span(first, end - first));
  }
  // Inserts default rows before all others.
  void shift(std::size_t count) {
    if (count == 0 || !present()) return;
    OptionalColumn shifted;
    append_to(shifted, count, 0, rows_.size());
    *this = std::move(shifted);
  }
  void truncate(std::size_t count) {
    if (count < rows_.size()) rows_.resize(count);
  }
  std::size_t memory_bytes() const { return rows_.memory_bytes(); }

 private:
  base::Column<Value> rows_;
};

// The events of one device.
struct Events {
  base::Column<Action> action;
  base::Column<std::uint64_t> address;
  base::Column<std::uint64_t> size_bytes;
  base::Column<std::int64_t> time_ns;
  base::Column<SiteId> site;
  OptionalColumn<StringId> user_metadata;
  // Empty unless the device's events have block sizes; the final blocks of a snapshot are in
  // Trace::blocks.
  OptionalColumn<std::uint64_t> padding_bytes;
  OptionalColumn<ShortageId> shortage;

  std::size_t size() const { return action.size(); }
  // `where` is the site of the event.
  void push_back(const Event& event, SiteId where) {
    const std::size_t row = action.size();
    push_back_plain(event.action, event.address, event.size_bytes, event.time_ns, where);
    user_metadata.set(row, event.user_metadata);
    padding_bytes.set(row, event.padding_bytes);
    shortage.set(row, event.shortage);
  }
  // Appends a row without rare fields.
  void push_back_plain(Action what, std::uint64_t address_of, std::uint64_t bytes,
                       std::int64_t when_ns, SiteId where) {
    if (size() == room_) make_room();
    action.push_back_reserved(what);
    address.push_back_reserved(address_of);
    size_bytes.push_back_reserved(bytes);
    time_ns.push_back_reserved(when_ns);
    site.push_back_reserved(where);
  }
  void append(const Events& from, std::size_t first, std::size_t count);
  void truncate(std::size_t count);
  // Moves the rows from `first` on into a new table.
  Events split_off(std::size_t first);
  std::size_t memory_bytes() const;

 private:
  void make_room();

  std::size_t room_ = 0;  // each column has memory for at least this many rows
};

}  // namespace plimsoll::model

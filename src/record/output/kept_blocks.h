// The newest blocks of a trace, in memory. When a block is evicted, a base state takes over the
// allocations that are still live at its end, so that the later events remain exact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "format/encoder.h"
#include "format/event_decoder.h"
#include "format/file_state.h"
#include "format/records.h"
#include "format/segment_set.h"
#include "record/ledger/probe_table.h"

namespace plimsoll::record {

class KeptBlocks {
 public:
  // Keeps blocks with at least N of the newest events; 0: all.
  explicit KeptBlocks(std::uint64_t max_events) : max_events_(max_events) {}

  // May throw std::bad_alloc.
  void add(const format::FinishedBlock& block);
  std::uint64_t evicted() const { return evicted_; }  // records
  // Evicted allocations, frees, segments and failed requests, as reports count them.
  std::uint64_t evicted_events() const { return evicted_events_; }
  std::int64_t evicted_until_ns() const { return evicted_until_ns_; }
  // Whether anything that was added is missing in the result of assemble().
  bool has_forgotten() const { return evicted_ > 0 || has_replaced_attachment_; }

  // Returns the trace as a file would have it, allocated with malloc; null if memory runs out.
  std::byte* assemble(const format::FileState& state, std::size_t& size_bytes) const;

 private:
  struct Block {
    std::vector<std::byte> bytes;
    std::uint32_t events = 0;
  };
  struct BaseRow {
    format::Alloc alloc;
    format::FreeRequested requested;
    std::uint32_t tensor = 0;
    std::uint8_t phase = 0;
    bool has_phase = false;   // set retroactively
    bool is_pending = false;  // `requested` is the time of the request
    bool is_used = false;

    std::uint64_t key() const { return alloc.serial; }
    bool is_empty() const { return !is_used; }
    void make_empty() { is_used = false; }
    static std::uint64_t hash(std::uint64_t serial) { return base::hash_u64(serial); }
  };
  struct Fold;  // a visitor
  struct TimePoint;

  void add_attachment(std::span<const std::byte> block);
  void evict_front();
  std::vector<TimePoint> points(std::span<const BaseRow> rows) const;
  void encode_base(format::Encoder& encoder) const;

  const std::uint64_t max_events_;
  std::vector<std::byte> definitions_;  // blocks, all of them
  std::deque<Block> blocks_;
  std::map<std::string, std::vector<std::byte>> attachments_;  // blocks, by name
  std::vector<std::byte> end_;
  std::uint64_t events_ = 0;  // in blocks_
  std::uint64_t evicted_ = 0;
  std::uint64_t evicted_events_ = 0;
  std::int64_t evicted_until_ns_ = 0;
  bool has_replaced_attachment_ = false;
  ProbeTable<BaseRow> base_;
  format::SegmentSet base_segments_;
  format::Dropped dropped_;  // in evicted blocks
  format::EventDecoder decoder_;
};

}  // namespace plimsoll::record

// SnapshotRecords recognizes the dicts and lists of a snapshot by their keys as the machine
// completes them, and converts them into rows: frames, stacks and sites are interned, and events
// become rows of one table, from which the walk takes those of each device. A trace of millions of
// events therefore never exists as millions of dicts.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/diagnostics.h"
#include "model/trace_builder.h"
#include "readers/torch_snapshot/pickle_machine.h"
#include "readers/torch_snapshot/snapshot_keys.h"

namespace plimsoll::readers::torch_snapshot {

struct RawBlock {
  model::Block block;
  bool has_address = false;  // torch 2.0 does not write it: blocks are contiguous
};

class SnapshotRecords final : public RecordMaker {
 public:
  SnapshotRecords(model::TraceBuilder& builder, base::Diagnostics& diagnostics);

  Value from_dict(std::span<const Value> items, PickleArena& arena) override;
  Value from_list(std::span<const Value> items, PickleArena& arena) override;
  bool extend(Value& list, std::span<const Value> items, PickleArena& arena) override;
  Items to_items(const Value& list, const PickleArena& arena) const override;
  std::uint64_t memory_bytes() const override;

  const SnapshotKeys& keys() const { return keys_; }
  const RawBlock& block(const Value& value) const { return blocks_[value.bits]; }
  model::Events& events() { return events_; }  // in the order of the file

  // Converts one value. A missing or impossible value is counted, and becomes zero or unknown.
  std::uint64_t unsigned_of(const Fields& fields, Key key, const char* record);
  model::StackId stack_of(const Fields& fields, const PickleArena& arena);
  model::StringId string_of(const Fields& fields, Key key);
  model::StringId text_if_any(const Fields& fields, Key key, const char* name);
  std::int64_t time_ns_of(const Fields& fields);
  model::PoolId pool_of(const Fields& fields, Key key, const PickleArena& arena);
  model::StreamId stream_of(const Fields& fields);
  void bad_value(std::string_view record);
  void unknown_key(std::string_view record, const Value& key);

 private:
  Value make_event(const Fields& fields, const PickleArena& arena);
  Value make_frame(const Fields& fields, std::span<const Value> items);
  void split_profiler_name(model::Frame& frame);
  Value make_block(const Fields& fields, const PickleArena& arena);
  void read_history(const Value& history, const PickleArena& arena, RawBlock& raw,
                    bool has_requested);
  model::Action action_of(const Value& value);
  void count_unknown_keys(std::span<const Value> items, const char* record);

  model::TraceBuilder& builder_;
  base::Diagnostics& diagnostics_;
  SnapshotKeys keys_;
  model::Events events_;
  std::vector<RawBlock> blocks_;
  std::vector<model::FrameId> frame_ids_;  // scratch
  std::vector<std::uint8_t> actions_;      // by string row: 1 + Action, or 0
  std::uint64_t last_stream_handle_ = 0;
  model::StreamId last_stream_;
};

}  // namespace plimsoll::readers::torch_snapshot

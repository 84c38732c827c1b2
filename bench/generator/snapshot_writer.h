// Writes one snapshot in the layout of torch.cuda.memory._dump_snapshot, piece by piece and in
// PyTorch's order: segments, trace, settings, annotations. Frames are written once each, and the
// list of frames once per allocation. Memory holds only memo ids of frames and live allocations.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "generator/allocator.h"
#include "generator/event.h"
#include "generator/pickle_writer.h"
#include "generator/stack_table.h"

namespace generator {

/// Decides which keys are written: 2.11 adds compile_context and user_metadata to each event.
enum class TorchVersion : uint8_t { k2_6, k2_11 };

struct SettingsText {
  std::string alloc_conf;        // as in PYTORCH_CUDA_ALLOC_CONF
  int64_t max_split_bytes = -1;  // -1 is unlimited
};

class SnapshotWriter {
 public:
  SnapshotWriter(PickleWriter& out, const StackTable& stacks, TorchVersion version);

  void begin();
  void write_segments(const CachingAllocator& allocator);
  void begin_trace(uint64_t events);
  void write_event(const Event& event);
  void end_trace();
  void write_settings(const SettingsText& settings, SegmentStyle style);
  void write_annotations(const std::vector<Annotation>& annotations);
  void end();

 private:
  /// A list of frames that has been written. Those of the segments are kept until the end.
  struct WrittenList {
    MemoId memo;
    bool is_kept;
  };

  void write_segment(const Segment& segment, SegmentStyle style);
  void write_block(const Block& block);
  void write_frames(const Context& context);
  void write_frame(FrameId frame);
  Interned& action_name(Action action);

  PickleWriter& out_;
  const StackTable& stacks_;
  TorchVersion version_;
  bool is_in_segments_ = false;
  MemoId no_frames_ = kNoMemo;
  std::vector<MemoId> frame_memos_;
  std::unordered_map<uint64_t, WrittenList> lists_;  // by Context::id
  std::vector<Interned> actions_;

  Interned device_{"device"}, address_{"address"}, total_size_{"total_size"};
  Interned allocated_size_{"allocated_size"}, active_size_{"active_size"};
  Interned requested_size_{"requested_size"}, stream_{"stream"}, segment_type_{"segment_type"};
  Interned small_{"small"}, large_{"large"}, pool_id_{"segment_pool_id"};
  Interned is_expandable_{"is_expandable"}, frames_{"frames"}, blocks_{"blocks"}, size_{"size"};
  Interned state_{"state"}, active_allocated_{"active_allocated"};
  Interned active_pending_free_{"active_pending_free"}, inactive_{"inactive"};
  Interned name_{"name"}, filename_{"filename"}, line_{"line"};
  Interned action_{"action"}, addr_{"addr"}, device_free_{"device_free"}, time_us_{"time_us"};
  Interned compile_context_{"compile_context"}, user_metadata_{"user_metadata"};
};

}  // namespace generator

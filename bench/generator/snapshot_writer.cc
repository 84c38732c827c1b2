#include "generator/snapshot_writer.h"

namespace generator {

SnapshotWriter::SnapshotWriter(PickleWriter& out, const StackTable& stacks, TorchVersion version)
    : out_(out), stacks_(stacks), version_(version) {
  // In the order of the values of Action.
  for (const char* name : {"alloc", "free_requested", "free_completed", "segment_alloc",
                           "segment_free", "segment_map", "oom"}) {
    actions_.push_back(Interned{name});
  }
}

Interned& SnapshotWriter::action_name(Action action) {
  return actions_[static_cast<size_t>(action)];
}

void SnapshotWriter::begin() { out_.begin_dict(4); }

void SnapshotWriter::end() { out_.end_dict(Sharing::kUnique); }

void SnapshotWriter::write_segments(const CachingAllocator& allocator) {
  is_in_segments_ = true;
  out_.next_item();
  out_.put_fresh("segments");
  out_.begin_list(allocator.segments().size());
  for (const auto& [address, segment] : allocator.segments()) {
    out_.next_item();
    write_segment(segment, allocator.style());
  }
  out_.end_list(Sharing::kUnique);
  is_in_segments_ = false;
}

void SnapshotWriter::write_segment(const Segment& segment, SegmentStyle style) {
  uint64_t blocks = 0;
  uint64_t allocated_bytes = 0;
  uint64_t active_bytes = 0;
  uint64_t requested_bytes = 0;
  for (const Block* block = segment.first; block != nullptr; block = block->next) {
    ++blocks;
    if (block->state == BlockState::kInactive) continue;
    active_bytes += block->size_bytes;
    requested_bytes += block->requested_bytes;
    if (block->state == BlockState::kAllocated) allocated_bytes += block->size_bytes;
  }
  const auto entry = [this](Interned& key, uint64_t value) {
    out_.next_item();
    out_.put(key);
    out_.put_unsigned(value);
  };
  out_.begin_dict(12);
  entry(device_, 0);
  entry(address_, segment.address);
  entry(total_size_, segment.size_bytes);
  entry(allocated_size_, allocated_bytes);
  entry(active_size_, active_bytes);
  entry(requested_size_, requested_bytes);
  entry(stream_, segment.stream);
  out_.next_item();
  out_.put(segment_type_);
  out_.put(segment.pool == PoolKind::kSmall ? small_ : large_);
  out_.next_item();
  out_.put(pool_id_);
  out_.put_pair(0, 0);
  out_.next_item();
  out_.put(is_expandable_);
  if (style == SegmentStyle::kExpandable) {
    out_.put_true();
  } else {
    out_.put_false();
  }
  out_.next_item();
  out_.put(frames_);
  write_frames(segment.context);
  out_.next_item();
  out_.put(blocks_);
  out_.begin_list(blocks);
  for (const Block* block = segment.first; block != nullptr; block = block->next) {
    out_.next_item();
    write_block(*block);
  }
  out_.end_list(Sharing::kUnique);
  out_.end_dict(Sharing::kUnique);
}

void SnapshotWriter::write_block(const Block& block) {
  out_.begin_dict(5);
  out_.next_item();
  out_.put(address_);
  out_.put_unsigned(block.address);
  out_.next_item();
  out_.put(size_);
  out_.put_unsigned(block.size_bytes);
  out_.next_item();
  out_.put(requested_size_);
  out_.put_unsigned(block.requested_bytes);
  out_.next_item();
  out_.put(state_);
  switch (block.state) {
    case BlockState::kInactive:
      out_.put(inactive_);
      break;
    case BlockState::kAllocated:
      out_.put(active_allocated_);
      break;
    case BlockState::kPendingFree:
      out_.put(active_pending_free_);
      break;
  }
  out_.next_item();
  out_.put(frames_);
  write_frames(block.context);
  out_.end_dict(Sharing::kUnique);
}

void SnapshotWriter::write_frames(const Context& context) {
  if (context.id == 0) {
    if (no_frames_ != kNoMemo) {
      out_.put_reference(no_frames_);
      return;
    }
    out_.begin_list(0);
    no_frames_ = out_.end_list(Sharing::kShared);
    return;
  }
  if (const auto known = lists_.find(context.id); known != lists_.end()) {
    out_.put_reference(known->second.memo);
    return;
  }
  const std::vector<FrameId>& stack = stacks_.stack(context.site);
  out_.begin_list(stack.size());
  for (const FrameId frame : stack) {
    out_.next_item();
    write_frame(frame);
  }
  lists_[context.id] = WrittenList{out_.end_list(Sharing::kShared), is_in_segments_};
}

void SnapshotWriter::write_frame(FrameId frame) {
  if (frame_memos_.size() <= frame) frame_memos_.resize(frame + 1, kNoMemo);
  if (frame_memos_[frame] != kNoMemo) {
    out_.put_reference(frame_memos_[frame]);
    return;
  }
  const Frame& text = stacks_.frames()[frame];
  out_.begin_dict(3);
  out_.next_item();
  out_.put(name_);
  out_.put_fresh(text.name);
  out_.next_item();
  out_.put(filename_);
  out_.put_fresh(text.filename);
  out_.next_item();
  out_.put(line_);
  out_.put(text.line);
  frame_memos_[frame] = out_.end_dict(Sharing::kShared);
}

void SnapshotWriter::begin_trace(uint64_t events) {
  out_.next_item();
  out_.put_fresh("device_traces");
  out_.begin_list(1);
  out_.next_item();
  out_.begin_list(events);
}

void SnapshotWriter::write_event(const Event& event) {
  const bool has_frames = event.context.id != 0;
  const bool is_new = version_ == TorchVersion::k2_11;
  out_.next_item();
  out_.begin_dict(5u + (is_new ? 2u : 0u) + (has_frames ? 1u : 0u));
  out_.next_item();
  out_.put(action_);
  out_.put(action_name(event.action));
  out_.next_item();
  out_.put(event.action == Action::kOutOfMemory ? device_free_ : addr_);
  out_.put_unsigned(event.address);
  out_.next_item();
  out_.put(size_);
  out_.put_unsigned(event.size_bytes);
  out_.next_item();
  out_.put(stream_);
  out_.put_unsigned(event.stream);
  out_.next_item();
  out_.put(time_us_);
  out_.put(event.time_us);
  if (is_new) {
    out_.next_item();
    out_.put(compile_context_);
    out_.put_fresh("N/A");
    out_.next_item();
    out_.put(user_metadata_);
    out_.put_fresh("");
  }
  if (has_frames) {
    out_.next_item();
    out_.put(frames_);
    write_frames(event.context);
  }
  out_.end_dict(Sharing::kUnique);
  if (event.action == Action::kFreeCompleted) {  // the last reference to the list
    const auto known = lists_.find(event.context.id);
    if (known != lists_.end() && !known->second.is_kept) lists_.erase(known);
  }
}

void SnapshotWriter::end_trace() {
  out_.end_list(Sharing::kUnique);
  out_.end_list(Sharing::kUnique);
}

void SnapshotWriter::write_settings(const SettingsText& settings, SegmentStyle style) {
  const auto key = [this](const std::string& text) {
    out_.next_item();
    out_.put_fresh(text);
  };
  const bool is_new = version_ == TorchVersion::k2_11;
  key("allocator_settings");
  out_.begin_dict(is_new ? 9 : 8);
  key("PYTORCH_CUDA_ALLOC_CONF");
  out_.put_fresh(settings.alloc_conf);
  key("max_split_size");
  out_.put(settings.max_split_bytes);
  key("garbage_collection_threshold");
  out_.put_double(0.0);
  key("expandable_segments");
  if (style == SegmentStyle::kExpandable) {
    out_.put_true();
  } else {
    out_.put_false();
  }
  key("pinned_num_register_threads");
  out_.put(1);
  key("release_lock_on_cudamalloc");
  out_.put_false();
  key("pinned_use_cuda_host_register");
  out_.put_false();
  if (is_new) {
    key("graph_capture_record_stream_reuse");
    out_.put_false();
  }
  key("roundup_power2_divisions");
  out_.begin_dict(16);
  for (int power = 0; power < 16; ++power) {
    key(std::to_string(1 << power));
    out_.put(0);
  }
  out_.end_dict(Sharing::kUnique);
  out_.end_dict(Sharing::kUnique);
}

void SnapshotWriter::write_annotations(const std::vector<Annotation>& annotations) {
  out_.next_item();
  out_.put_fresh("external_annotations");
  out_.begin_list(annotations.size());
  for (const Annotation& annotation : annotations) {
    out_.next_item();
    out_.begin_dict(4);
    out_.next_item();
    out_.put_fresh("stage");
    out_.put_fresh(annotation.stage);
    out_.next_item();
    out_.put_fresh("name");
    out_.put_fresh(annotation.name);
    out_.next_item();
    out_.put(device_);
    out_.put(0);
    out_.next_item();
    out_.put(time_us_);
    out_.put(annotation.time_us);
    out_.end_dict(Sharing::kUnique);
  }
  out_.end_list(Sharing::kUnique);
}

}  // namespace generator

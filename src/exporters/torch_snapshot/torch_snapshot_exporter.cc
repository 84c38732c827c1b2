#include "exporters/torch_snapshot/torch_snapshot_exporter.h"

#include <cstdint>
#include <vector>

#include "exporters/torch_snapshot/annotation_stages.h"
#include "exporters/torch_snapshot/device_places.h"
#include "exporters/torch_snapshot/pickle_writer.h"
#include "exporters/torch_snapshot/settings_tree.h"
#include "exporters/torch_snapshot/shared_values.h"

namespace plimsoll::exporters::torch_snapshot {
namespace {

std::int64_t microseconds(std::int64_t time_ns) {
  const std::int64_t whole = time_ns / 1000;
  return time_ns % 1000 < 0 ? whole - 1 : whole;
}

Word state_word(model::BlockState state) {
  switch (state) {
    case model::BlockState::kInactive:
      return Word::kInactive;
    case model::BlockState::kActiveAllocated:
      return Word::kActiveAllocated;
    case model::BlockState::kActivePendingFree:
      return Word::kActivePendingFree;
  }
  return Word::kInactive;
}

class Snapshot {
 public:
  Snapshot(const model::Trace& trace, Output& output)
      : trace_(trace), places_(trace), pickle_(output), shared_(trace, pickle_) {}

  Status write() {
    pickle_.dict();
    pickle_.begin_dict_items();
    shared_.word(Word::kSegments);
    write_segments();
    shared_.word(Word::kDeviceTraces);
    write_traces();
    if (const model::DeviceTrace* host = places_.pinned_host()) write_host(*host);
    if (trace_.has_settings) {
      shared_.word(Word::kAllocatorSettings);
      write_settings(pickle_, trace_.settings);
    }
    if (!trace_.annotations.empty()) {
      shared_.word(Word::kExternalAnnotations);
      write_annotations();
    }
    write_devices();
    pickle_.end_dict_items();
    return pickle_.finish();
  }

 private:
  void write_segments();
  void write_segments_of(const model::DeviceTrace& device, std::uint64_t place);
  void write_segment(const model::Segment& segment, std::uint64_t place);
  void write_block(const model::Block& block);
  void write_traces();
  void write_events_of(const model::DeviceTrace& device);
  void write_host(const model::DeviceTrace& host);
  void write_event(const model::Event& event);
  void write_annotations();
  void write_stage(const Stage& stage);
  void write_devices();
  void write_names(Word key, const std::vector<model::Device>& devices);

  const model::Trace& trace_;
  DevicePlaces places_;
  PickleWriter pickle_;
  SharedValues shared_;
};

void Snapshot::write_segments() {
  pickle_.list();
  for (std::size_t place = 0; place < places_.devices().size(); ++place) {
    const model::DeviceTrace* device = places_.devices()[place];
    if (device != nullptr) write_segments_of(*device, place);
  }
  pickle_.end_list();
}

void Snapshot::write_segments_of(const model::DeviceTrace& device, std::uint64_t place) {
  const auto segments = trace_.segments.span(device.first_segment, device.segment_count);
  for (const model::Segment& segment : segments) {
    if (!pickle_.ok()) return;
    pickle_.item();
    write_segment(segment, place);
  }
}

void Snapshot::write_segment(const model::Segment& segment, std::uint64_t place) {
  pickle_.dict();
  pickle_.begin_dict_items();
  shared_.member(Word::kDevice, place);
  shared_.member(Word::kAddress, segment.address);
  shared_.member(Word::kTotalSize, segment.total_size);
  shared_.member(Word::kAllocatedSize, segment.allocated_size);
  shared_.member(Word::kActiveSize, segment.active_size);
  shared_.member(Word::kRequestedSize, segment.requested_size);
  shared_.member(Word::kStream, trace_.streams[segment.stream.index()]);
  if (segment.type != model::SegmentType::kUnknown) {
    const bool is_small = segment.type == model::SegmentType::kSmall;
    shared_.member(Word::kSegmentType, is_small ? Word::kSmall : Word::kLarge);
  }
  shared_.optional_member(Word::kSegmentPoolId, segment.pool);
  shared_.word(Word::kIsExpandable);
  pickle_.boolean(segment.is_expandable);
  shared_.optional_member(Word::kFrames, segment.stack);
  shared_.word(Word::kBlocks);
  pickle_.list();
  for (const model::Block& block : trace_.blocks.span(segment.first_block, segment.block_count)) {
    pickle_.item();
    write_block(block);
  }
  pickle_.end_list();
  pickle_.end_dict_items();
}

void Snapshot::write_block(const model::Block& block) {
  pickle_.dict();
  pickle_.begin_dict_items();
  shared_.member(Word::kAddress, block.address);
  shared_.member(Word::kSize, block.size);
  shared_.member(Word::kRequestedSize, block.requested_size);
  shared_.member(Word::kState, state_word(block.state));
  shared_.optional_member(Word::kFrames, block.stack);
  pickle_.end_dict_items();
}

void Snapshot::write_traces() {
  pickle_.list();
  for (const model::DeviceTrace* device : places_.devices()) {
    pickle_.item();
    pickle_.list();
    if (device != nullptr) write_events_of(*device);
    pickle_.end_list();
  }
  pickle_.end_list();
}

void Snapshot::write_events_of(const model::DeviceTrace& device) {
  std::size_t lifetime = device.lifetimes.baseline_count;  // of the next alloc
  for (std::size_t row = 0; row < device.events.size() && pickle_.ok(); ++row) {
    model::Event event = trace_.event(device, row);
    if (event.action == model::Action::kAlloc) event.category = trace_.category(device, lifetime++);
    const bool is_both = event.action == model::Action::kFree;
    if (is_both) event.action = model::Action::kFreeRequested;  // a snapshot has two events
    pickle_.item();
    write_event(event);
    if (!is_both) continue;
    event.action = model::Action::kFreeCompleted;
    pickle_.item();
    write_event(event);
  }
}

// Pinned host memory has two keys of its own, and a single list of events.
void Snapshot::write_host(const model::DeviceTrace& host) {
  shared_.word(Word::kHostSegments);
  pickle_.list();
  write_segments_of(host, static_cast<std::uint64_t>(host.device.ordinal));
  pickle_.end_list();
  shared_.word(Word::kHostTraces);
  pickle_.list();
  write_events_of(host);
  pickle_.end_list();
}

void Snapshot::write_event(const model::Event& event) {
  pickle_.dict();
  pickle_.begin_dict_items();
  shared_.member(Word::kAction, word_of(event.action));
  shared_.member(event.action == model::Action::kOom ? Word::kDeviceFree : Word::kAddr,
                 event.address);
  shared_.member(Word::kSize, event.size_bytes);
  shared_.member(Word::kStream, trace_.streams[event.stream.index()]);
  if (event.time_ns != model::kNoTime) {
    shared_.word(Word::kTimeUs);
    pickle_.integer(microseconds(event.time_ns));
  }
  shared_.optional_member(Word::kCompileContext, event.compile_context);
  shared_.optional_member(Word::kUserMetadata, event.user_metadata);
  if (!trace_.has_inferred_roles) shared_.optional_member(Word::kCategory, event.category);
  shared_.optional_member(Word::kPoolId, event.pool);
  shared_.optional_member(Word::kFrames, event.stack);
  pickle_.end_dict_items();
}

void Snapshot::write_annotations() {
  pickle_.list();
  for (const Stage& stage : stages_of(trace_.annotations)) {
    if (!pickle_.ok()) return;
    pickle_.item();
    write_stage(stage);
  }
  pickle_.end_list();
}

void Snapshot::write_stage(const Stage& stage) {
  pickle_.dict();
  pickle_.begin_dict_items();
  shared_.member(Word::kStage, stage.is_start ? Word::kStart : Word::kEnd);
  shared_.word(Word::kName);
  shared_.string(stage.annotation->name);
  shared_.member(Word::kDevice, places_.of(stage.annotation->device));
  shared_.word(Word::kTimeUs);
  pickle_.integer(microseconds(stage.time_ns));
  pickle_.end_dict_items();
}

// PyTorch's readers assume that every device is a CUDA device, and that an empty list of segments
// means no live memory. Two extra keys, which they ignore, state where this is wrong.
void Snapshot::write_devices() {
  std::vector<model::Device> names;
  bool are_cuda = true;
  for (std::size_t place = 0; place < places_.devices().size(); ++place) {
    const model::DeviceTrace* device = places_.devices()[place];
    const model::Device cuda{model::DeviceType::kCuda, static_cast<std::int32_t>(place)};
    names.push_back(device == nullptr ? cuda : device->device);
    are_cuda = are_cuda && names.back() == cuda;
  }
  if (!are_cuda) write_names(Word::kPlimsollDevices, names);
  std::vector<model::Device> without_segments;
  for (const model::DeviceTrace& device : trace_.devices) {
    if (!device.has_final_state) without_segments.push_back(device.device);
  }
  if (!without_segments.empty()) write_names(Word::kPlimsollWithoutSegments, without_segments);
}

void Snapshot::write_names(Word key, const std::vector<model::Device>& devices) {
  shared_.word(key);
  pickle_.list();
  for (const model::Device& device : devices) {
    pickle_.item();
    pickle_.string(model::to_string(device));
  }
  pickle_.end_list();
}

class TorchSnapshotExporter final : public Exporter {
 public:
  const char* name() const override { return "snapshot"; }
  const char* description() const override {
    return "a PyTorch memory snapshot, for torch.cuda's own tools and viewer";
  }
  const char* suffix() const override { return ".pickle"; }

  std::span<const char* const> needs() const override {
    static constexpr const char* kNames[] = {"timeline"};
    return kNames;
  }
  Status write(const ExportInput& input, Output& output) const override {
    return Snapshot(input.trace, output).write();
  }
};

}  // namespace

std::unique_ptr<Exporter> make() { return std::make_unique<TorchSnapshotExporter>(); }

}  // namespace plimsoll::exporters::torch_snapshot

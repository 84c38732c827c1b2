#include "readers/torch_snapshot/snapshot_keys.h"

#include <string_view>
#include <utility>

namespace plimsoll::readers::torch_snapshot {
namespace {

constexpr std::pair<Key, std::string_view> kNames[] = {
    {Key::kAction, "action"},
    {Key::kAddr, "addr"},
    {Key::kDeviceFree, "device_free"},
    {Key::kSize, "size"},
    {Key::kStream, "stream"},
    {Key::kTimeUs, "time_us"},
    {Key::kFrames, "frames"},
    {Key::kCompileContext, "compile_context"},
    {Key::kUserMetadata, "user_metadata"},
    {Key::kPoolId, "pool_id"},
    {Key::kCategory, "category"},
    {Key::kFilename, "filename"},
    {Key::kName, "name"},
    {Key::kLine, "line"},
    {Key::kAddress, "address"},
    {Key::kRequestedSize, "requested_size"},
    {Key::kState, "state"},
    {Key::kHistory, "history"},
    {Key::kRealSize, "real_size"},
    {Key::kDevice, "device"},
    {Key::kTotalSize, "total_size"},
    {Key::kAllocatedSize, "allocated_size"},
    {Key::kActiveSize, "active_size"},
    {Key::kSegmentType, "segment_type"},
    {Key::kSegmentPoolId, "segment_pool_id"},
    {Key::kIsExpandable, "is_expandable"},
    {Key::kBlocks, "blocks"},
    {Key::kStage, "stage"},
    {Key::kSegments, "segments"},
    {Key::kDeviceTraces, "device_traces"},
    {Key::kAllocatorSettings, "allocator_settings"},
    {Key::kExternalAnnotations, "external_annotations"},
    {Key::kHostSegments, "host_segments"},
    {Key::kHostTraces, "host_traces"},
    {Key::kTraceOverflowed, "trace_alloc_overflowed"},
    {Key::kRank, "rank"},
    {Key::kPlimsollDevices, "plimsoll_devices"},
    {Key::kPlimsollWithoutSegments, "plimsoll_without_segments"},
};
static_assert(std::size(kNames) + 1 == kKeyCount);

}  // namespace

SnapshotKeys::SnapshotKeys(model::StringTable& strings) {
  for (const auto& [key, name] : kNames) {
    const model::StringId id = strings.intern(name);
    if (id.index() >= keys_.size()) keys_.resize(id.index() + 1, Key::kUnknown);
    keys_[id.index()] = key;
  }
}

}  // namespace plimsoll::readers::torch_snapshot

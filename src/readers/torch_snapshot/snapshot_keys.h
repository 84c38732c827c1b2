// The keys and string values of a snapshot that the reader uses, by the string's row: one array
// lookup instead of a text comparison. Schema: torch/csrc/cuda/Module.cpp and memory_snapshot.cpp;
// docs of torch.cuda.memory._snapshot.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/strings.h"
#include "readers/torch_snapshot/pickle_value.h"

namespace plimsoll::readers::torch_snapshot {

enum class Key : std::uint8_t {
  kUnknown,
  // events
  kAction,
  kAddr,
  kDeviceFree,
  kSize,
  kStream,
  kTimeUs,
  kFrames,
  kCompileContext,
  kUserMetadata,
  kPoolId,
  kCategory,
  // frames
  kFilename,
  kName,
  kLine,
  // blocks
  kAddress,
  kRequestedSize,
  kState,
  kHistory,
  kRealSize,
  // segments
  kDevice,
  kTotalSize,
  kAllocatedSize,
  kActiveSize,
  kSegmentType,
  kSegmentPoolId,
  kIsExpandable,
  kBlocks,
  // annotations
  kStage,
  // top level
  kSegments,
  kDeviceTraces,
  kAllocatorSettings,
  kExternalAnnotations,
  kHostSegments,
  kHostTraces,
  kTraceOverflowed,
  kRank,
  // added by the exporter "snapshot"
  kPlimsollDevices,
  kPlimsollWithoutSegments,
  kCount,
};
inline constexpr std::size_t kKeyCount = static_cast<std::size_t>(Key::kCount);

class SnapshotKeys {
 public:
  explicit SnapshotKeys(model::StringTable& strings);

  Key of(const Value& key) const {
    if (key.tag != Tag::kString || key.bits >= keys_.size()) return Key::kUnknown;
    return keys_[key.bits];
  }

 private:
  std::vector<Key> keys_;
};

// A dict's values by key, without unknown keys.
class Fields {
 public:
  template <typename Pairs>
  Fields(const SnapshotKeys& keys, const Pairs& entries) {
    for (const auto& [key, value] : entries) add(keys.of(key), value);
  }
  Fields(const SnapshotKeys& keys, std::span<const Value> flat) {
    for (std::size_t i = 0; i + 1 < flat.size(); i += 2) add(keys.of(flat[i]), flat[i + 1]);
  }

  bool has(Key key) const { return (mask_ >> static_cast<unsigned>(key) & 1) != 0; }
  // Valid if has(key).
  const Value& operator[](Key key) const { return *values_[static_cast<std::size_t>(key)]; }
  const Value* find(Key key) const { return has(key) ? &(*this)[key] : nullptr; }

 private:
  void add(Key key, const Value& value) {
    mask_ |= std::uint64_t{1} << static_cast<unsigned>(key);
    values_[static_cast<std::size_t>(key)] = &value;
  }

  std::uint64_t mask_ = 0;
  const Value* values_[kKeyCount];
};
static_assert(kKeyCount <= 64);

}  // namespace plimsoll::readers::torch_snapshot

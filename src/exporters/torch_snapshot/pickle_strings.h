// The fixed strings of a snapshot: keys, states, stages and actions. The number of a string is its
// memo index in the pickle, so each repetition costs two bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "model/trace.h"

namespace plimsoll::exporters::torch_snapshot {

enum class Word : std::uint8_t {
  kAction,
  kAddr,
  kDeviceFree,
  kSize,
  kStream,
  kTimeUs,
  kFrames,
  kCompileContext,
  kUserMetadata,
  kCategory,
  kPoolId,
  kFilename,
  kName,
  kLine,
  kSegments,
  kDeviceTraces,
  kAllocatorSettings,
  kExternalAnnotations,
  kHostSegments,
  kHostTraces,
  kPlimsollDevices,
  kPlimsollWithoutSegments,
  kDevice,
  kAddress,
  kTotalSize,
  kAllocatedSize,
  kActiveSize,
  kRequestedSize,
  kSegmentType,
  kSegmentPoolId,
  kIsExpandable,
  kBlocks,
  kState,
  kSmall,
  kLarge,
  kInactive,
  kActiveAllocated,
  kActivePendingFree,
  kStage,
  kStart,
  kEnd,
  kFirstAction,  // followed by the values of model::Action
};

inline constexpr std::array kTexts = {"action",
                                      "addr",
                                      "device_free",
                                      "size",
                                      "stream",
                                      "time_us",
                                      "frames",
                                      "compile_context",
                                      "user_metadata",
                                      "category",
                                      "pool_id",
                                      "filename",
                                      "name",
                                      "line",
                                      "segments",
                                      "device_traces",
                                      "allocator_settings",
                                      "external_annotations",
                                      "host_segments",
                                      "host_traces",
                                      "plimsoll_devices",
                                      "plimsoll_without_segments",
                                      "device",
                                      "address",
                                      "total_size",
                                      "allocated_size",
                                      "active_size",
                                      "requested_size",
                                      "segment_type",
                                      "segment_pool_id",
                                      "is_expandable",
                                      "blocks",
                                      "state",
                                      "small",
                                      "large",
                                      "inactive",
                                      "active_allocated",
                                      "active_pending_free",
                                      "stage",
                                      "START",
                                      "END"};
static_assert(kTexts.size() == static_cast<std::size_t>(Word::kFirstAction));

inline constexpr std::size_t kActionCount = static_cast<std::size_t>(model::Action::kUnknown) + 1;
inline constexpr std::size_t kWordCount = kTexts.size() + kActionCount;
static_assert(kWordCount <= 256, "each word is recalled with one byte");

constexpr Word word_of(model::Action action) {
  return static_cast<Word>(kTexts.size() + static_cast<std::size_t>(action));
}

inline const char* text_of(Word word) {
  const auto number = static_cast<std::size_t>(word);
  if (number < kTexts.size()) return kTexts[number];
  return model::to_string(static_cast<model::Action>(number - kTexts.size()));
}

}  // namespace plimsoll::exporters::torch_snapshot

// Values of the pickle machine: sixteen bytes on the stack, eight in the memo. Plain data is stored
// here; dicts and lists that are records of a snapshot (events, frames, blocks, stacks) become rows
// as soon as they are complete, and the value is the row's number.
#pragma once

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "model/ids.h"

namespace plimsoll::readers::torch_snapshot {

enum class Tag : std::uint8_t {
  kNone,
  kBool,       // bits: 0 or 1
  kInt,        // bits: an int64
  kUint,       // bits: a uint64 above the int64 range
  kHugeInt,    // an integer beyond 64 bits; its value is not kept
  kFloat,      // bits: an IEEE double
  kString,     // bits: StringId
  kBytes,      // its value is not kept
  kPair,       // bits: row in PickleArena::pairs (a tuple of two unsigned integers)
  kTuple,      // bits: row in PickleArena::lists
  kList,       // bits: row in PickleArena::lists
  kDict,       // bits: row in PickleArena::dicts
  kFreshList,  // just created, nothing in it yet
  kFreshDict,
  kEmptyList,  // created, never filled, and referenced again: it stays empty
  kEmptyDict,
  // Records of a snapshot:
  kFrame,       // bits: FrameId
  kStack,       // bits: StackId; a list of frames
  kEvent,       // bits: row in the builder
  kEventRange,  // bits: row in PickleArena::ranges; a list of events in successive rows
  kBlock,       // bits: row in SnapshotRecords::blocks
};

inline constexpr std::uint32_t kNoMemo = 0xFFFFFFFFu;

struct Value {
  Tag tag = Tag::kNone;
  std::uint32_t memo =
      kNoMemo;  // fresh containers only: the memo slot to update with the final value
  std::uint64_t bits = 0;

  std::int64_t as_int() const { return static_cast<std::int64_t>(bits); }
  double as_float() const { return std::bit_cast<double>(bits); }
  model::StringId as_string() const { return model::StringId{static_cast<std::uint32_t>(bits)}; }
  bool is_unsigned() const { return tag == Tag::kUint || (tag == Tag::kInt && as_int() >= 0); }
};

struct EventRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

using Items = std::vector<Value>;
using Entries = std::vector<std::pair<Value, Value>>;

// The parts of values that do not fit into a Value.
struct PickleArena {
  std::vector<Items> lists;  // also holds tuples
  std::vector<Entries> dicts;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> pairs;
  std::vector<EventRange> ranges;
};

}  // namespace plimsoll::readers::torch_snapshot

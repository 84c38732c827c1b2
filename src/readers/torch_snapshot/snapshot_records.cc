#include "readers/torch_snapshot/snapshot_records.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>

#include "model/diagnostics.h"
#include "readers/torch_snapshot/diagnostics.h"

namespace plimsoll::readers::torch_snapshot {
namespace {

using model::Action;

constexpr Value kNotMyDict{Tag::kFreshDict, kNoMemo, 0};
constexpr Value kNotMyList{Tag::kFreshList, kNoMemo, 0};

constexpr Action kActions[] = {
    Action::kAlloc,       Action::kFreeRequested, Action::kFreeCompleted, Action::kSegmentAlloc,
    Action::kSegmentFree, Action::kSegmentMap,    Action::kSegmentUnmap,  Action::kSnapshot,
    Action::kOom,         Action::kAnnotate,
};

model::BlockState state_of(std::string_view name, bool& is_known) {
  is_known = true;
  if (name == "active_allocated") return model::BlockState::kActiveAllocated;
  // The documentation says "awaiting", but the code writes "pending".
  if (name == "active_pending_free" || name == "active_awaiting_free") {
    return model::BlockState::kActivePendingFree;
  }
  is_known = name == "inactive";
  return model::BlockState::kInactive;
}

bool all_of_tag(std::span<const Value> items, Tag tag) {
  return std::ranges::all_of(items, [&](const Value& item) { return item.tag == tag; });
}

// The range of rows of `items`, if they are successive events.
std::optional<EventRange> successive_rows(std::span<const Value> items) {
  const std::uint64_t first = items.front().bits;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].tag != Tag::kEvent || items[i].bits != first + i) return std::nullopt;
  }
  return EventRange{first, items.size()};
}

}  // namespace

SnapshotRecords::SnapshotRecords(model::TraceBuilder& builder, base::Diagnostics& diagnostics)
    : builder_(builder), diagnostics_(diagnostics), keys_(builder.strings()) {
  for (Action action : kActions) {
    const model::StringId id = builder.strings().intern(model::to_string(action));
    if (id.index() >= actions_.size()) actions_.resize(id.index() + 1);
    actions_[id.index()] = static_cast<std::uint8_t>(1 + static_cast<unsigned>(action));
  }
}

std::uint64_t SnapshotRecords::memory_bytes() const {
  return builder_.memory_bytes() + events_.memory_bytes() + blocks_.capacity() * sizeof(RawBlock);
}

// --- dicts -------------------------------------------------------------------------------------

Value SnapshotRecords::from_dict(std::span<const Value> items, PickleArena& arena) {
  const Fields fields(keys_, items);
  if (fields.has(Key::kAction)) {
    if (fields.has(Key::kUnknown)) count_unknown_keys(items, "event");
    return make_event(fields, arena);
  }
  if (fields.has(Key::kFilename) && fields.has(Key::kName)) return make_frame(fields, items);
  if (fields.has(Key::kState) && fields.has(Key::kSize)) {
    if (fields.has(Key::kUnknown)) count_unknown_keys(items, "block");
    return make_block(fields, arena);
  }
  return kNotMyDict;
}

Value SnapshotRecords::make_event(const Fields& fields, const PickleArena& arena) {
  model::Event event;
  event.action = action_of(fields[Key::kAction]);
  const bool is_oom = event.action == Action::kOom;
  event.address = unsigned_of(fields, is_oom ? Key::kDeviceFree : Key::kAddr, "event");
  event.size_bytes = unsigned_of(fields, Key::kSize, "event");
  event.time_ns = time_ns_of(fields);
  event.stream = stream_of(fields);
  event.stack = stack_of(fields, arena);
  if (fields.has(Key::kPoolId)) event.pool = pool_of(fields, Key::kPoolId, arena);
  event.category = text_if_any(fields, Key::kCategory, "event.category");
  event.compile_context = text_if_any(fields, Key::kCompileContext, "event.compile_context");
  event.user_metadata = text_if_any(fields, Key::kUserMetadata, "event.user_metadata");
  events_.push_back(event, builder_.sites().intern(event));
  return Value{Tag::kEvent, kNoMemo, events_.size() - 1};
}

Action SnapshotRecords::action_of(const Value& value) {
  if (value.tag == Tag::kString && value.bits < actions_.size() && actions_[value.bits] != 0) {
    return static_cast<Action>(actions_[value.bits] - 1);
  }
  diagnostics_.add(model::kUnknownAction, 1,
                   value.tag == Tag::kString ? builder_.strings()[value.as_string()] : "");
  return Action::kUnknown;
}

Value SnapshotRecords::make_frame(const Fields& fields, std::span<const Value> items) {
  model::Frame frame;
  frame.file = string_of(fields, Key::kFilename);
  frame.function = string_of(fields, Key::kName);
  const std::uint64_t line = unsigned_of(fields, Key::kLine, "frame");
  frame.line = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(line, std::numeric_limits<std::uint32_t>::max()));
  if (frame.line == 0) split_profiler_name(frame);
  if (fields.has(Key::kUnknown)) {
    model::FrameNotes notes;  // such as fx_node_op
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      if (keys_.of(items[i]) != Key::kUnknown) continue;
      if (items[i].tag != Tag::kString || items[i + 1].tag == Tag::kNone) continue;
      if (items[i + 1].tag == Tag::kString) {
        notes.emplace_back(items[i].as_string(), items[i + 1].as_string());
      } else {
        unknown_key("frame", items[i]);
      }
    }
    if (!notes.empty()) frame.notes = builder_.stacks().add_notes(std::move(notes));
  }
  return Value{Tag::kFrame, kNoMemo, builder_.stacks().intern_frame(frame).value};
}

// torch.profiler's profile_plot writes "none" as the file and puts the location into the name:
// "train.py(6): step".
void SnapshotRecords::split_profiler_name(model::Frame& frame) {
  const std::string_view name = builder_.strings()[frame.function];
  const std::size_t close = name.find("): ");
  const std::size_t open = close == name.npos ? name.npos : name.rfind('(', close);
  if (open == name.npos || builder_.strings()[frame.file] != "none") return;
  std::uint32_t line = 0;
  const auto [end, error] = std::from_chars(name.data() + open + 1, name.data() + close, line);
  if (error != std::errc{} || end != name.data() + close) return;
  frame.line = line;
  frame.file = builder_.strings().intern(name.substr(0, open));
  frame.function = builder_.strings().intern(name.substr(close + 3));
}

Value SnapshotRecords::make_block(const Fields& fields, const PickleArena& arena) {
  RawBlock raw;
  model::Block& block = raw.block;
  raw.has_address = fields.has(Key::kAddress);
  if (raw.has_address) block.address = unsigned_of(fields, Key::kAddress, "block");
  block.size = unsigned_of(fields, Key::kSize, "block");
  const bool has_requested = fields.has(Key::kRequestedSize);
  block.requested_size =
      has_requested ? unsigned_of(fields, Key::kRequestedSize, "block") : block.size;
  block.stack = stack_of(fields, arena);
  bool is_known = false;
  block.state = state_of(builder_.strings()[string_of(fields, Key::kState)], is_known);
  if (!is_known) bad_value("block");
  if (const Value* history = fields.find(Key::kHistory))
    read_history(*history, arena, raw, has_requested);
  blocks_.push_back(raw);
  return Value{Tag::kBlock, kNoMemo, blocks_.size() - 1};
}

// In torch 2.0, the block's last allocation is history[0] = {addr, real_size, frames}.
void SnapshotRecords::read_history(const Value& history, const PickleArena& arena, RawBlock& raw,
                                   bool has_requested) {
  if (history.tag == Tag::kEmptyList) return;
  if (history.tag != Tag::kList || arena.lists[history.bits].front().tag != Tag::kDict) {
    bad_value("block");
    return;
  }
  const Fields last(keys_, arena.dicts[arena.lists[history.bits].front().bits]);
  if (!has_requested && last.has(Key::kRealSize)) {
    raw.block.requested_size = unsigned_of(last, Key::kRealSize, "block");
  }
  if (last.has(Key::kFrames)) raw.block.stack = stack_of(last, arena);
}

void SnapshotRecords::count_unknown_keys(std::span<const Value> items, const char* record) {
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    if (keys_.of(items[i]) == Key::kUnknown) unknown_key(record, items[i]);
  }
}

void SnapshotRecords::unknown_key(std::string_view record, const Value& key) {
  const std::string_view name =
      key.tag == Tag::kString ? builder_.strings()[key.as_string()] : std::string_view("?");
  diagnostics_.add(kUnknownKey, 1, std::string(record) + "." + std::string(name));
}

// --- lists -------------------------------------------------------------------------------------

Value SnapshotRecords::from_list(std::span<const Value> items, PickleArena& arena) {
  if (items.front().tag == Tag::kFrame) {
    frame_ids_.clear();
    for (const Value& item : items) {
      if (item.tag != Tag::kFrame) return kNotMyList;
      frame_ids_.push_back(model::FrameId{static_cast<std::uint32_t>(item.bits)});
    }
    return Value{Tag::kStack, kNoMemo, builder_.stacks().intern_stack(frame_ids_).value};
  }
  if (items.front().tag == Tag::kEvent) {
    const auto range = successive_rows(items);
    if (!range) return kNotMyList;
    arena.ranges.push_back(*range);
    return Value{Tag::kEventRange, kNoMemo, arena.ranges.size() - 1};
  }
  return kNotMyList;
}

bool SnapshotRecords::extend(Value& list, std::span<const Value> items, PickleArena& arena) {
  if (list.tag == Tag::kEventRange) {
    EventRange& range = arena.ranges[list.bits];
    const auto more = successive_rows(items);
    if (!more || more->first != range.first + range.count) return false;
    range.count += more->count;
    return true;
  }
  if (!all_of_tag(items, Tag::kFrame)) return false;
  const auto before =
      builder_.stacks().frames(model::StackId{static_cast<std::uint32_t>(list.bits)});
  frame_ids_.assign(before.begin(), before.end());
  for (const Value& item : items) {
    frame_ids_.push_back(model::FrameId{static_cast<std::uint32_t>(item.bits)});
  }
  list.bits = builder_.stacks().intern_stack(frame_ids_).value;
  return true;
}

Items SnapshotRecords::to_items(const Value& list, const PickleArena& arena) const {
  Items items;
  if (list.tag == Tag::kEventRange) {
    const EventRange& range = arena.ranges[list.bits];
    for (std::uint64_t i = 0; i < range.count; ++i) {
      items.push_back(Value{Tag::kEvent, kNoMemo, range.first + i});
    }
  } else {
    for (model::FrameId id :
         builder_.stacks().frames(model::StackId{static_cast<std::uint32_t>(list.bits)})) {
      items.push_back(Value{Tag::kFrame, kNoMemo, id.value});
    }
  }
  return items;
}

// --- values ------------------------------------------------------------------------------------

void SnapshotRecords::bad_value(std::string_view record) { diagnostics_.add(kBadValue, 1, record); }

std::uint64_t SnapshotRecords::unsigned_of(const Fields& fields, Key key, const char* record) {
  const Value* value = fields.find(key);
  if (value == nullptr) {
    diagnostics_.add(kMissingKey, 1, record);
    return 0;
  }
  if (value->is_unsigned()) return value->bits;
  bad_value(record);
  return 0;
}

model::StringId SnapshotRecords::string_of(const Fields& fields, Key key) {
  const Value* value = fields.find(key);
  if (value == nullptr || value->tag == Tag::kNone) return {};
  if (value->tag == Tag::kString) return value->as_string();
  bad_value("text");
  return {};
}

// Programs may attach any object, and PyTorch may add other types; only text is used.
model::StringId SnapshotRecords::text_if_any(const Fields& fields, Key key, const char* name) {
  const Value* value = fields.find(key);
  if (value == nullptr || value->tag == Tag::kNone) return {};
  if (value->tag == Tag::kString) return value->as_string();
  diagnostics_.add(kUnknownKey, 1, name);
  return {};
}

model::StackId SnapshotRecords::stack_of(const Fields& fields, const PickleArena& arena) {
  const Value* value = fields.find(Key::kFrames);
  if (value == nullptr || value->tag == Tag::kNone) return model::kNoStack;
  if (value->tag == Tag::kStack) return model::StackId{static_cast<std::uint32_t>(value->bits)};
  if (value->tag == Tag::kEmptyList) return model::kEmptyStack;
  bad_value("frames");
  if (value->tag != Tag::kList) return model::kNoStack;
  frame_ids_.clear();
  for (const Value& item : arena.lists[value->bits]) {
    if (item.tag == Tag::kFrame)
      frame_ids_.push_back(model::FrameId{static_cast<std::uint32_t>(item.bits)});
  }
  return builder_.stacks().intern_stack(frame_ids_);
}

std::int64_t SnapshotRecords::time_ns_of(const Fields& fields) {
  const Value* value = fields.find(Key::kTimeUs);
  if (value == nullptr) return model::kNoTime;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 1000;
  if (value->tag != Tag::kInt || value->as_int() > kMost || value->as_int() < -kMost) {
    bad_value("time_us");
    return model::kNoTime;
  }
  return value->as_int() * 1000;
}

model::PoolId SnapshotRecords::pool_of(const Fields& fields, Key key, const PickleArena& arena) {
  const Value* value = fields.find(key);
  if (value == nullptr) return {};
  if (value->tag != Tag::kPair) {
    bad_value("pool_id");
    return {};
  }
  const auto& [first, second] = arena.pairs[value->bits];
  return builder_.pool(model::Pool{first, second});
}

model::StreamId SnapshotRecords::stream_of(const Fields& fields) {
  const Value* value = fields.find(Key::kStream);
  if (value == nullptr) return {};
  if (value->tag != Tag::kInt && value->tag != Tag::kUint) {
    bad_value("stream");
    return {};
  }
  if (value->bits != last_stream_handle_) {  // consecutive events often have the same stream
    last_stream_ = builder_.stream(value->bits);
    last_stream_handle_ = value->bits;
  }
  return last_stream_;
}

}  // namespace plimsoll::readers::torch_snapshot

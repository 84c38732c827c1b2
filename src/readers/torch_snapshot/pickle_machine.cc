#include "readers/torch_snapshot/pickle_machine.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "readers/torch_snapshot/pickle_opcodes.h"
#include "readers/torch_snapshot/pickle_slots.h"

namespace plimsoll::readers::torch_snapshot {

// This file implements the machine's tables: stack, memo, containers, bounds. pickle_run.cc
// executes the opcodes.

// --- errors ------------------------------------------------------------------------------------

Error PickleMachine::corrupt(std::string_view what) const {
  return make_error(ErrorCode::kCorrupt, "the pickle is damaged near byte " +
                                             std::to_string(input_.offset()) + ": " +
                                             std::string(what));
}

Error PickleMachine::cut_off() const {
  return make_error(ErrorCode::kCorrupt, "the pickle is truncated: it ends at byte " +
                                             std::to_string(input_.offset() + input_.available()) +
                                             ", in the middle of what starts at byte " +
                                             std::to_string(opcode_at_));
}

// The name the opcode would import, if it can be determined; only for the error message.
std::string PickleMachine::named_import(const char* name) {
  if (std::string_view(name) == "STACK_GLOBAL" && stack_.size() >= 2) {
    const Value& module = stack_[stack_.size() - 2];
    const Value& attribute = stack_.back();
    if (module.tag == Tag::kString && attribute.tag == Tag::kString) {
      return std::string(strings_[module.as_string()]) + "." +
             std::string(strings_[attribute.as_string()]);
    }
  }
  if (std::string_view(name) == "GLOBAL" || std::string_view(name) == "INST") {
    if (auto filled = input_.fill(std::min<std::size_t>(256, input_.available() + 256));
        !filled.ok()) {
      return {};
    }
    const std::string_view text(reinterpret_cast<const char*>(input_.cursor),
                                std::min<std::size_t>(input_.available(), 256));
    const std::size_t first = text.find('\n');
    const std::size_t second = first == text.npos ? text.npos : text.find('\n', first + 1);
    if (second == text.npos) return {};
    return std::string(text.substr(0, first)) + "." +
           std::string(text.substr(first + 1, second - first - 1));
  }
  return {};
}

Error PickleMachine::refused(const char* name) {
  const std::string import = named_import(name);
  return make_error(ErrorCode::kUnsafe,
                    "refused: opcode " + std::string(name) + " at byte " +
                        std::to_string(opcode_at_) +
                        (import.empty() ? " could run code" : " asks to import and run " + import) +
                        ". A memory snapshot is plain data and never needs this; do not load the "
                        "file with pickle.load either");
}

Error PickleMachine::foreign(std::uint8_t opcode) const {
  const char* name = foreign_name(opcode);
  const std::string what = name != nullptr
                               ? "opcode " + std::string(name) + ", which no snapshot has"
                               : "byte " + std::to_string(opcode) + " is not an opcode";
  return make_error(
      name != nullptr ? ErrorCode::kUnsupported : ErrorCode::kCorrupt,
      "not a memory snapshot: at byte " + std::to_string(opcode_at_) + " of the pickle, " + what);
}

// --- input and bounds --------------------------------------------------------------------------

Status PickleMachine::refill() {
  PLIMSOLL_TRY_ASSIGN(const bool is_enough, input_.fill(kLeastWindow));
  static_cast<void>(is_enough);  // near the end there are fewer, which is fine
  const std::uint64_t offset = input_.offset();
  if (const std::uint64_t left = input_.bytes_left_hint(); total_bytes_ == 0 && left > 0) {
    total_bytes_ = offset + input_.available() + left;
  }
  progress_.advance("reading", offset, total_bytes_ == 0 ? 0 : std::max(total_bytes_, offset));
  if (progress_.interrupted()) return make_error(ErrorCode::kInterrupted, "stopped while reading");
  return check_budget();
}

Status PickleMachine::need(std::size_t bytes) {
  if (input_.available() >= bytes) return {};
  PLIMSOLL_TRY_ASSIGN(const bool is_there, input_.fill(bytes));
  if (!is_there) return cut_off();
  return {};
}

Status PickleMachine::check_budget() const {
  const std::uint64_t used = stack_.memory_bytes() + marks_.memory_bytes() + memo_.memory_bytes() +
                             wide_memo_.memory_bytes() + runs_.memory_bytes() + arena_bytes_ +
                             strings_.memory_bytes() + records_.memory_bytes();
  if (used <= limits_.memory_bytes) return {};
  return make_error(ErrorCode::kLimit, "reading this file takes more than " +
                                           std::to_string(limits_.memory_bytes >> 20) +
                                           " MiB of memory (stopped at byte " +
                                           std::to_string(input_.offset()) + " of the pickle)");
}

Status PickleMachine::need_on_stack(std::size_t count) const {
  const std::size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() < floor + count) return corrupt("an opcode needs more values than there are");
  return {};
}

// --- pushing -----------------------------------------------------------------------------------

void PickleMachine::push(const Value& value) { stack_.push_back(value); }

Status PickleMachine::push_fresh(Tag tag) {
  if (++unfilled_ > limits_.open_containers) {
    return make_error(ErrorCode::kLimit, "more than " + std::to_string(limits_.open_containers) +
                                             " containers are open simultaneously near byte " +
                                             std::to_string(input_.offset()) +
                                             ": this is not a memory snapshot");
  }
  push(Value{tag, kNoMemo, 0});
  return {};
}

Status PickleMachine::push_mark() {
  if (marks_.size() >= limits_.open_containers) {
    return make_error(ErrorCode::kLimit,
                      "more than " + std::to_string(limits_.open_containers) +
                          " MARKs are open simultaneously: this is not a memory snapshot");
  }
  marks_.push_back(stack_.size());
  return {};
}

Status PickleMachine::push_string(std::uint64_t len) {
  if (len > limits_.string_bytes) {
    return make_error(ErrorCode::kLimit, "a string of " + std::to_string(len) + " bytes at byte " +
                                             std::to_string(opcode_at_) + " of the pickle");
  }
  PLIMSOLL_TRY(need(len));
  const std::string_view text(reinterpret_cast<const char*>(input_.cursor), len);
  push(Value{Tag::kString, kNoMemo, strings_.intern(text).value});
  input_.cursor += len;
  return {};
}

// Two's complement, little-endian, any length.
Status PickleMachine::push_integer(std::uint64_t len) {
  if (len > limits_.string_bytes) {
    return make_error(ErrorCode::kLimit, "an integer of " + std::to_string(len) +
                                             " bytes at byte " + std::to_string(opcode_at_));
  }
  PLIMSOLL_TRY(need(len));
  const std::span<const std::uint8_t> bytes(input_.cursor, len);
  input_.cursor += len;
  std::uint64_t low = 0;
  std::memcpy(&low, bytes.data(), std::min<std::size_t>(len, 8));
  const bool is_negative = len > 0 && (bytes[len - 1] & 0x80) != 0;
  if (len < 8 && is_negative) low |= ~std::uint64_t{0} << (8 * len);
  const std::uint8_t filler = is_negative ? 0xFF : 0;
  const bool fits =
      std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(len, 8)),
                  bytes.end(), [&](std::uint8_t byte) { return byte == filler; });
  const bool has_sign_bit = (low >> 63) != 0;
  if (!fits || (is_negative && !has_sign_bit)) {
    push(Value{Tag::kHugeInt, kNoMemo, 0});
  } else {
    push(Value{has_sign_bit && !is_negative ? Tag::kUint : Tag::kInt, kNoMemo, low});
  }
  return {};
}

Status PickleMachine::skip_bytes(std::uint64_t len) {
  while (len > 0) {
    PLIMSOLL_TRY(need(1));
    const std::uint64_t step = std::min<std::uint64_t>(len, input_.available());
    input_.cursor += step;
    len -= step;
  }
  return {};
}

// --- memo --------------------------------------------------------------------------------------

Status PickleMachine::memo_get(std::uint64_t index) {
  if (index >= memo_.size()) {
    return corrupt("it refers to memo " + std::to_string(index) + " of " +
                   std::to_string(memo_.size()));
  }
  std::uint64_t& slot = memo_[index];
  if ((slot & kWide) == kWide) {
    push(wide_memo_[slot & kBitsMask]);
    return {};
  }
  auto tag = static_cast<Tag>(slot >> kTagShift);
  // A reference to a container that is not filled yet yields an empty one (filling it later would
  // make it contain itself).
  if (is_fresh(tag)) {
    tag = tag == Tag::kFreshList ? Tag::kEmptyList : Tag::kEmptyDict;
    slot = pack(tag, 0);
  }
  push(Value{tag, kNoMemo, slot & kBitsMask});
  return {};
}

Status PickleMachine::memo_put(std::uint64_t index) {
  PLIMSOLL_TRY(need_on_stack(1));
  // Picklers number memos consecutively; a gap this large is an attack.
  if (index > memo_.size() + 65536) {
    return make_error(ErrorCode::kLimit, "memo number " + std::to_string(index) + " at byte " +
                                             std::to_string(opcode_at_) + " where " +
                                             std::to_string(memo_.size()) + " was due");
  }
  Value& value = stack_.back();
  if (index < memo_.size()) runs_.clear();  // the cached runs may refer to it
  if (index >= memo_.size()) memo_.resize(index + 1, pack(Tag::kNone, 0));
  if (is_wide(value.tag)) {
    wide_memo_.push_back(value);
    memo_[index] = kWide | (wide_memo_.size() - 1);
    return {};
  }
  if (is_fresh(value.tag)) {
    if (value.memo != kNoMemo) return corrupt("a container is memoized twice before it is filled");
    value.memo = static_cast<std::uint32_t>(index);
  }
  memo_[index] = pack(value.tag, value.bits);
  return {};
}

// The container at stack position `at` becomes `what`; its memo slot is updated too.
Status PickleMachine::become(std::size_t at, Value what) {
  Value& container = stack_[at];
  if (is_fresh(container.tag)) --unfilled_;
  if (container.memo != kNoMemo) {
    if (memo_[container.memo] != pack(container.tag, container.bits)) {
      return corrupt("a container contains itself");
    }
    memo_[container.memo] = pack(what.tag, what.bits);
  }
  what.memo = container.memo;
  container = what;
  return {};
}

// --- containers --------------------------------------------------------------------------------

Result<std::size_t> PickleMachine::pop_mark() {
  if (marks_.empty()) return corrupt("an opcode needs a MARK that is missing");
  const std::size_t first = marks_.back();
  marks_.resize(marks_.size() - 1);
  return first;
}

// Finalizes items that are put into a container: an item not filled by then stays empty.
void PickleMachine::settle(std::span<Value> items) {
  for (Value& item : items) {
    if (is_fresh(item.tag)) {
      item.tag = item.tag == Tag::kFreshList ? Tag::kEmptyList : Tag::kEmptyDict;
      --unfilled_;
    }
    item.memo = kNoMemo;
  }
}

// Dicts filled key by key are checked again when they are put into a list.
void PickleMachine::revisit_dicts(std::span<Value> items) {
  for (Value& item : items) {
    if (item.tag != Tag::kDict) continue;
    Items flat;
    for (const auto& [key, value] : arena_.dicts[item.bits]) {
      flat.push_back(key);
      flat.push_back(value);
    }
    if (Value record = records_.from_dict(flat, arena_); record.tag != Tag::kFreshDict)
      item = record;
  }
}

void PickleMachine::truncate(std::size_t size) {
  for (std::size_t at = size; at < stack_.size(); ++at)
    unfilled_ -= is_fresh(stack_[at].tag) ? 1 : 0;
  stack_.resize(size);
}

Status PickleMachine::make_tuple(std::size_t first) {
  const std::span<Value> items(stack_.data() + first, stack_.size() - first);
  settle(items);
  Value tuple;
  if (items.size() == 2 && items[0].is_unsigned() && items[1].is_unsigned()) {
    const std::pair pair(items[0].bits, items[1].bits);
    auto& pairs = arena_.pairs;  // pool ids: few distinct ones, repeated often
    const auto recent = pairs.size() > 64 ? pairs.end() - 64 : pairs.begin();
    auto found = std::find(recent, pairs.end(), pair);
    if (found == pairs.end()) {
      arena_bytes_ += sizeof pair;
      found = pairs.insert(found, pair);
    }
    tuple = Value{Tag::kPair, kNoMemo, static_cast<std::uint64_t>(found - pairs.begin())};
  } else {
    arena_.lists.emplace_back(items.begin(), items.end());
    arena_bytes_ += sizeof(Items) + items.size_bytes();
    tuple = Value{Tag::kTuple, kNoMemo, arena_.lists.size() - 1};
  }
  stack_.resize(first);
  push(tuple);
  return {};
}

Status PickleMachine::append(std::size_t first) {
  if (first == 0) return corrupt("items without a list");
  const std::size_t at = first - 1;
  const std::span<Value> items(stack_.data() + first, stack_.size() - first);
  settle(items);
  revisit_dicts(items);
  if (items.empty()) return {};
  Value list = stack_[at];
  if (list.tag == Tag::kFreshList) {
    Value record = records_.from_list(items, arena_);
    if (record.tag == Tag::kFreshList) {
      arena_.lists.emplace_back(items.begin(), items.end());
      arena_bytes_ += sizeof(Items) + items.size_bytes();
      record = Value{Tag::kList, kNoMemo, arena_.lists.size() - 1};
    }
    PLIMSOLL_TRY(become(at, record));
  } else if (list.tag == Tag::kStack || list.tag == Tag::kEventRange) {
    if (!records_.extend(list, items, arena_)) {
      Items all = records_.to_items(list, arena_);
      all.insert(all.end(), items.begin(), items.end());
      arena_bytes_ += sizeof(Items) + all.size() * sizeof(Value);
      arena_.lists.push_back(std::move(all));
      list.tag = Tag::kList;
      list.bits = arena_.lists.size() - 1;
    }
    PLIMSOLL_TRY(become(at, list));
  } else if (list.tag == Tag::kList) {
    grew_ = true;
    Items& all = arena_.lists[list.bits];
    all.insert(all.end(), items.begin(), items.end());
    arena_bytes_ += items.size_bytes();
  } else {
    return corrupt("items are appended to something that is not a list");
  }
  stack_.resize(first);
  return {};
}

// `is_whole`: these are likely all its keys (SETITEMS). A single key (SETITEM) may be followed by
// others.
Status PickleMachine::set_items(std::size_t first, bool is_whole) {
  if (first == 0) return corrupt("keys without a dict");
  const std::size_t at = first - 1;
  const std::span<Value> items(stack_.data() + first, stack_.size() - first);
  if (items.size() % 2 != 0) return corrupt("a key without a value");
  if (items.empty()) return {};
  settle(items);
  const Value dict = stack_[at];
  if (dict.tag == Tag::kFreshDict) {
    Value record{Tag::kFreshDict, kNoMemo, 0};
    if (is_whole) record = records_.from_dict(items, arena_);
    if (record.tag == Tag::kFreshDict) {
      arena_.dicts.emplace_back();
      arena_bytes_ += sizeof(Entries);
      record = Value{Tag::kDict, kNoMemo, arena_.dicts.size() - 1};
    }
    PLIMSOLL_TRY(become(at, record));
  }
  const Value& now = stack_[at];
  if (now.tag == Tag::kDict) {
    if (dict.tag == Tag::kDict) grew_ = true;
    Entries& entries = arena_.dicts[now.bits];
    for (std::size_t i = 0; i < items.size(); i += 2) entries.emplace_back(items[i], items[i + 1]);
    arena_bytes_ += items.size_bytes();
  } else if (dict.tag != Tag::kFreshDict) {
    return corrupt("keys are set on something that is not a dict, or is already complete");
  }
  stack_.resize(first);
  return {};
}

}  // namespace plimsoll::readers::torch_snapshot

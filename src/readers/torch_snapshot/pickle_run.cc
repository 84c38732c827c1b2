// Executes opcodes: a hot loop for the dozen opcodes that make up nearly all of a snapshot, and
// step() for any opcode at any position.
#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

#include "base/hash.h"
#include "readers/torch_snapshot/pickle_cycles.h"
#include "readers/torch_snapshot/pickle_machine.h"
#include "readers/torch_snapshot/pickle_opcodes.h"
#include "readers/torch_snapshot/pickle_slots.h"

namespace plimsoll::readers::torch_snapshot {
namespace {

// The longest opcode that the hot loop executes, so one comparison per iteration is enough.
constexpr std::size_t kHotBytes = 16;
// Bytes of the window per run of the hot loop: bounds the stack capacity to reserve.
constexpr std::size_t kHotStretch = 1 << 16;

}  // namespace

Result<Value> PickleMachine::run() {
  while (!stopped_) {
    if (input_.available() < kLeastWindow) PLIMSOLL_TRY(refill());
    PLIMSOLL_TRY(run_hot());
    PLIMSOLL_TRY(step());
  }
  if (stack_.size() != 1 || !marks_.empty()) return corrupt("it does not leave exactly one value");
  settle({stack_.data(), 1});
  if (grew_ && contains_itself(stack_.back(), arena_)) {
    return corrupt("a container contains itself");
  }
  return stack_.back();
}

// Fast path for a list of memo references only, `] MEMOIZE? ( ref ref ... e`, if its bytes have
// been seen before or its items are a record. Returns the position after it, or null if it must be
// run opcode by opcode.
const std::uint8_t* PickleMachine::take_run(const std::uint8_t* at, const std::uint8_t* safe,
                                            Value& list) {
  const bool is_memoized = at[1] == static_cast<std::uint8_t>(Opcode::kMemoize);
  const std::uint8_t* const mark = at + (is_memoized ? 2 : 1);
  if (*mark != static_cast<std::uint8_t>(Opcode::kMark)) return nullptr;
  const std::uint8_t* const first = mark + 1;
  const std::uint8_t* end = first;
  while (end <= safe) {
    if (*end == static_cast<std::uint8_t>(Opcode::kLongBinGet)) {
      end += 5;
    } else if (*end == static_cast<std::uint8_t>(Opcode::kBinGet)) {
      end += 2;
    } else {
      break;
    }
  }
  if (end > safe || end == first || *end != static_cast<std::uint8_t>(Opcode::kAppends))
    return nullptr;
  const std::span run(first, end);
  const std::uint64_t hash = base::hash_bytes(run.data(), run.size());
  const Value* known = runs_.find(run, hash);
  if (known == nullptr) {
    run_.clear();
    for (const std::uint8_t* ref = first; ref < end;) {
      const bool is_long = *ref == static_cast<std::uint8_t>(Opcode::kLongBinGet);
      const std::uint64_t index = is_long ? load<std::uint32_t>(ref + 1) : ref[1];
      if (index >= memo_.size()) return nullptr;
      const auto tag = static_cast<Tag>(memo_[index] >> kTagShift);
      if (tag != Tag::kFrame) return nullptr;
      run_.push_back(Value{tag, kNoMemo, memo_[index] & kBitsMask});
      ref += is_long ? 5 : 2;
    }
    const Value record = records_.from_list(run_.span(), arena_);
    if (record.tag != Tag::kStack) return nullptr;
    runs_.insert(run, hash, record);
    known = runs_.find(run, hash);
  }
  list = *known;
  if (is_memoized) {
    list.memo = static_cast<std::uint32_t>(memo_.size());
    memo_.push_back(pack(list.tag, list.bits));
  }
  return end + 1;
}

// Runs the opcodes that make up nearly all of a snapshot, while the window has plenty of input.
// Returns at any other opcode, for step(). The top of the stack is in a register here: it must be
// written back before `leave` and before every call that reads the stack.
Status PickleMachine::run_hot() {
  const std::uint8_t* at = input_.cursor;
  if (input_.available() < kHotBytes) return {};
  const std::size_t stretch = std::min(input_.available() - kHotBytes, kHotStretch);
  const std::uint8_t* const safe = at + stretch;
  stack_.reserve(stack_.size() + stretch + 1);  // no opcode pushes more than one value
  Value* top = stack_.end();
  while (at <= safe) {
    switch (static_cast<Opcode>(*at)) {
      case Opcode::kBinGet: {
        const std::uint64_t index = at[1];
        if (index >= memo_.size() || !is_plain(memo_[index])) goto leave;
        *top++ = unpack(memo_[index]);
        at += 2;
        break;
      }
      case Opcode::kLongBinGet: {
        const std::uint64_t index = load<std::uint32_t>(at + 1);
        if (index >= memo_.size() || !is_plain(memo_[index])) goto leave;
        *top++ = unpack(memo_[index]);
        at += 5;
        break;
      }
      case Opcode::kBinInt1:
        *top++ = integer(at[1]);
        at += 2;
        break;
      case Opcode::kBinInt2:
        *top++ = integer(load<std::uint16_t>(at + 1));
        at += 3;
        break;
      case Opcode::kBinInt:
        *top++ = integer(load<std::int32_t>(at + 1));
        at += 5;
        break;
      case Opcode::kLong1: {
        const unsigned len = at[1];
        if (len == 0 || len > 8) goto leave;
        const unsigned shift = 64 - 8 * len;
        const auto shifted = static_cast<std::int64_t>(load<std::uint64_t>(at + 2) << shift);
        *top++ = integer(shifted >> shift);
        at += 2 + len;
        break;
      }
      case Opcode::kShortBinUnicode: {
        const std::size_t len = at[1];
        if (static_cast<std::size_t>(input_.limit - at) < 2 + len) goto leave;
        const std::string_view text(reinterpret_cast<const char*>(at + 2), len);
        // PyTorch repeats "N/A" for each event: compare with the previous string before hashing.
        if (text != strings_[last_string_]) last_string_ = strings_.intern(text);
        *top++ = Value{Tag::kString, kNoMemo, last_string_.value};
        at += 2 + len;
        break;
      }
      case Opcode::kMemoize: {
        if (top == stack_.data()) goto leave;
        Value& value = top[-1];
        if (is_wide(value.tag) || value.memo != kNoMemo) goto leave;
        if (is_fresh(value.tag)) value.memo = static_cast<std::uint32_t>(memo_.size());
        memo_.push_back(pack(value.tag, value.bits));
        ++at;
        break;
      }
      case Opcode::kMark:
        if (marks_.size() >= limits_.open_containers) goto leave;
        marks_.push_back(static_cast<std::uint64_t>(top - stack_.data()));
        ++at;
        break;
      case Opcode::kEmptyDict:
        if (unfilled_ >= limits_.open_containers) goto leave;
        ++unfilled_;
        *top++ = Value{Tag::kFreshDict, kNoMemo, 0};
        ++at;
        break;
      case Opcode::kEmptyList: {
        Value list{Tag::kFreshList, kNoMemo, 0};
        if (const std::uint8_t* next = take_run(at, safe, list)) {
          at = next;
        } else {
          if (unfilled_ >= limits_.open_containers) goto leave;
          ++unfilled_;
          ++at;
        }
        *top++ = list;
        break;
      }
      case Opcode::kSetItems:
      case Opcode::kAppends: {
        const bool is_list = static_cast<Opcode>(*at) == Opcode::kAppends;
        input_.cursor = ++at;
        stack_.set_end(top);
        PLIMSOLL_TRY_ASSIGN(const std::size_t first, pop_mark());
        PLIMSOLL_TRY(is_list ? append(first) : set_items(first, true));
        top = stack_.end();
        break;
      }
      default:
        goto leave;
    }
  }
leave:
  input_.cursor = at;
  stack_.set_end(top);
  return {};
}

// Any opcode, at any position in the window. Its argument, if any, is a number of fixed width.
Status PickleMachine::step() {
  opcode_at_ = input_.offset();
  PLIMSOLL_TRY(need(1));
  const std::uint8_t byte = *input_.cursor++;
  const auto opcode = static_cast<Opcode>(byte);
  if (const char* name = unsafe_name(byte)) return refused(name);
  const std::size_t width = argument_width(opcode);
  PLIMSOLL_TRY(need(width));
  std::uint64_t argument = 0;
  std::memcpy(&argument, input_.cursor, width);
  input_.cursor += width;
  return is_plain_value(opcode) ? push_plain(opcode, argument) : run_structure(opcode, argument);
}

Status PickleMachine::push_plain(Opcode opcode, std::uint64_t argument) {
  switch (opcode) {
    case Opcode::kNone:
      push(Value{});
      return {};
    case Opcode::kNewTrue:
    case Opcode::kNewFalse:
      push(Value{Tag::kBool, kNoMemo, opcode == Opcode::kNewTrue ? 1U : 0U});
      return {};
    case Opcode::kBinInt1:
    case Opcode::kBinInt2:
      push(integer(static_cast<std::int64_t>(argument)));
      return {};
    case Opcode::kBinInt:
      push(integer(static_cast<std::int32_t>(argument)));
      return {};
    case Opcode::kBinFloat:  // the one big-endian number in pickle
      push(Value{Tag::kFloat, kNoMemo, __builtin_bswap64(argument)});
      return {};
    case Opcode::kLong1:
      return push_integer(argument);
    case Opcode::kLong4:
      if (argument > 0x7FFFFFFF) return corrupt("an integer of negative length");
      return push_integer(argument);
    case Opcode::kShortBinUnicode:
    case Opcode::kShortBinString:
    case Opcode::kBinUnicode:
    case Opcode::kBinString:
    case Opcode::kBinUnicode8:
      return push_string(argument);
    default:  // the bytes family, whose values no snapshot uses
      PLIMSOLL_TRY(skip_bytes(argument));
      push(Value{Tag::kBytes, kNoMemo, 0});
      return {};
  }
}

Status PickleMachine::run_structure(Opcode opcode, std::uint64_t argument) {
  switch (opcode) {
    case Opcode::kMark:
      return push_mark();
    case Opcode::kStop:
      stopped_ = true;
      return {};
    case Opcode::kPop:
      if (!marks_.empty() && marks_.back() == stack_.size()) {
        marks_.resize(marks_.size() - 1);
        return {};
      }
      PLIMSOLL_TRY(need_on_stack(1));
      truncate(stack_.size() - 1);
      return {};
    case Opcode::kDup:
      PLIMSOLL_TRY(need_on_stack(1));
      settle({stack_.end() - 1, 1});
      push(Value(stack_.back()));
      return {};
    case Opcode::kEmptyList:
      return push_fresh(Tag::kFreshList);
    case Opcode::kEmptyDict:
      return push_fresh(Tag::kFreshDict);
    case Opcode::kEmptyTuple:
      return make_tuple(stack_.size());
    case Opcode::kTuple1:
    case Opcode::kTuple2:
    case Opcode::kTuple3: {
      const auto count =
          static_cast<std::size_t>(opcode) - static_cast<std::size_t>(Opcode::kTuple1) + 1;
      PLIMSOLL_TRY(need_on_stack(count));
      return make_tuple(stack_.size() - count);
    }
    case Opcode::kAppend:
      PLIMSOLL_TRY(need_on_stack(2));
      return append(stack_.size() - 1);
    case Opcode::kSetItem:
      PLIMSOLL_TRY(need_on_stack(3));
      return set_items(stack_.size() - 2, false);
    case Opcode::kPopMark:
    case Opcode::kTuple:
    case Opcode::kAppends:
    case Opcode::kSetItems: {
      PLIMSOLL_TRY_ASSIGN(const std::size_t first, pop_mark());
      if (opcode == Opcode::kTuple) return make_tuple(first);
      if (opcode == Opcode::kAppends) return append(first);
      if (opcode == Opcode::kSetItems) return set_items(first, true);
      truncate(first);
      return {};
    }
    case Opcode::kBinGet:
    case Opcode::kLongBinGet:
      return memo_get(argument);
    case Opcode::kBinPut:
    case Opcode::kLongBinPut:
      return memo_put(argument);
    case Opcode::kMemoize:
      return memo_put(memo_.size());
    case Opcode::kFrame:  // a length that only helps buffering
      return {};
    case Opcode::kProto:
      if (argument <= 5) return {};
      return make_error(ErrorCode::kUnsupported,
                        "pickle protocol " + std::to_string(argument) + "; 2 to 5 are known");
    default:
      return foreign(static_cast<std::uint8_t>(opcode));
  }
}

}  // namespace plimsoll::readers::torch_snapshot

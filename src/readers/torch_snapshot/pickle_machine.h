// PickleMachine: a streaming pickle machine that can build plain data and nothing else. It supports
// protocols 2 to 5 as written by CPython and torch::jit::Pickler; it rejects, by name, every opcode
// that could import a name, call something or set an object's state. Depth, memo numbers, string
// lengths and memory are checked before they are used.
//
// Pickle's opcodes: Lib/pickletools.py in CPython.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/column.h"
#include "base/progress.h"
#include "model/strings.h"
#include "plimsoll/result.h"
#include "readers/torch_snapshot/pickle_input.h"
#include "readers/torch_snapshot/pickle_opcodes.h"
#include "readers/torch_snapshot/pickle_value.h"
#include "readers/torch_snapshot/run_cache.h"

namespace plimsoll::readers::torch_snapshot {

// Called for each container that may be a complete record.
class RecordMaker {
 public:
  virtual ~RecordMaker() = default;
  // `items` is key, value, key, value, ... . Returns the record, or kFreshDict if it is not one.
  virtual Value from_dict(std::span<const Value> items, PickleArena& arena) = 0;
  // Returns the record, or kFreshList if it is not one.
  virtual Value from_list(std::span<const Value> items, PickleArena& arena) = 0;
  // Adds items to a list that is already a record. Returns false if together they are not a record.
  virtual bool extend(Value& list, std::span<const Value> items, PickleArena& arena) = 0;
  // The items of a list that is a record.
  virtual Items to_items(const Value& list, const PickleArena& arena) const = 0;
  // Bytes used by the records so far.
  virtual std::uint64_t memory_bytes() const = 0;
};

struct MachineLimits {
  std::uint64_t memory_bytes = std::uint64_t{1} << 36;
  std::uint64_t string_bytes = std::uint64_t{1} << 26;
  std::uint64_t open_containers = 1'000'000;  // unfilled ones on the stack, mostly from nesting
};

class PickleMachine {
 public:
  PickleMachine(PickleInput& input, model::StringTable& strings, PickleArena& arena,
                RecordMaker& records, base::Progress& progress, MachineLimits limits)
      : input_(input),
        strings_(strings),
        arena_(arena),
        records_(records),
        progress_(progress),
        limits_(limits) {}

  // Runs to STOP and returns the value left on the stack.
  Result<Value> run();

 private:
  Status run_hot();
  const std::uint8_t* take_run(const std::uint8_t* at, const std::uint8_t* safe, Value& list);
  Status step();
  Status push_plain(Opcode opcode, std::uint64_t argument);
  Status run_structure(Opcode opcode, std::uint64_t argument);

  Status refill();
  Status need(std::size_t bytes);
  Status check_budget() const;

  void push(const Value& value);
  Status push_fresh(Tag tag);
  Status push_mark();
  Status push_string(std::uint64_t len);
  Status push_integer(std::uint64_t len);
  Status skip_bytes(std::uint64_t len);

  Status memo_get(std::uint64_t index);
  Status memo_put(std::uint64_t index);
  Status become(std::size_t at, Value what);

  Result<std::size_t> pop_mark();
  Status need_on_stack(std::size_t count) const;
  Status make_tuple(std::size_t first);
  Status append(std::size_t first);
  Status set_items(std::size_t first, bool is_whole);
  void settle(std::span<Value> items);
  void revisit_dicts(std::span<Value> items);
  void truncate(std::size_t size);

  Error corrupt(std::string_view what) const;
  Error cut_off() const;
  Error refused(const char* name);
  Error foreign(std::uint8_t opcode) const;
  std::string named_import(const char* name);

  PickleInput& input_;
  model::StringTable& strings_;
  PickleArena& arena_;
  RecordMaker& records_;
  base::Progress& progress_;
  MachineLimits limits_;
  base::Column<Value> stack_;
  base::Column<std::uint64_t> marks_;
  base::Column<std::uint64_t> memo_;  // tag in the top byte, bits below
  base::Column<Value> wide_memo_;  // values that do not fit into 56 bits: numbers, which are never
                                   // memoized in practice
  RunCache runs_;                  // lists that consist only of memo references, by their bytes
  base::Column<Value> run_;        // scratch
  model::StringId last_string_;
  std::uint64_t total_bytes_ = 0;  // of the input, if known; for progress reports
  std::uint64_t opcode_at_ = 0;
  std::uint64_t arena_bytes_ = 0;
  std::uint64_t unfilled_ = 0;  // fresh containers on the stack
  bool stopped_ = false;
  bool grew_ = false;  // a container was filled in several steps and may contain itself
};

}  // namespace plimsoll::readers::torch_snapshot

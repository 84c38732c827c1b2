// The events of a trace as columns: one row an event, in the order in which the allocator did it
// (which is authoritative; times may go backwards by a little between threads).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/column.h"
#include "model/ids.h"

namespace plimsoll::model {

enum class Action : std::uint8_t {
  kAlloc,
  kFreeRequested,  // the program is done with it
  kFreeCompleted,  // the allocator may reuse it (later only if a stream was still using it)
  kSegmentAlloc,   // cudaMalloc
  kSegmentFree,    // cudaFree
  kSegmentMap,     // expandable segments: a range was mapped
  kSegmentUnmap,
  kSnapshot,
  kOom,  // `address` holds the device's free bytes, `size_bytes` the request
  kAnnotate,
  kFree,     // requested and completed simultaneously: the allocator does not wait for streams
  kUnknown,  // an action of a later version: kept, counted, not understood
};

const char* to_string(Action action);  // the word in PyTorch's snapshots, where it has one

constexpr bool is_free_requested(Action action) {
  return action == Action::kFreeRequested || action == Action::kFree;
}
constexpr bool is_free_completed(Action action) {
  return action == Action::kFreeCompleted || action == Action::kFree;
}

// What the thread was in the middle of (DESIGN section 5).
enum class Phase : std::uint8_t { kOther, kForward, kBackward, kOptimizer, kData };
const char* to_string(Phase phase);

// Further attributes of an allocation, from the recorder.
enum class EventFlags : std::uint8_t {
  kNothing = 0,
  kTemporary = 1,         // freed before the outermost operator that allocated it returned
  kSavedForBackward = 2,  // made in forward, alive when backward began
  kAdopted = 4,           // it lived before it was first met: the event is when it was met
};
inline EventFlags operator|(EventFlags a, EventFlags b) {
  return static_cast<EventFlags>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
inline bool has(EventFlags flags, EventFlags flag) {
  return (static_cast<unsigned>(flags) & static_cast<unsigned>(flag)) != 0;
}

// One event on its way into the model.
struct Event {
  Action action = Action::kUnknown;
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;  // requested bytes for alloc and free, segment bytes for segments
  std::int64_t time_ns = kNoTime;
  StreamId stream;
  StackId stack;
  PoolId pool;
  StringId category;    // as the file says it; 0: none
  StringId op;          // the outermost operator of the allocating thread
  StringId inner_op;    // the innermost one
  StringId forward_op;  // in backward: the operator that made the autograd node
  StringId layer;       // the module path
  TensorId tensor;      // row in Trace::tensors; 0: unknown
  Phase phase = Phase::kOther;
  EventFlags flags = EventFlags::kNothing;
  StringId compile_context;
  StringId user_metadata;
  std::uint64_t slack_bytes = 0;  // of alloc and free: what the block is larger than the request
  ShortageId shortage;            // of kOom: what the process and the device may hold
};

// A column that costs nothing until a row differs from the default.
template <typename Id>
class OptionalColumn {
 public:
  Id operator[](std::size_t row) const { return row < rows_.size() ? rows_[row] : Id{}; }
  bool present() const { return !rows_.empty(); }
  void set(std::size_t row, Id id) {
    if (id == Id{}) return;
    if (row >= rows_.size()) rows_.resize(row + 1);
    rows_[row] = id;
  }
  // For filling many rows at once: all of the first `count` rows, to be written to.
  Id* rows(std::size_t count) {
    if (count > rows_.size()) rows_.resize(count);
    return rows_.data();
  }
  std::size_t memory_bytes() const { return rows_.memory_bytes(); }

 private:
  base::Column<Id> rows_;
};

struct Events {
  base::Column<Action> action;
  base::Column<std::uint64_t> address;
  base::Column<std::uint64_t> size_bytes;
  base::Column<std::int64_t> time_ns;
  OptionalColumn<StreamId> stream;
  base::Column<StackId> stack;
  OptionalColumn<PoolId> pool;
  OptionalColumn<StringId> category;
  OptionalColumn<StringId> op;
  OptionalColumn<StringId> inner_op;
  OptionalColumn<StringId> forward_op;
  OptionalColumn<StringId> layer;
  OptionalColumn<TensorId> tensor;
  OptionalColumn<Phase> phase;  // present: the recording tells phases
  OptionalColumn<EventFlags> flags;
  OptionalColumn<StringId> compile_context;
  OptionalColumn<StringId> user_metadata;
  // Where the device's trace tells blocks; the final blocks of a snapshot stand in Trace::blocks.
  OptionalColumn<std::uint64_t> slack_bytes;
  OptionalColumn<ShortageId> shortage;

  std::size_t size() const { return action.size(); }
  void push_back(const Event& event) {
    const std::size_t row = action.size();
    action.push_back(event.action);
    address.push_back(event.address);
    size_bytes.push_back(event.size_bytes);
    time_ns.push_back(event.time_ns);
    stack.push_back(event.stack);
    const std::uint32_t rare =
        event.stream.value | event.pool.value | event.category.value | event.op.value |
        event.inner_op.value | event.forward_op.value | event.layer.value | event.tensor.value |
        static_cast<std::uint32_t>(event.phase) | static_cast<std::uint32_t>(event.flags) |
        event.compile_context.value | event.user_metadata.value | event.shortage.value;
    if (rare != 0 || event.slack_bytes != 0) set_rare(row, event);
  }
  // For readers of many events: room for `count` more, then rows with nothing rare in them.
  void make_room(std::size_t count);
  void push_back_plain(Action what, std::uint64_t where, std::uint64_t bytes, std::int64_t when_ns,
                       StackId whence) {
    action.push_back_reserved(what);
    address.push_back_reserved(where);
    size_bytes.push_back_reserved(bytes);
    time_ns.push_back_reserved(when_ns);
    stack.push_back_reserved(whence);
  }
  Event at(std::size_t row) const {
    return Event{
        action[row],          address[row],       size_bytes[row],  time_ns[row], stream[row],
        stack[row],           pool[row],          category[row],    op[row],      inner_op[row],
        forward_op[row],      layer[row],         tensor[row],      phase[row],   flags[row],
        compile_context[row], user_metadata[row], slack_bytes[row], shortage[row]};
  }
  std::size_t memory_bytes() const;

 private:
  void set_rare(std::size_t row, const Event& event) {
    stream.set(row, event.stream);
    pool.set(row, event.pool);
    category.set(row, event.category);
    op.set(row, event.op);
    inner_op.set(row, event.inner_op);
    forward_op.set(row, event.forward_op);
    layer.set(row, event.layer);
    tensor.set(row, event.tensor);
    phase.set(row, event.phase);
    flags.set(row, event.flags);
    compile_context.set(row, event.compile_context);
    user_metadata.set(row, event.user_metadata);
    slack_bytes.set(row, event.slack_bytes);
    shortage.set(row, event.shortage);
  }
};

}  // namespace plimsoll::model

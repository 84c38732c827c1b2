// Recording: the parts of a trace that are retained while it is read: its memory events and the
// spans that may enclose them, as compact columns, and each distinct name once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/column.h"
#include "base/diagnostics.h"
#include "model/strings.h"
#include "model/trace.h"
#include "plimsoll/result.h"

namespace plimsoll::readers::kineto {

// The fields of a trace event that are used; texts are as in the file.
struct TraceEvent {
  std::string phase;
  std::string category;
  std::string name;
  std::string pid;
  std::string tid;
  std::string time;
  std::string duration;
  std::string call_stack;
  std::optional<std::int64_t> device_type;
  std::optional<std::int64_t> device_id;
  std::optional<std::int64_t> bytes;
  std::optional<std::int64_t> address;
  std::optional<std::int64_t> total_allocated;
  std::optional<std::int64_t> total_reserved;
  std::optional<std::int64_t> sequence;
  std::optional<std::int64_t> forward_thread;

  void clear();
};

using NameId = model::StringId;    // row in Recording::names; 0: none
using ThreadId = model::StringId;  // row in Recording::threads

struct MemoryEvent {
  std::int64_t time_ns = 0;
  std::int64_t bytes = 0;  // positive: allocated, or requested without success; negative: freed
  std::uint64_t address = 0;
  std::int64_t total_allocated = kNotReported;  // after the event
  std::int64_t total_reserved = kNotReported;
  ThreadId thread;
  std::uint32_t device = 0;  // row in Recording::devices
  bool has_address = false;
  bool is_out_of_memory = false;  // the request failed

  // Its contribution to the allocated bytes.
  std::int64_t change() const { return is_out_of_memory ? 0 : bytes; }

  static constexpr std::int64_t kNotReported = -1;
};

enum class SpanKind : std::uint8_t { kOperator, kPython, kModule, kAnnotation };

struct Span {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t sequence = kNoSequence;  // links a forward operator with its backward
  NameId name;
  NameId call_stack;  // in traces from 2021, the operator has the Python stack
  ThreadId thread;
  SpanKind kind = SpanKind::kOperator;
  bool is_backward = false;

  static constexpr std::int64_t kNoSequence = -1;
};

struct Recording {
  model::StringTable names;
  model::StringTable threads;  // "pid/tid"
  std::vector<model::Device> devices;
  base::Column<MemoryEvent> events;
  base::Column<Span> spans;
  std::uint64_t memory_pids = 0;     // lower bound on the number of processes with memory events
  std::optional<std::int64_t> rank;  // of a distributed run
  std::optional<std::int64_t> world_size;
  std::string host;

  std::uint64_t memory_bytes() const {
    return names.memory_bytes() + threads.memory_bytes() + events.memory_bytes() +
           spans.memory_bytes();
  }
};

Error out_of_memory_limit(std::uint64_t limit_bytes);

// Receives the events of a trace one by one, retains the relevant ones and counts unusable ones.
class Recorder {
 public:
  Recorder(Recording& recording, base::Diagnostics& diagnostics, std::uint64_t memory_limit)
      : recording_(recording), diagnostics_(diagnostics), memory_limit_(memory_limit) {}

  Status add(const TraceEvent& event);
  Recording& recording() { return recording_; }

 private:
  void add_memory(const TraceEvent& event);
  void add_span(const TraceEvent& event, SpanKind kind);
  std::uint32_t device_row(model::Device device);
  ThreadId thread_of(const TraceEvent& event);
  NameId name_of(std::string_view name, SpanKind kind);

  Recording& recording_;
  base::Diagnostics& diagnostics_;
  std::uint64_t memory_limit_;
  std::uint64_t seen_ = 0;
  std::string first_pid_;
  std::string scratch_;
};

}  // namespace plimsoll::readers::kineto

// The events of the allocator, which all parts of the generator share. Includes nothing of the
// engine, because the generator is used to check the engine.
#pragma once

#include <cstdint>
#include <string>

namespace generator {

enum class Action : uint8_t {
  kAlloc,
  kFreeRequested,
  kFreeCompleted,
  kSegmentAlloc,
  kSegmentFree,
  kSegmentMap,
  kOutOfMemory,
};

/// Identifies a stack of a StackTable.
using SiteId = uint32_t;

/// One captured traceback. Each allocation has its own, even if its stack is known. Id 0 is none.
struct Context {
  uint64_t id = 0;
  SiteId site = 0;
};

struct Event {
  Action action;
  uint64_t address;  // for an out-of-memory event: free bytes of the device
  uint64_t size_bytes;
  uint64_t stream;
  int64_t time_us;
  Context context;
};

struct Annotation {
  std::string name;
  std::string stage;  // "START" or "END"
  int64_t time_us;
};

/// Receives all events and annotations, in order.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_event(const Event& event) = 0;
  virtual void on_annotation(const Annotation& annotation) = 0;
};

}  // namespace generator

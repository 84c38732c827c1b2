// The words that the parts of the generator share: what the allocator says happened, and from
// where. Stand-alone on purpose: the generator judges the engine, so it includes nothing of it.
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

/// Names one stack of a StackTable.
using SiteId = uint32_t;

/// One captured traceback. Each allocation has its own, however often its stack has been seen; id 0
/// is "none".
struct Context {
  uint64_t id = 0;
  SiteId site = 0;
};

struct Event {
  Action action;
  uint64_t address;  // of an out-of-memory event: the free bytes of the device
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

/// Hears everything that happens, in order.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_event(const Event& event) = 0;
  virtual void on_annotation(const Annotation& annotation) = 0;
};

}  // namespace generator

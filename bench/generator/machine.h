// What a workload plays on: the allocator, a clock, a source of chance and the switch of the
// recorder. Running the same workload twice with the same seed gives the same events, which is how
// the generator can write the final segments first and still hold nothing but live memory.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "generator/allocator.h"
#include "generator/event.h"
#include "generator/stack_table.h"

namespace generator {

/// splitmix64: the same numbers on every platform, unlike the standard distributions.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next();
  /// In [0, limit).
  uint64_t below(uint64_t limit) { return next() % limit; }

 private:
  uint64_t state_;
};

class Machine {
 public:
  Machine(const AllocatorOptions& options, uint64_t seed, StackTable& stacks, EventSink& sink);

  /// From here on allocations remember their stack and events are heard.
  void start_recording();
  /// The program ends once that many events have been heard. It also ends when the device is full,
  /// as it does for a user who dumps the snapshot from an out-of-memory observer. Nothing happens
  /// on a machine that has stopped.
  void stop_after(uint64_t events) { last_event_ = events; }
  bool is_stopped() const { return is_full_ || filter_.count >= last_event_; }

  /// Null once the machine has stopped.
  Block* take(uint64_t size_bytes, SiteId site, uint64_t stream = 0);
  /// Frees a block, which is reusable immediately. Null, which a stopped machine returns, is
  /// ignored.
  void give(Block* block);
  /// Freed while another stream still uses it: reusable a few allocations later.
  void give_deferred(Block* block);
  void annotate_start(const std::string& name);
  void annotate_end(const std::string& name);

  StackTable& stacks() { return stacks_; }
  Random& random() { return random_; }
  const CachingAllocator& allocator() const { return allocator_; }
  uint64_t events() const { return filter_.count; }

 private:
  /// Passes events on while the recorder is on, and counts them.
  struct Filter : EventSink {
    explicit Filter(EventSink& sink) : next(sink) {}
    void on_event(const Event& event) override;
    void on_annotation(const Annotation& annotation) override;
    EventSink& next;
    uint64_t count = 0;
    bool is_on = false;
  };
  struct Deferred {
    Block* block;
    uint64_t due_tick;
  };

  void tick();

  StackTable& stacks_;
  Filter filter_;
  CachingAllocator allocator_;
  Random random_;
  int64_t time_us_ = 1'767'225'600'000'000;
  uint64_t ticks_ = 0;
  uint64_t last_event_ = ~0ull;
  bool is_full_ = false;
  uint64_t next_context_ = 1;
  std::deque<Deferred> deferred_;
};

}  // namespace generator

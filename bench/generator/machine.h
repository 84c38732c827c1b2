// The machine on which a workload runs: the allocator, a clock, a source of random numbers, and the
// switch of the recorder. The same workload with the same seed gives the same events, so the
// generator can write the final segments first while keeping only live memory.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "generator/allocator.h"
#include "generator/event.h"
#include "generator/stack_table.h"

namespace generator {

/// splitmix64, which gives the same numbers on every platform, unlike the standard distributions.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next();
  /// Returns a number in [0, limit).
  uint64_t below(uint64_t limit) { return next() % limit; }

 private:
  uint64_t state_;
};

class Machine {
 public:
  Machine(const AllocatorOptions& options, uint64_t seed, StackTable& stacks, EventSink& sink);

  /// From now on, allocations store their stack and events are passed on.
  void start_recording();
  /// The program ends after that many events. It also ends when the device is full, like the
  /// program of a user who dumps the snapshot from an out-of-memory observer. A stopped machine
  /// ignores all calls.
  void stop_after(uint64_t events) { last_event_ = events; }
  bool is_stopped() const { return is_full_ || filter_.count >= last_event_; }

  /// Allocates a block. Returns null once the machine has stopped.
  Block* take(uint64_t size_bytes, SiteId site, uint64_t stream = 0);
  /// Frees a block, which is reusable immediately. Ignores null, which a stopped machine returns.
  void give(Block* block);
  /// Frees a block that another stream still uses: it is reusable a few allocations later.
  void give_deferred(Block* block);
  void annotate_start(const std::string& name);
  void annotate_end(const std::string& name);

  StackTable& stacks() { return stacks_; }
  Random& random() { return random_; }
  const CachingAllocator& allocator() const { return allocator_; }
  uint64_t events() const { return filter_.count; }

 private:
  /// Counts events and passes them on while the recorder is on.
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

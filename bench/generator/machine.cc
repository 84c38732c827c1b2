#include "generator/machine.h"

namespace generator {
namespace {

constexpr uint64_t kDeferredTicks = 6;

}  // namespace

uint64_t Random::next() {
  state_ += 0x9E3779B97F4A7C15;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

void Machine::Filter::on_event(const Event& event) {
  if (!is_on) return;
  ++count;
  next.on_event(event);
}

void Machine::Filter::on_annotation(const Annotation& annotation) {
  if (is_on) next.on_annotation(annotation);
}

Machine::Machine(const AllocatorOptions& options, uint64_t seed, StackTable& stacks,
                 EventSink& sink)
    : stacks_(stacks), filter_(sink), allocator_(options, filter_), random_(seed) {
  allocator_.set_time_us(time_us_);
}

void Machine::start_recording() { filter_.is_on = true; }

void Machine::tick() {
  ++ticks_;
  time_us_ += static_cast<int64_t>(1 + random_.below(24));
  allocator_.set_time_us(time_us_);
  while (!deferred_.empty() && deferred_.front().due_tick <= ticks_) {
    allocator_.complete_free(deferred_.front().block);
    deferred_.pop_front();
  }
}

Block* Machine::take(uint64_t size_bytes, SiteId site, uint64_t stream) {
  if (is_stopped()) return nullptr;
  tick();
  Context context;
  if (filter_.is_on) context = Context{next_context_++, site};
  Block* block = allocator_.allocate(size_bytes, stream, context);
  is_full_ = block == nullptr;
  return block;
}

void Machine::give(Block* block) {
  if (is_stopped() || block == nullptr) return;
  tick();
  allocator_.request_free(block);
  allocator_.complete_free(block);
}

void Machine::give_deferred(Block* block) {
  if (is_stopped() || block == nullptr) return;
  tick();
  allocator_.request_free(block);
  deferred_.push_back(Deferred{block, ticks_ + kDeferredTicks});
}

void Machine::annotate_start(const std::string& name) {
  if (is_stopped()) return;
  tick();
  filter_.on_annotation(Annotation{name, "START", time_us_});
}

void Machine::annotate_end(const std::string& name) {
  if (is_stopped()) return;
  tick();
  filter_.on_annotation(Annotation{name, "END", time_us_});
}

}  // namespace generator

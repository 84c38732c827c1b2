#include "cpu_allocator.h"

#include <c10/core/CPUAllocator.h>

#include <cstring>
#include <string_view>
#include <typeinfo>
#include <utility>

#include "allocation_context.h"
#include "autograd_nodes.h"
#include "cpu_failures.h"
#include "thread_state.h"

namespace plimsoll::libtorch {
namespace {

c10::Allocator* g_base = nullptr;      // what does the work
c10::Allocator* g_replaced = nullptr;  // torch's default allocator, while it has our table
c10::DeleterFnPtr g_base_deleter = nullptr;

std::uint64_t number_of(const void* data) { return reinterpret_cast<std::uintptr_t>(data); }

void record_outside_operator(ThreadState& thread, std::uint64_t address, std::size_t size_bytes) {
  const SavedContext saved = describe_allocation(thread);
  recorder().alloc(thread.context, kCpu, address, size_bytes);
  thread.restore(saved);
  define_new_stacks(thread);
}

void record_in_operator(ThreadState& thread, std::uint64_t address, std::size_t size_bytes) {
  const std::uint32_t stack = describe_running_operator(thread);
  recorder().alloc(thread.context, kCpu, address, size_bytes);
  thread.context->stack = stack;
}

// Without operators only a backward differs from what the context says.
void record_in_phase(ThreadState& thread, std::uint64_t address, std::size_t size_bytes,
                     std::uint8_t phase) {
  plimsoll_context& context = *thread.context;
  const std::uint8_t phase_before = std::exchange(context.phase, phase);
  recorder().alloc(&context, kCpu, address, size_bytes);
  context.phase = phase_before;
}

void record_in_backward(ThreadState& thread, std::uint64_t address, std::size_t size_bytes) {
  const std::uint32_t layer = thread.context->layer;
  thread.context->layer = site_of_running_node(thread).layer;
  record_in_phase(thread, address, size_bytes, PLIMSOLL_PHASE_BACKWARD);
  thread.context->layer = layer;
}

// No exception leaves it: what torch allocates is the program's, whatever becomes of our details.
[[gnu::noinline]] void record_with_details(void* data, std::size_t size_bytes) noexcept {
  const std::uint64_t address = number_of(data);
  ThreadState* const state = thread_state_or_null();
  if (state == nullptr) return recorder().alloc(recorder().context(), kCpu, address, size_bytes);
  ThreadState& thread = *state;
  if (g_attachment.has_operators) {
    return thread.context->op_instance == 0 ? record_outside_operator(thread, address, size_bytes)
                                            : record_in_operator(thread, address, size_bytes);
  }
  if (!is_in_backward(thread)) return recorder().alloc(thread.context, kCpu, address, size_bytes);
  if (g_attachment.has_walks) return record_in_backward(thread, address, size_bytes);
  record_in_phase(thread, address, size_bytes, PLIMSOLL_PHASE_BACKWARD);
}

// The fast path is that of monitors: layers of the forward and phases.
void record_allocation(void* data, std::size_t size_bytes) noexcept {
  ThreadState* const thread = t_state;
  if (thread == nullptr || g_attachment.has_operators || g_attachment.has_walks) {
    return record_with_details(data, size_bytes);
  }
  if (!is_in_backward(*thread)) {
    return recorder().alloc(thread->context, kCpu, number_of(data), size_bytes);
  }
  record_in_phase(*thread, number_of(data), size_bytes, PLIMSOLL_PHASE_BACKWARD);
}

c10::DataPtr allocate_below(std::size_t size_bytes) try {
  return g_base->allocate(size_bytes);
} catch (...) {
  if (is_attached()) record_failed_allocation(size_bytes);
  throw;
}

class RecordingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t size_bytes) override {
    c10::DataPtr block = allocate_below(size_bytes);
    // Whatever raw_deleter() promises must hold also while nothing is recorded.
    const bool is_ours = block.compare_exchange_deleter(g_base_deleter, &recorded_delete);
    if (is_ours && block.get() != nullptr) {
      if (is_attached()) {
        record_allocation(block.get(), size_bytes);
      } else if (g_attachment.is_left_over.load(std::memory_order_relaxed)) {
        // Nothing is recorded; the recorder counts this process among those that allocate.
        recorder().alloc(nullptr, kCpu, number_of(block.get()), size_bytes);
      }
    }
    return block;
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return g_base_deleter == nullptr ? nullptr : &recorded_delete;
  }
  bool is_simple_data_ptr(const c10::DataPtr& block) const override {
    return g_base->is_simple_data_ptr(block);
  }
  void copy_data(void* to, const void* from, std::size_t size_bytes) const override {
    g_base->copy_data(to, from, size_bytes);
  }
};

// Storages keep a pointer to their allocator, so it is never destroyed.
RecordingAllocator& recording() {
  static Immortal<RecordingAllocator> allocator;
  return allocator.get();
}

// With the lowest priority that is high enough, so that who comes later is not shut out.
void put_in_front(c10::Allocator* allocator) {
  for (int priority = 0; priority <= 255; ++priority) {
    c10::SetAllocator(c10::DeviceType::CPU, allocator, static_cast<std::uint8_t>(priority));
    if (c10::GetAllocator(c10::DeviceType::CPU) == allocator) return;
  }
}

// An allocator that is nothing but its table of virtual functions.
struct Shell {
  void* table;
};
static_assert(sizeof(RecordingAllocator) == sizeof(Shell));

void* table_of(c10::Allocator* allocator) {
  void* table = nullptr;
  std::memcpy(&table, static_cast<void*>(allocator), sizeof(table));
  return table;
}

void set_table(c10::Allocator* allocator, void* table) {
  __atomic_store_n(reinterpret_cast<void**>(allocator), table, __ATOMIC_RELEASE);
}

// Its functions must not know members of which we know nothing.
bool is_default(c10::Allocator* allocator) {
  return allocator == c10::GetDefaultCPUAllocator() &&
         std::string_view(typeid(*allocator).name()).find("DefaultCPUAllocator") !=
             std::string_view::npos;
}

// torch's default allocator as it was before us.
c10::Allocator* default_as_it_was(c10::Allocator* allocator) {
  static Shell shell{table_of(allocator)};
  return reinterpret_cast<c10::Allocator*>(&shell);
}

}  // namespace

void recorded_delete(void* data) {
  if (is_attached()) {
    const ThreadState* const thread = t_state;
    plimsoll_context* const context = thread != nullptr ? thread->context : recorder().context();
    recorder().free(context, kCpu, number_of(data));
  }
  g_base_deleter(data);
}

void install_cpu_allocator() {
  c10::Allocator* present = c10::GetAllocator(c10::DeviceType::CPU);
  if (present == &recording() || present == g_replaced) return;
  g_base_deleter = present->raw_deleter();
  if (is_default(present)) {
    g_base = default_as_it_was(present);
    g_replaced = present;
    set_table(present, table_of(&recording()));
  } else {
    g_base = present;
    put_in_front(&recording());
  }
}

void remove_cpu_allocator() {
  if (g_replaced != nullptr) {
    set_table(g_replaced, table_of(g_base));
    g_replaced = nullptr;
    return;
  }
  // Somebody may have come after us: then theirs stays, with ours below it, doing nothing.
  if (c10::GetAllocator(c10::DeviceType::CPU) == &recording()) put_in_front(g_base);
}

c10::DeleterFnPtr base_deleter() { return g_base_deleter; }
c10::Allocator* base_allocator() { return g_base; }
c10::Allocator* recording_allocator() { return &recording(); }

}  // namespace plimsoll::libtorch

#include "cpu_allocator.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <optional>
#include <string_view>
#include <typeinfo>
#include <utility>

#include "allocation_context.h"
#include "autograd_nodes.h"
#include "cpu_failures.h"
#include "thread_state.h"

namespace plimsoll::libtorch {
namespace {

// An allocator that does the work, and its deleter. Hooks of an earlier recording may still run on
// other threads while install_cpu_allocator() starts the next one: its release stores are read here
// with acquire.
struct Base {
  std::atomic<c10::Allocator*> allocator = nullptr;
  std::atomic<c10::DeleterFnPtr> deleter = nullptr;
};

// A block is freed by the allocator that made it, even after the program has set another one. So
// each base keeps its number, and each number has its own deleter.
constexpr std::size_t kMostBases = 8;
std::array<Base, kMostBases> g_bases;
std::atomic<std::size_t> g_current_base = 0;
c10::Allocator* g_replaced = nullptr;  // torch's default allocator, while our vtable is installed

Base& current_base() { return g_bases[g_current_base.load(std::memory_order_acquire)]; }
c10::Allocator& base() { return *current_base().allocator.load(std::memory_order_acquire); }

std::uint64_t number_of(const void* data) { return reinterpret_cast<std::uintptr_t>(data); }

void record_outside_operator(ThreadState& thread, std::uint64_t address, std::size_t size_bytes,
                             const char* base) {
  const SavedContext saved = describe_allocation(thread, base);
  recorder().alloc(thread.context, kCpu, address, size_bytes);
  thread.restore(saved);
  define_new_stacks(thread);
}

void record_in_operator(ThreadState& thread, std::uint64_t address, std::size_t size_bytes) {
  const std::uint32_t stack = describe_running_operator(thread);
  recorder().alloc(thread.context, kCpu, address, size_bytes);
  if (g_attachment.outputs == Outputs::kNew) thread.new_blocks.add(address);
  thread.context->stack = stack;
}

// Without observed operators, the context has only the phases of modules and optimizers.
void record_in_phase(ThreadState& thread, std::uint64_t address, std::size_t size_bytes,
                     std::uint8_t phase) {
  plimsoll_context& context = *thread.context;
  const std::uint8_t phase_before = std::exchange(context.phase, phase);
  recorder().alloc(&context, kCpu, address, size_bytes);
  context.phase = phase_before;
}

void record_outside_backward(ThreadState& thread, std::uint64_t address, std::size_t size_bytes) {
  record_in_phase(thread, address, size_bytes,
                  phase_by_graph(thread, thread.context->phase, size_bytes));
}

void record_in_backward(ThreadState& thread, std::uint64_t address, std::size_t size_bytes) {
  const std::uint32_t layer = thread.context->layer;
  thread.context->layer = site_of_running_node(thread).layer;
  record_in_phase(thread, address, size_bytes, PLIMSOLL_PHASE_BACKWARD);
  thread.context->layer = layer;
}

// Never throws: the allocation itself must succeed even if its details cannot be recorded.
[[gnu::noinline]] void record_with_details(void* data, std::size_t size_bytes,
                                           const char* base) noexcept {
  const std::uint64_t address = number_of(data);
  ThreadState* const state = thread_state_or_null();
  if (state == nullptr) return recorder().alloc(recorder().context(), kCpu, address, size_bytes);
  ThreadState& thread = *state;
  if (const NativeSource* native = native_source()) {
    native->describe(thread, base);
    return recorder().alloc(thread.context, kCpu, address, size_bytes);
  }
  thread.leave_described();
  if (g_attachment.has_operators) {
    return thread.context->op_instance == 0
               ? record_outside_operator(thread, address, size_bytes, base)
               : record_in_operator(thread, address, size_bytes);
  }
  if (!is_in_backward(thread)) return record_outside_backward(thread, address, size_bytes);
  if (g_attachment.has_walks) return record_in_backward(thread, address, size_bytes);
  record_in_phase(thread, address, size_bytes, PLIMSOLL_PHASE_BACKWARD);
}

}  // namespace

// The fast path, for monitors: layers of the forward, and phases.
void record_allocation(void* data, std::size_t size_bytes, const char* base) noexcept {
  ThreadState* const thread = t_state;
  if (thread == nullptr || g_attachment.has_operators || g_attachment.has_walks) {
    return record_with_details(data, size_bytes, base);
  }
  if (!is_in_backward(*thread)) {
    return record_outside_backward(*thread, number_of(data), size_bytes);
  }
  record_in_phase(*thread, number_of(data), size_bytes, PLIMSOLL_PHASE_BACKWARD);
}

namespace {

void record_free(const void* data, const char* base) {
  if (!is_attached()) return;
  ThreadState* const thread = t_state;
  const NativeSource* const native = native_source();
  if (native != nullptr && thread != nullptr) native->settle(*thread, base);
  plimsoll_context* const context = thread != nullptr ? thread->context : recorder().context();
  recorder().free(context, kCpu, number_of(data));
}

template <std::size_t kBase>
void recorded_delete(void* data) {
  record_free(data, PLIMSOLL_STACK_BASE);
  g_bases[kBase].deleter.load(std::memory_order_acquire)(data);
}

constexpr auto kDeleters = []<std::size_t... kBase>(std::index_sequence<kBase...>) {
  return std::array<c10::DeleterFnPtr, kMostBases>{&recorded_delete<kBase>...};
}(std::make_index_sequence<kMostBases>());

// Returns the number of this base: its earlier number, or else the next free one. nullopt if the
// program has set more allocators than there are numbers.
std::optional<std::size_t> number_of_base(const c10::Allocator* allocator,
                                          c10::DeleterFnPtr deleter) {
  for (std::size_t number = 0; number < kMostBases; ++number) {
    const c10::Allocator* const known = g_bases[number].allocator.load(std::memory_order_relaxed);
    if (known == nullptr) return number;
    if (known == allocator && g_bases[number].deleter.load(std::memory_order_relaxed) == deleter) {
      return number;
    }
  }
  return std::nullopt;
}

c10::DataPtr allocate_below(std::size_t number, std::size_t size_bytes) try {
  return g_bases[number].allocator.load(std::memory_order_acquire)->allocate(size_bytes);
} catch (...) {
  if (is_attached()) record_failed_allocation(size_bytes);
  throw;
}

class RecordingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t size_bytes) override {
    // Read only once: the next recording may meanwhile begin on another allocator.
    const std::size_t number = g_current_base.load(std::memory_order_acquire);
    c10::DataPtr block = allocate_below(number, size_bytes);
    // raw_deleter() promises this deleter even while nothing is recorded.
    const bool is_ours = block.compare_exchange_deleter(
        g_bases[number].deleter.load(std::memory_order_acquire), kDeleters[number]);
    if (is_ours && block.get() != nullptr) {
      if (is_attached()) {
        record_allocation(block.get(), size_bytes, PLIMSOLL_STACK_BASE);
      } else if (g_attachment.is_left_over.load(std::memory_order_relaxed)) {
        // Nothing is recorded; the recorder counts this process among the children that allocate.
        recorder().alloc(nullptr, kCpu, number_of(block.get()), size_bytes);
      }
    }
    return block;
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return base_deleter() == nullptr ? nullptr : recorded_deleter();
  }
  bool is_simple_data_ptr(const c10::DataPtr& block) const override {
    return base().is_simple_data_ptr(block);
  }
  void copy_data(void* to, const void* from, std::size_t size_bytes) const override {
    base().copy_data(to, from, size_bytes);
  }
};

// Storages keep a pointer to their allocator, so it is never destroyed.
RecordingAllocator& recording() {
  static Immortal<RecordingAllocator> allocator;
  return allocator.get();
}

// Uses the lowest sufficient priority, so that allocators set later are not shut out.
void put_in_front(c10::Allocator* allocator) {
  for (int priority = 0; priority <= 255; ++priority) {
    c10::SetAllocator(c10::DeviceType::CPU, allocator, static_cast<std::uint8_t>(priority));
    if (c10::GetAllocator(c10::DeviceType::CPU) == allocator) return;
  }
}

// An allocator whose only state is its pointer to a virtual function table.
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

// Whether it is torch's default allocator, whose functions use no members that this file does not
// know.
bool is_default(c10::Allocator* allocator) {
  return allocator == c10::GetDefaultCPUAllocator() &&
         std::string_view(typeid(*allocator).name()).find("DefaultCPUAllocator") !=
             std::string_view::npos;
}

// torch's default allocator, unmodified.
c10::Allocator* default_as_it_was(c10::Allocator* allocator) {
  static Shell shell{table_of(allocator)};
  return reinterpret_cast<c10::Allocator*>(&shell);
}

}  // namespace

bool install_cpu_allocator() {
  c10::Allocator* present = c10::GetAllocator(c10::DeviceType::CPU);
  if (present == &recording() || present == g_replaced) return true;
  const bool is_default_one = is_default(present);
  c10::Allocator* const base = is_default_one ? default_as_it_was(present) : present;
  const auto number = number_of_base(base, present->raw_deleter());
  if (!number) return false;
  g_bases[*number].deleter.store(present->raw_deleter(), std::memory_order_release);
  g_bases[*number].allocator.store(base, std::memory_order_release);
  g_current_base.store(*number, std::memory_order_release);
  if (is_default_one) {
    g_replaced = present;
    set_table(present, table_of(&recording()));
  } else {
    put_in_front(&recording());
  }
  return true;
}

void remove_cpu_allocator() {
  if (g_replaced != nullptr) {
    set_table(g_replaced, table_of(&base()));
    g_replaced = nullptr;
    return;
  }
  // If another allocator has been set after ours, it stays, and ours remains below it, inactive.
  if (c10::GetAllocator(c10::DeviceType::CPU) == &recording()) put_in_front(&base());
}

c10::DeleterFnPtr base_deleter() { return current_base().deleter.load(std::memory_order_acquire); }
c10::DeleterFnPtr recorded_deleter() {
  return kDeleters[g_current_base.load(std::memory_order_acquire)];
}
bool is_recorded_deleter(c10::DeleterFnPtr deleter) {
  return std::ranges::find(kDeleters, deleter) != kDeleters.end();
}
c10::Allocator* base_allocator() { return &base(); }
c10::Allocator* recording_allocator() { return &recording(); }

}  // namespace plimsoll::libtorch

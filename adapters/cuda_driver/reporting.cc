#include "reporting.h"

#include <errno.h>
#include <pthread.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "allocation_book.h"
#include "call_stack.h"
#include "driver_queries.h"
#include "physical_memory.h"
#include "plimsoll/recorder_c.h"
#include "registry.h"

namespace plimsoll::cuda_driver {
namespace {

enum class State : int { kIdle, kOn, kFailed };
constinit std::atomic<State> state{State::kIdle};
constinit std::mutex starting;

const plimsoll_recorder_api& api() { return *plimsoll_recorder(); }

std::uint32_t operation_id(const char* text) { return api().name(text, std::strlen(text)); }

State start() {
  std::vector<std::string> texts = {"adapter", "cuda-driver", "program",
                                    program_invocation_short_name};
  const std::vector<std::string> uuids = device_uuids();
  for (std::size_t ordinal = 0; ordinal < uuids.size(); ++ordinal) {
    if (uuids[ordinal].empty()) continue;
    texts.push_back("cuda." + std::to_string(ordinal) + ".uuid");
    texts.push_back(uuids[ordinal]);
  }
  std::vector<const char*> meta;
  for (const std::string& text : texts) meta.push_back(text.c_str());
  meta.push_back(nullptr);
  const std::string path = wanted_path();
  plimsoll_recording_options options{};
  options.size_bytes = sizeof options;
  options.sink = PLIMSOLL_SINK_FILE;
  options.path = path.c_str();
  options.meta = meta.data();
  const char* why = nullptr;
  // The recorder ends it at exit, so the handle is not needed.
  const plimsoll_recording* const recording = plimsoll_recording_start(&options, &why);
  if (recording == nullptr) {
    report_failure(why);
    return State::kFailed;
  }
  report_recording(plimsoll_recording_path(recording));
  return State::kOn;
}

// The context belongs to the parent, because the driver does not survive a fork.
void forget_after_fork() {
  ::new (static_cast<void*>(&starting)) std::mutex;
  state.store(State::kIdle, std::memory_order_relaxed);
  allocation_book().forget();
  physical_memory().forget();
}

// Sets the thread's context for the duration of one event.
class ThreadActivity {
 public:
  ThreadActivity(std::uint32_t operation, std::uint32_t stack) : context_(api().context()) {
    context_->outer_op = operation;
    context_->stack = stack;
  }
  ThreadActivity(const ThreadActivity&) = delete;
  ThreadActivity& operator=(const ThreadActivity&) = delete;
  ~ThreadActivity() {
    context_->outer_op = 0;
    context_->stack = 0;
  }
  plimsoll_context* context() const { return context_; }

 private:
  plimsoll_context* context_;
};

}  // namespace

// Creates the recorder now, so that it outlives the program's static objects, whose destructors
// free memory too.
void prepare_reporting() noexcept {
  plimsoll_recorder();
  allocation_book();
  physical_memory();
  pthread_atfork(
      [] {
        physical_memory().lock();
        allocation_book().lock();
      },
      [] {
        allocation_book().unlock();
        physical_memory().unlock();
      },
      forget_after_fork);
}

bool begin_reporting() noexcept try {
  State now = state.load(std::memory_order_acquire);
  if (now == State::kIdle) [[unlikely]] {
    const std::lock_guard lock(starting);
    now = state.load(std::memory_order_relaxed);
    if (now == State::kIdle) {
      now = start();
      state.store(now, std::memory_order_release);
    }
  }
  return now == State::kOn;
} catch (...) {
  state.store(State::kFailed, std::memory_order_release);
  return false;
}

Allocation describe(const char* operation, Place place, int ordinal,
                    std::uint64_t size_bytes) noexcept {
  Allocation allocation;
  allocation.size_bytes = size_bytes;
  allocation.operation = operation_id(operation);
  allocation.stack = call_stack();
  allocation.device = place == Place::kDevice ? api().device(PLIMSOLL_DEVICE_CUDA, ordinal)
                                              : api().device(PLIMSOLL_DEVICE_PINNED_HOST, 0);
  allocation.ordinal = static_cast<std::int16_t>(ordinal);
  return allocation;
}

void report_alloc(std::uint64_t address, const Allocation& allocation) noexcept {
  const ThreadActivity activity(allocation.operation, allocation.stack);
  api().alloc(activity.context(), allocation.device, address, allocation.size_bytes);
}

void report_free(std::uint64_t address, const Allocation& allocation) noexcept {
  api().free(api().context(), allocation.device, address);
}

void report_out_of_memory(const char* operation, Place place, std::uint64_t asked_bytes) noexcept {
  const Allocation asked = describe(operation, place, current_device(), asked_bytes);
  const DeviceMemory memory = place == Place::kDevice ? device_memory() : DeviceMemory{};
  const ThreadActivity activity(asked.operation, asked.stack);
  plimsoll_block request{};
  request.requested_bytes = asked_bytes;
  request.size_bytes = asked_bytes;
  api().out_of_memory(activity.context(), asked.device, &request, memory.free_bytes,
                      memory.total_bytes, memory.total_bytes);
}

}  // namespace plimsoll::cuda_driver

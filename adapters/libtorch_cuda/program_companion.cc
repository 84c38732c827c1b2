// Records CUDA in a C++ program whenever the CPU adapter is attached.
//
// CUDA must be initialized first, and torch has no callback for that. Until then, each operator and
// each plimsoll_libtorch_renew() checks for it. Earlier allocations are in the snapshot.
#include <ATen/Context.h>
#include <ATen/record_function.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <pthread.h>

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

#include "../libtorch/plimsoll_libtorch.h"
#include "plimsoll/quiet_writing_c.h"
#include "plimsoll_libtorch_cuda.h"

namespace plimsoll::libtorch_cuda {
namespace {

constexpr c10::DeviceType kCuda = c10::DeviceType::CUDA;

// Locked while attaching, renewing and detaching. Usable until the process ends, and without
// memory.
std::mutex g_mutex;
static_assert(std::is_trivially_destructible_v<std::mutex>);
// Guarded by g_mutex.
const plimsoll_recorder_api* g_recorder = nullptr;  // while the CPU adapter is attached
bool g_is_attached = false;
const char* g_problem = nullptr;
at::CallbackHandle g_readings = at::INVALID_CALLBACK_HANDLE;

std::atomic<bool> g_waits{false};  // for CUDA to be initialized

bool is_allocator_initialized() {
  auto* allocator = c10::cuda::CUDACachingAllocator::get();
  return allocator != nullptr && allocator->initialized() && c10::impl::hasDeviceGuardImpl(kCuda);
}

// Waits for an initialization that another thread may have started. lazyInitDevice came with torch
// 2.5.
template <typename Context>
void await_initialization(Context& context) {
  if constexpr (requires { context.lazyInitDevice(kCuda); }) {
    context.lazyInitDevice(kCuda);
  } else {
    context.lazyInitCUDA();
  }
}

const char* attach() {
  try {
    await_initialization(at::globalContext());
    const int devices = c10::impl::getDeviceGuardImpl(kCuda)->deviceCount();
    const char* problem =
        plimsoll_libtorch_cuda_attach(g_recorder, devices, plimsoll_libtorch_describe_allocation);
    if (problem != nullptr) return problem;
  } catch (const std::exception&) {
    return "torch cannot initialize CUDA";
  }
  plimsoll_libtorch_cuda_renew();  // other threads may have allocated meanwhile
  if (plimsoll_libtorch_cuda_differs() < 0) return nullptr;
  plimsoll_libtorch_cuda_detach();
  return "in this version, the statistics of torch's CUDA allocator do not match its events";
}

void stop_reading() {
  g_waits = false;
  const at::CallbackHandle handle = std::exchange(g_readings, at::INVALID_CALLBACK_HANDLE);
  if (handle != at::INVALID_CALLBACK_HANDLE) at::removeCallback(handle);
}

void attach_if_initialized() {
  if (!g_waits || !is_allocator_initialized()) return;
  stop_reading();
  g_problem = attach();
  g_is_attached = g_problem == nullptr;
  if (g_is_attached) {
    plimsoll_libtorch_report_cuda_tensors(1);
  } else {
    plimsoll_print("CUDA memory is not recorded", g_problem);
  }
}

std::unique_ptr<at::ObserverContext> operator_began(const at::RecordFunction& /*record*/) {
  if (g_waits.load(std::memory_order_relaxed) && is_allocator_initialized()) {
    // The thread with the lock attaches.
    if (const std::unique_lock lock(g_mutex, std::try_to_lock); lock) attach_if_initialized();
  }
  return nullptr;
}

void begin(const plimsoll_recorder_api* api) {
  const std::lock_guard lock(g_mutex);
  g_recorder = api;
  g_problem = nullptr;
  g_waits = true;
  attach_if_initialized();
  if (!g_waits) return;
  g_readings = at::addGlobalCallback(
      at::RecordFunctionCallback(&operator_began).scopes({at::RecordScope::FUNCTION}));
}

const char* renew() {
  const std::unique_lock lock(g_mutex, std::try_to_lock);
  if (!lock) return nullptr;
  attach_if_initialized();
  if (g_is_attached) plimsoll_libtorch_cuda_renew();
  return g_problem;
}

void end() {
  const std::lock_guard lock(g_mutex);
  stop_reading();
  if (std::exchange(g_is_attached, false)) {
    plimsoll_libtorch_cuda_detach();
    plimsoll_libtorch_report_cuda_tensors(0);
  }
}

constexpr plimsoll_libtorch_companion kCompanion{&begin, &renew, &end};

[[maybe_unused]] const bool kIsSet = [] {
  pthread_atfork([] { g_mutex.lock(); }, [] { g_mutex.unlock(); }, [] { g_mutex.unlock(); });
  plimsoll_libtorch_set_companion(&kCompanion);
  return true;
}();

}  // namespace
}  // namespace plimsoll::libtorch_cuda

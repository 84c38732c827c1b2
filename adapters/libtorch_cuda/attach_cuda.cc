// Attaches and detaches the hooks in an order that leaves no gap: first the events, then the
// snapshot that they are added to.
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

#include "cuda_recording.h"
#include "plimsoll_libtorch_cuda.h"
#include "torch_allocator.h"

namespace plimsoll::libtorch_cuda {
namespace {

const plimsoll_recorder_api* g_api = nullptr;
DescribeAllocation g_describe = nullptr;

// Returns the CPU adapter's description; that adapter may be detached and attached again, or be
// absent.
plimsoll_context* describe_allocation(plimsoll_context* before) {
  if (g_describe != nullptr) {
    if (plimsoll_context* context = g_describe(before)) return context;
  }
  plimsoll_context* context = g_api->context();
  *before = *context;
  return context;
}

// CUDA does not work in the child of a fork.
void after_fork_in_child() { cuda_recording().leave_to_parent(); }

// Snapshots that resolve doubtful sizes cost the program at most this share of its time.
constexpr int kShareOfTime = 100;
using Clock = std::chrono::steady_clock;
std::atomic<Clock::time_point> g_next_repair{Clock::time_point::min()};

// Whether our sums equal the allocator's. An event may come between the two readings. If none does,
// the readings are consistent, since both sides change under the device's lock.
enum class Sums : std::uint8_t { kEqual, kDiffer, kNotKnown };
Sums compare_sums(int device) {
  constexpr int kTries = 10;
  const DeviceTracker& tracker = *cuda_recording().tracker(device);
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t events = tracker.counts().events;
    const auto ours = tracker.allocated_and_reserved_bytes();
    const DeviceTotals torchs = totals_of(device);
    if (tracker.counts().events != events) continue;
    const bool is_equal = ours == std::pair(torchs.allocated_bytes, torchs.reserved_bytes);
    return is_equal ? Sums::kEqual : Sums::kDiffer;
  }
  return Sums::kNotKnown;
}

void seed_those(const std::vector<DeviceTracker*>& trackers) {
  CudaRecording& recording = cuda_recording();
  for (DeviceTracker* tracker : trackers) tracker->await_snapshot();
  recording.begin_snapshot();
  const SeenAllocator seen = see_allocator(recording.device_count());
  recording.end_snapshot();
  report_settings(*g_api, seen.settings);
  for (int i = 0; i < recording.device_count(); ++i) {
    DeviceTracker* tracker = recording.tracker(i);
    for (const DeviceTracker* wanted : trackers) {
      if (wanted == tracker) tracker->seed(seen.devices[static_cast<std::size_t>(i)]);
    }
  }
}

std::vector<DeviceTracker*> all_trackers() {
  std::vector<DeviceTracker*> all;
  for (int i = 0; i < cuda_recording().device_count(); ++i) {
    all.push_back(cuda_recording().tracker(i));
  }
  return all;
}

const char* problem_of(const plimsoll_recorder_api* api) {
  if (api == nullptr) return "there is no recorder";
  if (api->abi_version != PLIMSOLL_RECORDER_ABI || api->size_bytes < sizeof(*api)) {
    return "the recorder and the adapter have different versions";
  }
  if (cuda_recording().is_on()) return "the adapter is attached already";
  return allocator_problem();
}

}  // namespace
}  // namespace plimsoll::libtorch_cuda

extern "C" {

const char* plimsoll_libtorch_cuda_attach(const plimsoll_recorder_api* api, int device_count,
                                          plimsoll_context* (*describe)(plimsoll_context*)) {
  using namespace plimsoll::libtorch_cuda;
  if (const char* problem = problem_of(api)) return problem;
  static const int watches_forks = pthread_atfork(nullptr, nullptr, after_fork_in_child);
  static_cast<void>(watches_forks);
  g_api = api;
  g_describe = describe;
  CudaRecording& recording = cuda_recording();
  try {
    recording.prepare(*api, device_count, describe_allocation);
    recording.start();
    attach_to_allocator();
    seed_those(all_trackers());
  } catch (const std::exception&) {
    recording.stop();
    return "torch's CUDA allocator cannot be followed";
  }
  return nullptr;
}

int plimsoll_libtorch_cuda_renew(void) {
  using namespace plimsoll::libtorch_cuda;
  if (!cuda_recording().is_on()) return 0;
  std::vector<DeviceTracker*> in_doubt;
  try {
    for (int i = 0; i < cuda_recording().device_count(); ++i) {
      DeviceTracker* tracker = cuda_recording().tracker(i);
      if (!tracker->needs_seed() && compare_sums(i) == Sums::kDiffer) tracker->differs();
      if (tracker->needs_seed()) in_doubt.push_back(tracker);
      tracker->report_unverified();
    }
    const Clock::time_point began = Clock::now();
    if (in_doubt.empty() || began < g_next_repair.load()) return 0;
    seed_those(in_doubt);
    const Clock::time_point ended = Clock::now();
    g_next_repair.store(ended + kShareOfTime * (ended - began));
  } catch (const std::exception&) {
    return 0;  // tried again at the next call
  }
  return static_cast<int>(in_doubt.size());
}

int plimsoll_libtorch_cuda_differs(void) {
  using namespace plimsoll::libtorch_cuda;
  try {
    for (int i = 0; i < cuda_recording().device_count(); ++i) {
      if (compare_sums(i) == Sums::kDiffer) return i;
    }
  } catch (const std::exception&) {
    return 0;
  }
  return -1;
}

void plimsoll_libtorch_cuda_report_settings(void) {
  using namespace plimsoll::libtorch_cuda;
  if (!cuda_recording().is_on()) return;
  try {
    report_settings(*g_api, see_allocator(0).settings);
  } catch (const std::exception&) {
    return;  // the earlier settings remain
  }
}

void plimsoll_libtorch_cuda_detach(void) { plimsoll::libtorch_cuda::cuda_recording().stop(); }
}

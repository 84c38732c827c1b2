#include "probes/nvml_watcher.h"

#include <time.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "base/worker.h"

namespace plimsoll::probes {
namespace {

constexpr std::int64_t kPatienceNs = 100'000'000;
constexpr std::int64_t kUrgentIntervalNs = 100'000'000;

std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void pause(std::int64_t ns) {
  const timespec time{0, static_cast<long>(ns)};
  ::nanosleep(&time, nullptr);
}

}  // namespace

struct NvmlWatcher::State {
  explicit State(NvmlWatcherOptions given) : options(std::move(given)) {
    if (!options.read) options.read = [](Nvml& nvml) { return nvml.read(); };
  }

  NvmlWatcherOptions options;
  base::Worker worker{"plimsoll-nvml"};
  std::shared_ptr<State> for_the_thread;  // this state, until the thread takes it

  mutable std::mutex mutex;  // guards the members below
  GpuView view;              // its age_ns is unused
  std::int64_t answered_ns = now_ns();
  std::uint64_t begun = 0;     // number of the reading begun last
  std::uint64_t ended = 0;     // number of the reading completed last, also without an answer
  std::uint64_t answered = 0;  // number of the reading that `view` is of
  std::uint64_t wanted = 0;    // number of the last reading requested, which callers wait for
  bool is_over = false;        // the thread will not use the driver any more

  void run() noexcept;
  void watch();
  void read(Nvml& nvml) noexcept;
  bool sleep(std::int64_t until_ns);
  void take(std::vector<GpuDevice> devices, std::string why_none);
};

void NvmlWatcher::State::take(std::vector<GpuDevice> devices, std::string why_none) {
  const std::lock_guard lock(mutex);
  view.is_known = true;
  view.why_none = std::move(why_none);
  view.devices = std::move(devices);
  answered_ns = now_ns();
  answered = ended = begun;
}

// Sleeps until the next reading is due or requested. Returns false when the watcher is done.
bool NvmlWatcher::State::sleep(std::int64_t until_ns) {
  while (true) {
    std::int64_t left_ns = until_ns - now_ns();
    {
      const std::lock_guard lock(mutex);
      if (left_ns <= 0 || wanted > begun) return true;
    }
    if (options.is_urgent) left_ns = std::min(left_ns, kUrgentIntervalNs);
    if (!worker.waker().sleep(left_ns)) return false;
    if (options.is_urgent && options.is_urgent()) return true;
  }
}

// If there is no memory for an answer, the previous one remains.
void NvmlWatcher::State::read(Nvml& nvml) noexcept {
  try {
    take(options.read(nvml), "");
  } catch (...) {
    const std::lock_guard lock(mutex);
    ended = begun;
  }
}

void NvmlWatcher::State::watch() {
  auto nvml = Nvml::load(options.library);
  if (!nvml) return take({}, nvml.error().message);
  while (true) {
    {
      const std::lock_guard lock(mutex);
      ++begun;
    }
    const std::int64_t began_ns = now_ns();
    read(*nvml);
    const std::int64_t cost_ns = now_ns() - began_ns;
    if (!sleep(began_ns + std::max(options.read_every_ns, options.times_the_cost * cost_ns)))
      return;
  }
}

void NvmlWatcher::State::run() noexcept {
  const auto watch_to_the_end = [this] {
    try {
      watch();
    } catch (...) {
      return;  // no memory to load the driver, or `is_urgent` threw
    }
  };
  watch_to_the_end();
  const std::lock_guard lock(mutex);
  is_over = true;
}

NvmlWatcher::NvmlWatcher(NvmlWatcherOptions options)
    : state_(std::make_shared<State>(std::move(options))) {
  const auto body = [](void* argument) noexcept -> void* {
    const std::shared_ptr<State> state = std::move(static_cast<State*>(argument)->for_the_thread);
    state->run();
    return nullptr;
  };
  state_->for_the_thread = state_;
  if (!state_->worker.start(body, state_.get())) {
    state_->for_the_thread.reset();
    state_->take({}, "no thread could be started to query the NVIDIA driver");
    state_->is_over = true;
  }
}

NvmlWatcher::~NvmlWatcher() {
  state_->worker.waker().stop();
  const std::int64_t until_ns = now_ns() + kPatienceNs;
  bool is_over = false;
  while (!is_over && now_ns() < until_ns) {
    {
      const std::lock_guard lock(state_->mutex);
      is_over = state_->is_over;
    }
    if (!is_over) pause(1'000'000);
  }
  if (is_over) {
    state_->worker.stop();
  } else {
    state_->worker.stop_unseen();
  }
}

GpuView NvmlWatcher::view() const {
  const std::lock_guard lock(state_->mutex);
  GpuView now = state_->view;
  now.age_ns = now_ns() - state_->answered_ns;
  return now;
}

GpuView NvmlWatcher::first_view(std::int64_t wait_ns) const {
  const std::int64_t until_ns = now_ns() + wait_ns;
  GpuView now = view();
  while (!now.is_known && now_ns() < until_ns) {
    pause(2'000'000);
    now = view();
  }
  return now;
}

bool NvmlWatcher::read_now(std::int64_t wait_ns) const {
  const std::int64_t until_ns = now_ns() + wait_ns;
  std::uint64_t wanted = 0;
  {
    const std::lock_guard lock(state_->mutex);
    wanted = state_->begun + 1;
    state_->wanted = std::max(state_->wanted, wanted);
  }
  state_->worker.waker().wake();
  while (true) {
    {
      const std::lock_guard lock(state_->mutex);
      if (state_->ended >= wanted) return state_->answered >= wanted;
      if (state_->is_over || now_ns() >= until_ns) return false;
    }
    pause(1'000'000);
  }
}

}  // namespace plimsoll::probes

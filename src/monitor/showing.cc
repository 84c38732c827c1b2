// Publishes this process's memory to `plimsoll top`: the publisher of live_status.h with the
// samples of monitor.h.
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "alerts/survivors.h"
#include "base/process_singleton.h"
#include "live/live_status.h"
#include "monitor/watch.h"
#include "plimsoll/monitor.h"

namespace plimsoll {
namespace {

constexpr std::size_t kLargeTensors = 8;

struct Showing {
  std::mutex mutex;
  std::unique_ptr<live::LiveStatusPublisher> publisher;
  int users = 0;
};

Showing& showing() { return base::process_singleton<Showing>(); }

// State of the loop, written by the training thread and read by the publisher's thread. Each value
// is atomic, but the pair is not.
std::atomic<std::int64_t> g_iteration{0};
std::atomic<double> g_loss{std::numeric_limits<double>::quiet_NaN()};  // NaN: unknown

bool is_switched_off() {
  const char* wish = std::getenv("PLIMSOLL_LIVE");
  return wish != nullptr && std::string_view(wish) == "0";
}

}  // namespace

Status start_showing() {
  Showing& now = showing();
  const std::lock_guard lock(now.mutex);
  if (now.users++ > 0 || is_switched_off()) return {};
  const auto span = std::make_shared<PeakSpan>();
  const auto survivors = std::make_shared<alerts::Survivors>();
  const auto take = [span, survivors] {
    SampleOptions options;
    options.large_tensors = kLargeTensors;
    options.peak_since = span.get();
    options.iteration = g_iteration.load(std::memory_order_relaxed);
    if (options.iteration == 0)
      options.iteration = monitor::last_step();  // no monitor counts iterations
    const double loss = g_loss.load(std::memory_order_relaxed);
    if (!std::isnan(loss)) options.loss = loss;
    MemorySample sample = monitor::sample_and_observe(options, *survivors);
    const bool is_stale = !sample.devices.empty() && !sample.devices.front().peak_bytes;
    if (is_stale) *span = PeakSpan();  // the span belongs to a recording that is no longer used
    return sample;
  };
  live::LiveStatusOptions options;
  options.find_holders = [walks = std::uint64_t{0}](bool is_new) mutable {
    const std::uint64_t before = plimsoll_holder_walks(is_new ? 1 : 0);
    if (is_new) walks = before;
    if (before == walks) return false;
    plimsoll_flush();
    return true;
  };
  PLIMSOLL_TRY_ASSIGN(now.publisher, live::LiveStatusPublisher::start(take, std::move(options)));
  return {};
}

void show_progress(std::int64_t iteration, std::optional<double> loss) {
  g_iteration.store(iteration, std::memory_order_relaxed);
  if (loss) g_loss.store(*loss, std::memory_order_relaxed);
}

void stop_showing() {
  std::unique_ptr<live::LiveStatusPublisher> ended;
  {
    Showing& now = showing();
    const std::lock_guard lock(now.mutex);
    if (now.users == 0) return;
    if (--now.users > 0) return;
    ended = std::move(now.publisher);
  }
}

}  // namespace plimsoll

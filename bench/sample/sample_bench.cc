// The cost of asking a running program what its memory contains: a sample of all live tensors by
// category, dtype and layer, and the peak of a block, for several numbers of live tensors.
//
// Each question is asked many times; between them, some tensors are freed and others allocated, so
// that the recorder has events to drain.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "plimsoll/monitor.h"
#include "plimsoll/recorder_c.h"
#include "plimsoll/training_monitor.h"

namespace {

using plimsoll::PeakSpan;

const plimsoll_recorder_api& api() { return *plimsoll_recorder(); }

std::uint32_t name(const std::string& text) { return api().name(text.data(), text.size()); }

// Tensors of a model with 500 layers, in various sizes and three dtypes.
class Tensors {
 public:
  Tensors() {
    for (int i = 0; i < 500; ++i) layers_.push_back(name("Net.blocks." + std::to_string(i)));
    for (const char* dtype : {"float32", "bfloat16", "int64"}) {
      for (int i = 0; i < 100; ++i) {
        const std::string shape = "[" + std::to_string(i + 1) + ", 1024]";
        kinds_.push_back(api().tensor(PLIMSOLL_ROLE_KNOWN, 0, name(dtype), name(shape)));
      }
    }
  }
  void live(std::uint64_t count) {
    plimsoll_context* context = api().context();
    for (; born_ - died_ < count; ++born_) {
      context->layer = layers_[born_ % layers_.size()];
      context->phase = static_cast<std::uint8_t>(PLIMSOLL_PHASE_FORWARD + born_ % 2);
      api().alloc(context, 0, address(born_), 4096 * (born_ % 100 + 1));
      api().tag(context, 0, address(born_), kinds_[born_ % kinds_.size()]);
      if (born_ % 1000 == 999) static_cast<void>(plimsoll::current_usage());  // drains the ring
    }
  }
  void renew(std::uint64_t count) {
    const std::uint64_t live_count = born_ - died_;
    for (std::uint64_t i = 0; i < count; ++i) api().free(api().context(), 0, address(died_++));
    live(live_count);
  }

 private:
  static std::uint64_t address(std::uint64_t tensor) { return 0x7f0000000000 + tensor * 64; }

  std::vector<std::uint32_t> layers_;
  std::vector<std::uint32_t> kinds_;
  std::uint64_t born_ = 0;
  std::uint64_t died_ = 0;
};

template <typename Ask>
void report(std::uint64_t count, const char* what, Tensors& tensors, int times, Ask&& ask) {
  std::vector<double> us;
  for (int i = 0; i < times; ++i) {
    tensors.renew(100);
    const auto begin = std::chrono::steady_clock::now();
    ask();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    us.push_back(took.count());
  }
  std::sort(us.begin(), us.end());
  const auto last = us.size() - 1;
  std::printf("| %7llu | %-34s | %9.1f | %9.1f | %9.1f |\n", static_cast<unsigned long long>(count),
              what, us[0], us[last / 2], us[last * 99 / 100]);
}

}  // namespace

int main() {
  if (!plimsoll::start_watching()) return 1;
  std::printf(
      "| live    | question                           | least us  | median us | p99 us    |\n"
      "|---|---|---|---|---|\n");
  Tensors tensors;
  for (const std::uint64_t count : {1'000U, 10'000U, 100'000U}) {
    tensors.live(count);
    report(count, "take_sample", tensors, 200, [] { plimsoll::take_sample({}); });
    plimsoll::MonitorOptions options;
    options.interval = 1;
    options.text_log = false;
    plimsoll::TrainingMonitor monitor(options, [](const std::string&) {});
    report(count, "a TrainingMonitor's sample, alerts", tensors, 200, [&] { monitor.step(); });
    report(count, "a block and its peak", tensors, 2000,
           [] { static_cast<void>(PeakSpan().usage()); });
  }
  plimsoll::stop_watching();
  return 0;
}

// The cost of one event in the thread that makes it: an allocation and its free, reported to the
// recorder through its C interface, without a stack. The recording writes a real file.
//
// A block of a caching allocator has three events (allocated, freed, reusable); the first takes two
// slots of the ring.
//
// Pairs are timed in groups, so that reading the clock does not count; percentiles are over the
// groups. Between bursts the program waits until the drain has caught up, because a full ring would
// make events look cheap. For comparison: the same loop with hooks that do nothing, the time-stamp
// counter alone, and the hooks while nothing is recorded.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "plimsoll/recorder_c.h"
#include "record/hot/ticks.h"

namespace {

using namespace plimsoll::record;

constexpr int kPairs = 16;    // in a group
constexpr int kGroups = 500;  // in a burst: a quarter of a ring
int g_bursts = 150;

struct Figures {
  double p50_ns = 0;
  double p999_ns = 0;
  double mean_ns = 0;
};

Figures figures_of(std::vector<double>& ns) {
  std::sort(ns.begin(), ns.end());
  Figures figures;
  figures.p50_ns = ns[ns.size() / 2];
  figures.p999_ns = ns[ns.size() * 999 / 1000];
  for (const double value : ns) figures.mean_ns += value;
  figures.mean_ns /= static_cast<double>(ns.size());
  return figures;
}

// Nanoseconds per event of `pair(address)`, which makes `events` events.
template <typename Pair>
Figures measure(TickSource source, double ns_per_tick, Pair&& pair, int events = 2) {
  std::vector<double> ns;
  for (int burst = 0; burst < g_bursts; ++burst) {
    for (int group = 0; group < kGroups; ++group) {
      const std::uint64_t begin = read_ticks(source);
      for (std::uint64_t i = 0; i < kPairs; ++i) pair(0x7f0000000000 + 4096 * (i + 1));
      const std::uint64_t ticks = read_ticks(source) - begin;
      ns.push_back(static_cast<double>(ticks) * ns_per_tick / (events * kPairs));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
  }
  return figures_of(ns);
}

double ns_per_tick(TickSource source) {
  const std::uint64_t ticks = read_ticks(source);
  const std::uint64_t ns = clock_ns();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  return static_cast<double>(clock_ns() - ns) / static_cast<double>(read_ticks(source) - ticks);
}

void print(const char* what, const Figures& figures) {
  std::printf("| %-46s | %6.1f | %6.1f | %6.1f |\n", what, figures.p50_ns, figures.p999_ns,
              figures.mean_ns);
}

volatile std::uint64_t sink;

}  // namespace

int main(int argc, char** argv) {
  const std::string path =
      argc > 1 ? argv[1] : "/tmp/plimsoll_hook_bench." + std::to_string(getpid());
  if (argc > 2) g_bursts = std::atoi(argv[2]);
  const plimsoll_recorder_api* const api = plimsoll_recorder();
  plimsoll_context* const context = api->context();
  const TickSource source = best_tick_source();
  const double scale = ns_per_tick(source);
  std::printf("| ns per event | p50 | p99.9 | mean |\n|---|---|---|---|\n");

  print("the counter alone, as each event reads it", measure(source, scale, [&](std::uint64_t) {
          sink = read_ticks(source);
          sink = read_ticks(source);
        }));
  const auto pair = [&](std::uint64_t address) {
    api->alloc(context, 0, address, 4096);
    api->free(context, 0, address);
  };
  print("hooks, no recording", measure(source, scale, pair));

  plimsoll_recording_options options{};
  options.size_bytes = sizeof options;
  options.sink = PLIMSOLL_SINK_FILE;
  options.path = path.c_str();
  const char* error = nullptr;
  plimsoll_recording* const recording = plimsoll_recording_start(&options, &error);
  if (recording == nullptr) {
    std::fprintf(stderr, "%s\n", error);
    return 1;
  }
  context->layer = api->name("model.fc1", 9);
  context->outer_op = api->name("aten::linear", 12);
  context->op_instance = 1;
  measure(source, scale, pair);  // touches the ring's memory once
  print("hooks, recording into a file", measure(source, scale, pair));
  const std::uint8_t cuda = api->device(PLIMSOLL_DEVICE_CUDA, 0);
  const auto block = [&](std::uint64_t address) {
    const plimsoll_block handed_out{address, 4000, 4096, 7, 0, 0};
    api->alloc_block(context, cuda, &handed_out);
    api->free_requested(context, cuda, address);
    api->free_completed(context, cuda, address);
  };
  print("blocks, recording into a file", measure(source, scale, block, 3));
  plimsoll_recording_state state{};
  plimsoll_recording_stop(recording, &state);
  std::printf("\n%llu events, %llu dropped, %.2f bytes per event on disk, %s\n",
              static_cast<unsigned long long>(state.events),
              static_cast<unsigned long long>(state.dropped),
              static_cast<double>(state.written_bytes) / static_cast<double>(state.events),
              source == TickSource::kTsc ? "time-stamp counter" : "clock_gettime");
  unlink(path.c_str());
  if (state.dropped == 0) return 0;
  std::fprintf(stderr, "Events were dropped: the drain got too little time, measure again.\n");
  return 1;
}

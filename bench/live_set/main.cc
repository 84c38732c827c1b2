// plimsoll_live_set_bench [EVENTS] [LIVE]: the time to find the live set at a random event, in a
// recording of EVENTS allocations and frees with about LIVE live allocations. One in a hundred
// allocations is long-lived, like parameters and optimizer state; the others are freed soon.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "model/live_index.h"
#include "model/live_set.h"
#include "model/trace.h"

namespace {

using namespace plimsoll;
using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

model::Lifetimes make_lifetimes(std::uint32_t events, std::uint32_t live, std::mt19937_64& random) {
  model::Lifetimes rows;
  std::vector<std::uint32_t> short_lived;
  std::vector<std::uint32_t> long_lived;
  const auto free_one = [&](std::vector<std::uint32_t>& among, std::uint32_t event) {
    std::swap(among[random() % among.size()], among.back());
    rows.free_requested[among.back()] = event;
    rows.free_completed[among.back()] = event;
    among.pop_back();
  };
  for (std::uint32_t event = 0; event < events; ++event) {
    if (long_lived.size() > live / 2) {
      free_one(long_lived, event);
    } else if (short_lived.size() > live / 2) {
      free_one(short_lived, event);
    } else {
      const bool is_long = random() % 100 == 0;
      (is_long ? long_lived : short_lived).push_back(static_cast<std::uint32_t>(rows.size()));
      rows.alloc.push_back(event);
      rows.free_requested.push_back(model::kNone);
      rows.free_completed.push_back(model::kNone);
    }
  }
  return rows;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr std::size_t kQueries = 1'000;
  const auto argument = [&](int i, unsigned long otherwise) {
    return static_cast<std::uint32_t>(argc > i ? std::strtoul(argv[i], nullptr, 10) : otherwise);
  };
  const std::uint32_t events = argument(1, 100'000'000);
  const std::uint32_t live = argument(2, 100'000);
  std::mt19937_64 random(1);
  const model::Lifetimes lifetimes = make_lifetimes(events, live, random);

  const auto begin = Clock::now();
  const model::LiveIndex index(lifetimes, model::Liveness::kAllocated);
  const double build_ms = milliseconds_since(begin);

  std::vector<double> times_ms;
  std::size_t found = 0;
  for (std::size_t query = 0; query < kQueries; ++query) {
    const auto event = static_cast<std::int64_t>(random() % events);
    const auto asked = Clock::now();
    std::vector<std::uint32_t> rows;
    index.append_live(lifetimes, event, rows);
    times_ms.push_back(milliseconds_since(asked));
    found += rows.size();
  }
  std::ranges::sort(times_ms);
  std::printf("%u events, %zu lifetimes, %zu live on average\n", events, lifetimes.size(),
              found / kQueries);
  std::printf("index  %.1f MiB (%.2f bytes a lifetime), built in %.0f ms\n",
              static_cast<double>(index.memory_bytes()) / 1048576.0,
              static_cast<double>(index.memory_bytes()) / static_cast<double>(lifetimes.size()),
              build_ms);
  std::printf("query  p50 %.3f ms, p95 %.3f ms, most %.3f ms\n", times_ms[kQueries / 2],
              times_ms[kQueries * 95 / 100], times_ms.back());
  return 0;
}

// plimsoll_tiles_bench [EVENTS] [LIVE]: the time to compute the charts of a recording of EVENTS
// events with about LIVE live allocations. One in a hundred allocations is long-lived, like
// parameters and optimizer state; the others are freed in random order, the worst case. Each line
// is the median of several runs.
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/diagnostics.h"
#include "base/progress.h"
#include "model/live_set.h"
#include "model/trace_builder.h"
#include "tiles/bands.h"
#include "tiles/columns.h"

namespace {

using namespace plimsoll;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kColumns = 1'536;
constexpr std::uint32_t kSteps = 1'000;

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

double quantile(std::vector<double>& values, std::size_t percent) {
  std::ranges::sort(values);
  return values[(values.size() - 1) * percent / 100];
}

// Makes the recording, event by event.
class Maker {
 public:
  Maker(std::uint32_t events, std::uint32_t live) : live_(live) {
    for (const char* name : {"parameter", "optimizer_state", "gradient", "activation",
                             "activation_gradient", "temporary"}) {
      categories_.push_back(builder_.strings().intern(name));
    }
    for (std::uint32_t line = 0; line < 200; ++line) {
      model::Frame frame;
      frame.file = builder_.strings().intern("/home/u/train.py");
      frame.line = line;
      const std::vector<model::FrameId> frames = {builder_.stacks().intern_frame(frame)};
      stacks_.push_back(builder_.stacks().intern_stack(frames));
    }
    for (std::uint32_t event = 0; event < events; ++event) {
      if (event % (events / kSteps + 1) == events / kSteps) {
        builder_.add_mark({model::MarkKind::kStep, now_, event, {}});
      }
      add_event();
    }
  }
  model::Trace finish() {
    base::Progress progress;
    return std::move(builder_.finish("bench", progress)).value();
  }

 private:
  struct Block {
    std::uint64_t address;
    std::uint64_t size_bytes;
  };

  void add_event() {
    if (long_lived_.size() > live_ / 2) return free_one(long_lived_);
    if (short_lived_.size() > live_ / 2) return free_one(short_lived_);
    const bool is_long = random_() % 100 == 0;
    // Each size is half as frequent as the next smaller power of two, up to 512 MiB.
    const std::uint64_t least = 512u << std::countr_zero(random_() | 1u << 20);
    const Block block{next_address_, least + random_() % least / 512 * 512};
    next_address_ += 64;
    (is_long ? long_lived_ : short_lived_).push_back(block);
    model::Event event = event_of(model::Action::kAlloc, block);
    event.stack = stacks_[random_() % stacks_.size()];
    const model::StringId category = categories_[is_long ? random_() % 2 : 2 + random_() % 4];
    builder_.add_alloc(kDevice, event, {category, {}, {}, {}});
  }
  void free_one(std::vector<Block>& among) {
    std::swap(among[random_() % among.size()], among.back());
    builder_.add_event(kDevice, event_of(model::Action::kFree, among.back()));
    among.pop_back();
  }
  model::Event event_of(model::Action action, const Block& block) {
    model::Event event;
    event.action = action;
    event.address = block.address;
    event.size_bytes = block.size_bytes;
    event.time_ns = now_ += static_cast<std::int64_t>(random_() % 2'000);
    return event;
  }

  static constexpr model::Device kDevice{model::DeviceType::kCuda, 0};

  std::uint32_t live_;
  std::mt19937_64 random_{1};
  base::Diagnostics diagnostics_;
  model::TraceBuilder builder_{diagnostics_};
  std::vector<model::StringId> categories_;
  std::vector<model::StackId> stacks_;
  std::vector<Block> short_lived_;
  std::vector<Block> long_lived_;
  std::uint64_t next_address_ = 64;
  std::int64_t now_ = 1'000'000'000;
};

template <typename Run>
auto measured(const char* what, Run&& run) {
  constexpr int kRuns = 5;
  std::vector<double> times_ms;
  for (int i = 1; i < kRuns; ++i) {
    const auto begin = Clock::now();
    static_cast<void>(run());
    times_ms.push_back(milliseconds_since(begin));
  }
  const auto begin = Clock::now();
  auto result = run();
  times_ms.push_back(milliseconds_since(begin));
  std::printf("%-46s %9.2f ms\n", what, quantile(times_ms, 50));
  return result;
}

// Times the live set at random points, summed by group.
void measure_live_sets(const model::Trace& trace, const model::DeviceTrace& device,
                       const tiles::Groups& groups) {
  constexpr std::size_t kQueries = 1'000;
  std::mt19937_64 random(2);
  std::vector<double> times_ms;
  std::size_t found = 0;
  for (std::size_t query = 0; query < kQueries; ++query) {
    const auto point = static_cast<std::int64_t>(random() % device.events.size());
    const auto begin = Clock::now();
    std::vector<std::uint64_t> sums(groups.names.size());
    const auto rows = model::live_set(device, model::default_liveness(device), point);
    for (const std::uint32_t row : rows) {
      sums[groups.of[row]] += trace.lifetime_bytes(device, row);
    }
    times_ms.push_back(milliseconds_since(begin));
    found += rows.size();
  }
  std::printf("%-46s %9.2f ms, p95 %.2f ms, %zu live on average\n", "live set with sums, p50",
              quantile(times_ms, 50), quantile(times_ms, 95), found / kQueries);
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i, unsigned long otherwise) {
    return static_cast<std::uint32_t>(argc > i ? std::strtoul(argv[i], nullptr, 10) : otherwise);
  };
  const std::uint32_t events = argument(1, 5'000'000);
  const std::uint32_t live = argument(2, 20'000);
  const model::Trace trace = Maker(events, live).finish();
  const model::DeviceTrace& device = trace.devices[0];
  const model::UserLines lines(trace);
  std::printf("%u events, %zu lifetimes\n", events, device.lifetimes.size());

  const tiles::Axis axis(trace, device, tiles::AxisKind::kEvent);
  const auto steps =
      measured("axis of steps", [&] { return tiles::Axis(trace, device, tiles::AxisKind::kStep); });
  const auto columns_of = [&](const tiles::Axis& of, double begin, double end) {
    return tiles::columns(device, of, {}, begin, end, kColumns);
  };
  const auto columns = measured("columns of the whole view, by event",
                                [&] { return columns_of(axis, 0, axis.end()); });
  measured("columns of the whole view, by step", [&] { return columns_of(steps, 0, steps.end()); });
  const auto near = measured("columns of 1 %",
                             [&] { return columns_of(axis, axis.end() * 0.6, axis.end() * 0.61); });
  const auto points = tiles::points_of(columns);
  const auto near_points = tiles::points_of(near);
  const auto& highest = *std::ranges::max_element(columns, {}, &tiles::Column::live_bytes);
  const std::vector<std::int64_t> peak = {highest.point};

  const auto grouped = [&](model::Dimension dimension) {
    const auto grouping = model::make_grouping(trace, device, lines, dimension);
    return tiles::groups_of(*grouping, device);
  };
  const auto categories =
      measured("groups by category", [&] { return grouped(model::Dimension::kCategory); });
  const auto by_line = measured("groups by line", [&] { return grouped(model::Dimension::kLine); });
  const auto few = measured("the largest 10 of 200 lines", [&] {
    return tiles::largest(trace, device, by_line, points, peak, 10);
  });
  measured("bands of the whole view, by category",
           [&] { return tiles::bands(trace, device, categories, points); });
  measured("bands of the whole view, by the largest lines",
           [&] { return tiles::bands(trace, device, few, points); });
  measured("bands of 1 %, by category",
           [&] { return tiles::bands(trace, device, categories, near_points); });
  measure_live_sets(trace, device, categories);

  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("peak memory %.2f GiB\n", static_cast<double>(usage.ru_maxrss) / 1048576.0);
  return 0;
}

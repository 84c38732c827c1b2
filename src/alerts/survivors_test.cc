#include "alerts/survivors.h"

#include <cmath>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plimsoll/recorder_c.h"

namespace plimsoll::alerts {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using Random = std::mt19937;

constexpr std::uint64_t kKib = 1024;
constexpr std::uint64_t kMib = 1024 * kKib;
constexpr std::size_t kForEver = 1'000'000;

// A program that allocates, and a sample after each of its steps.
class Program {
 public:
  explicit Program(std::int64_t interval = 1) : interval_(interval) {}

  // `lasts` is the number of steps at whose end the allocation is still live.
  void make(std::uint64_t bytes, std::size_t lasts, std::uint32_t layer = 1) {
    plimsoll_live row{};
    row.serial = next_serial_++;
    row.size_bytes = bytes;
    row.layer = layer;
    row.phase = PLIMSOLL_PHASE_FORWARD;
    made_.push_back({row, step_ + lasts});
  }
  void end_step() {
    std::vector<plimsoll_live> rows;
    std::erase_if(made_, [&](const Made& each) { return each.until <= step_; });
    for (const Made& each : made_) rows.push_back(each.row);
    plimsoll_usage cpu{};
    survivors_.observe(static_cast<std::int64_t>(step_) * interval_, rows, {&cpu, 1});
    ++step_;
    if (!growing().empty() && found_at_ == 0) found_at_ = step_;
  }
  std::vector<CategoryGrowth> growing(std::uint64_t live_bytes = 0) const {
    return survivors_.growing_on("cpu", live_bytes);
  }
  bool is_known() const { return survivors_.is_known_on("cpu"); }
  // The number of samples after which growth was first found; 0: never.
  std::size_t found_at() const { return found_at_; }
  std::size_t step() const { return step_; }

 private:
  struct Made {
    plimsoll_live row;
    std::size_t until;
  };
  std::int64_t interval_;
  Survivors survivors_;
  std::vector<Made> made_;
  std::size_t step_ = 0;
  std::size_t found_at_ = 0;
  std::uint64_t next_serial_ = 1;
};

using Step = std::function<void(Program& program, std::size_t step)>;

Program run(std::size_t steps, const Step& step, std::int64_t interval = 1) {
  Program program(interval);
  for (std::size_t i = 0; i < steps; ++i) {
    step(program, i);
    program.end_step();
  }
  return program;
}

// The number of runs, out of 100, in which growth is found at any sample.
int flagged(std::size_t steps, const std::function<Step(Random& random)>& make) {
  int count = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    Random random(seed);
    count += run(steps, make(random)).found_at() > 0 ? 1 : 0;
  }
  return count;
}

const Step kVaryingBatch = [](Program& program, std::size_t step) {
  program.make((1 + step * 7 % 13) * kMib, 1);
};

TEST(Survivors, memory_that_is_replaced_does_not_grow_however_large_it_gets) {
  EXPECT_EQ(run(200, kVaryingBatch).found_at(), 0);
  const Step longer_inputs = [](Program& program, std::size_t step) {
    program.make((1 + step) * kMib, 1);
    program.make((1 + step) * kMib, 2);
  };
  EXPECT_EQ(run(200, longer_inputs).found_at(), 0);
}

TEST(Survivors, a_second_model_that_is_built_late_is_not_growth) {
  const Step step = [](Program& program, std::size_t i) {
    kVaryingBatch(program, i);
    for (std::uint32_t layer = 2; i == 40 && layer < 60; ++layer) {
      program.make(16 * kMib, kForEver, layer);
    }
  };
  EXPECT_EQ(run(200, step).found_at(), 0);
}

TEST(Survivors, queues_and_caches_that_fill_are_not_growth) {
  for (const std::size_t length : {2u, 8u, 16u}) {
    EXPECT_EQ(
        run(200, [&](Program& program, std::size_t) { program.make(kMib, length); }).found_at(), 0)
        << length;
  }
  for (const std::size_t entries : {3u, 8u, 16u}) {
    const Step cache = [&](Program& program, std::size_t i) {
      if (i < entries) program.make(kMib, kForEver);
    };
    EXPECT_EQ(run(200, cache).found_at(), 0) << entries;
  }
  const Step ever_more_slowly = [](Program& program, std::size_t i) {
    const auto filled = [](std::size_t at) {
      return static_cast<int>(40 * (1 - std::exp(-static_cast<double>(at) / 8)));
    };
    for (int made = filled(i); made < filled(i + 1); ++made) program.make(kMib, kForEver);
  };
  EXPECT_EQ(run(200, ever_more_slowly).found_at(), 0);
  // Masks, cached by input length.
  EXPECT_LE(flagged(200,
                    [](Random& random) -> Step {
                      return [&random, seen = std::set<std::size_t>()](Program& program,
                                                                       std::size_t) mutable {
                        if (seen.insert(random() % 16).second) program.make(kMib, kForEver);
                      };
                    }),
            4);
}

TEST(Survivors, slow_a_leak_with_gaps_takes_more_samples) {
  const auto at_a_third_of_the_steps = [](Random& random) -> Step {
    return [&random](Program& program, std::size_t) {
      if (random() % 3 == 0) program.make(kMib, kForEver);
    };
  };
  EXPECT_EQ(flagged(kManySamples - 1, at_a_third_of_the_steps), 0);
  EXPECT_GE(flagged(200, at_a_third_of_the_steps), 98);
}

TEST(Survivors, memory_with_random_lifetimes_is_not_growth) {
  EXPECT_LE(flagged(120,
                    [](Random& random) -> Step {
                      return [&random](Program& program, std::size_t) {
                        program.make(kMib, 1 + random() % 8);
                      };
                    }),
            0);
}

TEST(Survivors, a_leak_is_found_next_to_large_tensors_of_varying_size) {
  const Program program = run(40, [](Program& made, std::size_t step) {
    made.make((16 + step * 5 % 7) * kMib, 1);
    made.make(256 * kKib, kForEver);
  });
  EXPECT_EQ(program.found_at(), 20);
  const auto growing = program.growing();
  ASSERT_THAT(growing, SizeIs(1));
  EXPECT_EQ(growing[0].category, "activation");
  EXPECT_DOUBLE_EQ(growing[0].all.bytes_per_iteration, 256 * kKib);
  ASSERT_THAT(growing[0].sites, SizeIs(1));
  EXPECT_EQ(growing[0].sites[0].site.layer, 1);
  // 40 samples: 10 are warm-up, the newest 5 are too young.
  EXPECT_EQ(growing[0].all.allocations, 25);
  EXPECT_EQ(growing[0].all.bytes, kKib * 25 * 256);
  EXPECT_EQ(growing[0].all.first_iteration, 9);
  EXPECT_EQ(growing[0].all.last_iteration, 34);
  EXPECT_EQ(growing[0].all.live_at_iteration, 39);
}

TEST(Survivors, slow_rates_are_those_of_iterations_and_stay_exact_in_long_runs) {
  const Step leak = [](Program& program, std::size_t) {
    for (int i = 0; i < 10; ++i) program.make(256 * kKib, kForEver);
  };
  for (const std::size_t samples : {20u, 63u, 64u, 65u, 127u, 128u, 129u, 500u, 1000u}) {
    const auto growing = run(samples, leak, 10).growing();
    ASSERT_THAT(growing, SizeIs(1)) << samples;
    EXPECT_DOUBLE_EQ(growing[0].all.bytes_per_iteration, 256 * kKib) << samples;
    EXPECT_EQ(growing[0].all.bytes, growing[0].all.allocations * 256 * kKib) << samples;
    EXPECT_EQ(static_cast<std::int64_t>(growing[0].all.allocations),
              growing[0].all.last_iteration - growing[0].all.first_iteration)
        << samples;
  }
}

TEST(Survivors, a_leak_that_begins_late_is_found_soon) {
  const Program program = run(400, [](Program& made, std::size_t step) {
    kVaryingBatch(made, step);
    if (step >= 300) made.make(kMib, kForEver);
  });
  EXPECT_GT(program.found_at(), 300);
  EXPECT_LT(program.found_at(), 332);
}

TEST(Survivors, a_leak_at_the_ends_of_epochs_is_found) {
  const Program program = run(200, [](Program& made, std::size_t step) {
    kVaryingBatch(made, step);
    if (step % 10 == 9) made.make(10 * kMib, kForEver);
  });
  ASSERT_THAT(program.growing(), SizeIs(1));
  EXPECT_NEAR(program.growing()[0].all.bytes_per_iteration, kMib, 0.2 * kMib);
}

// Evaluates after each `epoch` steps, for the first time before the step `epoch`.
Step evaluation(std::size_t epoch, const Step& evaluate) {
  return [=](Program& program, std::size_t step) {
    kVaryingBatch(program, step);
    if (step > 0 && step % epoch == 0) evaluate(program, step / epoch);
  };
}

const Step kKeptOutputs = [](Program& program, std::size_t) {
  for (int batch = 0; batch < 20; ++batch) program.make(kMib, kForEver, 2);
};

TEST(Survivors, growth_in_jumps_is_found_in_few_samples) {
  const auto growing = run(40, evaluation(10, kKeptOutputs)).growing();
  ASSERT_THAT(growing, SizeIs(1));
  const LeftBehind& all = growing[0].all;
  EXPECT_EQ(all.jumps, 3);
  EXPECT_EQ(all.bytes, 60 * kMib);
  EXPECT_EQ(all.allocations, 60);
  EXPECT_EQ(all.first_iteration, 9);
  EXPECT_EQ(all.last_iteration, 30);
  EXPECT_EQ(all.live_at_iteration, 39);
  EXPECT_DOUBLE_EQ(all.bytes_per_iteration, 2 * kMib);

  EXPECT_THAT(run(30, evaluation(5, kKeptOutputs)).growing(), SizeIs(1));
  EXPECT_THAT(run(80, evaluation(13, kKeptOutputs)).growing(), SizeIs(1));
  // Two jumps may be two caches.
  EXPECT_THAT(run(30, evaluation(10, kKeptOutputs)).growing(), IsEmpty());
}

TEST(Survivors, evaluations_and_checkpoints_that_are_replaced_are_not_growth) {
  const auto lasts = [](std::size_t steps) -> Step {
    return [=](Program& program, std::size_t) {
      for (int part = 0; part < 20; ++part) program.make(kMib, steps, 2);
    };
  };
  EXPECT_EQ(run(200, evaluation(10, lasts(1))).found_at(), 0);   // freed by the next step
  EXPECT_EQ(run(200, evaluation(10, lasts(10))).found_at(), 0);  // a copy of the newest weights
  EXPECT_EQ(run(200, evaluation(10, lasts(20))).found_at(), 0);  // and of the ones before
  // The first evaluation and the second, which has longer inputs, fill caches.
  const Step caches = [](Program& program, std::size_t epoch) {
    if (epoch <= 2) kKeptOutputs(program, epoch);
  };
  EXPECT_EQ(run(200, evaluation(10, caches)).found_at(), 0);
}

TEST(Survivors, an_epoch_that_keeps_its_results_is_not_growth_in_jumps) {
  // Each step keeps its outputs until the epoch ends; a jump is not what its steps left.
  const Step epoch = [](Program& program, std::size_t step) {
    kVaryingBatch(program, step);
    if (step % 15 < 10) program.make(kMib, 15 - step % 15, 2);
  };
  EXPECT_EQ(run(200, epoch).found_at(), 0);
}

TEST(Survivors, jumps_at_random_samples_are_not_growth) {
  EXPECT_LE(flagged(60,
                    [](Random& random) -> Step {
                      return [&random, seen = std::set<std::size_t>()](Program& program,
                                                                       std::size_t) mutable {
                        const std::size_t length = std::min(random() % 40, random() % 40);
                        if (seen.insert(length).second) program.make(kMib, kForEver);
                      };
                    }),
            1);
}

TEST(Survivors, a_leak_spread_over_many_layers_is_reported_by_category) {
  const auto growing = run(40, [](Program& made, std::size_t) {
                         for (std::uint32_t layer = 1; layer <= 400; ++layer) {
                           made.make(kKib, kForEver, layer);
                         }
                       }).growing();
  ASSERT_THAT(growing, SizeIs(1));
  EXPECT_TRUE(growing[0].all.site.is_whole);
  EXPECT_DOUBLE_EQ(growing[0].all.bytes_per_iteration, 400 * kKib);
  EXPECT_LE(growing[0].sites.size(), 256);
}

TEST(Survivors, the_bytes_left_by_an_iteration_are_known_after_20_samples) {
  const Step leak = [](Program& program, std::size_t) { program.make(kMib, kForEver); };
  EXPECT_FALSE(run(19, leak).is_known());
  EXPECT_TRUE(run(20, leak).is_known());
  EXPECT_EQ(run(20, leak).growing()[0].all.bytes_per_iteration, kMib);
  EXPECT_TRUE(run(20, kVaryingBatch).is_known());
  EXPECT_THAT(run(20, kVaryingBatch).growing(), IsEmpty());
  EXPECT_FALSE(Survivors().is_known_on("cuda:0"));
}

TEST(Survivors, slow_growth_is_reported_once_it_has_left_a_mebibyte_and_a_tenth_behind) {
  const Step step = [](Program& program, std::size_t) { program.make(32 * kKib, kForEver); };
  EXPECT_THAT(run(30, step).growing(), IsEmpty());
  const auto growing = run(100, step).growing();
  ASSERT_THAT(growing, SizeIs(1));
  EXPECT_EQ(growing[0].all.bytes_per_iteration, 32 * kKib);
  EXPECT_THAT(run(100, step).growing(200 * kMib), IsEmpty());  // next to much more memory
  const Step slowest = [](Program& program, std::size_t) { program.make(8 * kKib, kForEver); };
  EXPECT_THAT(run(100, slowest).growing(), IsEmpty());
}

TEST(Survivors, a_new_run_starts_over) {
  Survivors survivors;
  std::vector<plimsoll_live> rows;
  plimsoll_usage cpu{};
  for (std::int64_t i = 0; i < 40; ++i) {
    plimsoll_live row{};
    row.serial = static_cast<std::uint64_t>(i);
    row.size_bytes = kMib;
    rows.push_back(row);
    survivors.observe(i, rows, {&cpu, 1});
  }
  EXPECT_THAT(survivors.growing_on("cpu", 0), SizeIs(1));
  EXPECT_THAT(survivors.growing_on("cuda:0", 0), IsEmpty());
  survivors.observe(39, rows, {&cpu, 1});
  EXPECT_THAT(survivors.growing_on("cpu", 0), SizeIs(1));
  survivors.observe(0, rows, {&cpu, 1});
  EXPECT_THAT(survivors.growing_on("cpu", 0), IsEmpty());
}

}  // namespace
}  // namespace plimsoll::alerts

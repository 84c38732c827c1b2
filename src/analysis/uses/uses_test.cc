#include "analysis/uses/uses.h"

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/live_set.h"
#include "tests/support/random_trace.h"
#include "tests/support/run_pass.h"
#include "tests/support/timeline_pass.h"
#include "tests/support/trace_maker.h"

namespace plimsoll::analysis::uses {
namespace {

using model::kNone;
using model::Phase;
using report::LastUse;
using report::UnusedKind;
using report::UnusedRow;
using tests::TraceMaker;

LastUse run(const model::Trace& trace) {
  auto report = tests::run_passes(trace, tests::passes(tests::timeline_pass(), make()));
  return report.devices.at(0).last_use.value();
}

// A training loop whose steps run `in_step(step, first event of the step)`, then one activation
// that the same step frees, so that the peak is in the last step.
class Loop {
 public:
  template <typename InStep>
  Loop(std::uint32_t steps, InStep&& in_step) {
    for (std::uint32_t step = 1; step <= steps; ++step) {
      in_step(*this, step);
      const bool is_last = step == steps;
      alloc("work.py", is_last ? 5000 : 3000, {.phase = Phase::kForward}, event + 2);
      if (is_last) break;
      free(next_address - 1, 3000);
      maker.step(step);
    }
  }
  // `unused_from`: an event. Returns the address.
  std::uint64_t alloc(std::string_view file, std::uint64_t bytes, tests::Reported reported,
                      std::uint32_t unused_from, std::uint32_t silence = 0, std::uint8_t gap = 0) {
    reported.stack = maker.stack({{file, 7, "f"}});
    reported.use = {unused_from, silence, gap};
    maker.alloc_reported(next_address, bytes, reported);
    ++event;
    return next_address++;
  }
  void free(std::uint64_t address, std::uint64_t bytes) {
    maker.free_immediately(address, bytes);
    ++event;
  }

  TraceMaker maker;
  std::uint32_t event = 0;  // the next event
  std::uint64_t next_address = 1;
};

const UnusedRow* row_of(const LastUse& found, std::string_view line) {
  const auto row = std::ranges::find(found.rows, line, &UnusedRow::line);
  return row == found.rows.end() ? nullptr : &*row;
}

TEST(Uses, a_list_of_results_is_kept) {
  Loop loop(10, [](Loop& l, std::uint32_t) {
    l.alloc("kept.py", 1000, {.category = "activation"}, l.event + 1, 100, 1);
  });
  const LastUse found = run(loop.maker.finish());
  EXPECT_EQ(found.live_bytes, 15'000u);
  EXPECT_EQ(found.unused_bytes, 10'000u);
  EXPECT_EQ(found.unknown_bytes, 0u);
  EXPECT_EQ(found.reachable_peak_bytes, 5000u);
  EXPECT_FALSE(found.is_sampled);
  ASSERT_EQ(found.rows.size(), 2u);
  // Two steps have four allocations. The last result made before the peak is 2 allocations old.
  EXPECT_EQ(found.rows[0].line, "kept.py:7 (f)");
  EXPECT_EQ(found.rows[0].kind, UnusedKind::kKept);
  EXPECT_EQ(found.rows[0].bytes, 8000u);
  EXPECT_EQ(found.rows[0].count, 8u);
  EXPECT_EQ(found.rows[0].certain_bytes, 8000u);
  EXPECT_FALSE(found.rows[0].is_bounded);
  EXPECT_EQ(found.rows[1].kind, UnusedKind::kLocal);
  EXPECT_EQ(found.kept_bytes, 8000u);
  EXPECT_EQ(found.kept_saving_bytes, 10'000u);  // whole lines
  EXPECT_EQ(found.certain_saving_bytes, 10'000u);
}

TEST(Uses, what_a_line_uses_again_after_as_long_a_gap_is_not_certain) {
  Loop loop(10, [](Loop& l, std::uint32_t step) {
    const std::uint8_t gap = step == 1 ? 8 : 0;  // up to 128 allocations
    l.alloc("pool.py", 1000, {.category = "activation"}, l.event + 1, 100, gap);
  });
  const LastUse found = run(loop.maker.finish());
  EXPECT_EQ(found.unused_bytes, 10'000u);
  EXPECT_EQ(row_of(found, "pool.py:7 (f)")->certain_bytes, 0u);
  EXPECT_EQ(found.certain_saving_bytes, 0u);
}

TEST(Uses, a_buffer_of_constant_length_is_neither_kept_nor_certain) {
  std::vector<std::uint64_t> ring;
  Loop loop(20, [&](Loop& l, std::uint32_t) {
    ring.push_back(l.alloc("ring.py", 1000, {.category = "activation"}, l.event + 1, 100));
    if (ring.size() <= 6) return;
    l.free(ring.front(), 1000);
    ring.erase(ring.begin());
  });
  const LastUse found = run(loop.maker.finish());
  EXPECT_EQ(found.unused_bytes, 6000u);
  const UnusedRow* row = row_of(found, "ring.py:7 (f)");
  ASSERT_NE(row, nullptr);
  for (const UnusedRow& each : found.rows) EXPECT_TRUE(each.is_bounded) << "its newest entries too";
  EXPECT_EQ(found.kept_bytes, 0u);
  EXPECT_EQ(found.certain_saving_bytes, 0u);
}

TEST(Uses, each_line_is_a_buffer_by_its_own_allocations) {
  std::vector<std::uint64_t> ring;
  Loop loop(20, [&](Loop& l, std::uint32_t) {
    l.alloc("kept.py", 1000, {.category = "activation"}, l.event + 1, 100);
    ring.push_back(l.alloc("ring.py", 1000, {.category = "activation"}, l.event + 1, 100));
    if (ring.size() <= 6) return;
    l.free(ring.front(), 1000);
    ring.erase(ring.begin());
  });
  const LastUse found = run(loop.maker.finish());
  EXPECT_TRUE(row_of(found, "ring.py:7 (f)")->is_bounded);
  EXPECT_FALSE(row_of(found, "kept.py:7 (f)")->is_bounded);
  EXPECT_EQ(found.kept_bytes, row_of(found, "kept.py:7 (f)")->bytes);
}

TEST(Uses, gradients_outputs_in_backward_and_locals_are_told_apart) {
  Loop loop(4, [](Loop& l, std::uint32_t step) {
    if (step != 4) return;
    l.alloc("grad.py", 3000, {.category = "gradient", .phase = Phase::kBackward}, l.event + 1);
    l.alloc("out.py", 2000, {.category = "activation", .phase = Phase::kForward}, l.event + 1);
    l.maker.begin_backward();
    l.alloc("local.py", 1000, {.phase = Phase::kBackward}, l.event + 1);
  });
  loop.maker.end_backward();
  const LastUse found = run(loop.maker.finish());
  EXPECT_EQ(found.unused_bytes, 6000u);
  EXPECT_EQ(row_of(found, "grad.py:7 (f)")->kind, UnusedKind::kGradients);
  EXPECT_EQ(row_of(found, "out.py:7 (f)")->kind, UnusedKind::kOutputInBackward);
  EXPECT_EQ(row_of(found, "local.py:7 (f)")->kind, UnusedKind::kLocal);
}

TEST(Uses, without_steps_a_line_that_retains_several_is_kept) {
  TraceMaker maker;
  for (std::uint32_t i = 0; i < 5; ++i) {
    maker.alloc_reported(
        i + 1, 1000,
        {.stack = maker.stack({{"a.py", 1, "f"}}), .use = {.unused_from = i + 1, .silence = 9}});
  }
  maker.alloc(99, 1);
  const LastUse found = run(maker.finish());
  EXPECT_EQ(row_of(found, "a.py:1 (f)")->kind, UnusedKind::kKept);
  EXPECT_EQ(found.kept_bytes, 5000u);
}

TEST(Uses, lines_below_a_thousandth_of_the_peak_are_left_out) {
  TraceMaker maker;
  maker.alloc_reported(1, 9, {.use = {.unused_from = 1, .silence = 9}}).alloc(2, 10'000);
  const LastUse found = run(maker.finish());
  EXPECT_EQ(found.unused_bytes, 9u);
  EXPECT_TRUE(found.rows.empty());
}

TEST(Uses, spans_without_observed_uses_make_the_answer_sampled) {
  const auto is_sampled = [](bool is_cut) {
    TraceMaker maker;
    maker.begin_uses();
    maker.alloc(1, 10);
    if (is_cut) maker.end_uses();
    maker.alloc(2, 10);
    if (!is_cut) maker.end_uses();
    return run(maker.finish()).is_sampled;
  };
  EXPECT_TRUE(is_sampled(true));
  EXPECT_FALSE(is_sampled(false));
}

TEST(Uses, the_sentence_says_if_most_is_live_when_the_recording_ends) {
  const auto text = [](std::uint64_t freed) {
    TraceMaker maker;
    for (std::uint64_t i = 1; i <= 3; ++i) {
      maker.alloc_reported(i, 4 << 20, {.use = {.unused_from = static_cast<std::uint32_t>(i)}});
    }
    maker.alloc(9, 1);
    for (std::uint64_t i = 1; i <= freed; ++i) maker.free_immediately(i, 4 << 20);
    return run(maker.finish()).text;
  };
  EXPECT_THAT(text(1), testing::HasSubstr("again before the recording ends"));
  EXPECT_THAT(text(2), testing::Not(testing::HasSubstr("the recording ends")));
}

TEST(Uses, recordings_without_uses_have_no_answer) {
  TraceMaker maker;
  maker.alloc(1, 10);
  const auto report =
      tests::run_passes(maker.finish(), tests::passes(tests::timeline_pass(), make()));
  EXPECT_FALSE(report.devices.at(0).last_use.has_value());
}

// Interrupts at the given report of this pass.
class InterruptsAt final : public base::Progress {
 public:
  explicit InterruptsAt(int report) : left_(report) {}
  void advance(const char* stage, std::uint64_t /*done*/, std::uint64_t total) override {
    if (stage == std::string_view("uses") && total > 0 && --left_ == 0) interrupt();
  }

 private:
  int left_;
};

TEST(Uses, an_interruption_stops_each_loop_over_lifetimes) {
  Loop loop(10, [](Loop& l, std::uint32_t) {
    l.alloc("kept.py", 1000, {.category = "activation"}, l.event + 1, 100);
  });
  const model::Trace trace = loop.maker.finish();
  const model::UserLines lines(trace);
  const auto passes = tests::passes(tests::timeline_pass(), make());
  for (const int at : {1, 2, 3}) {
    InterruptsAt progress(at);
    report::Report report;
    PassContext context{trace, lines, {}, progress, report};
    Status status = run_passes(passes, context);
    ASSERT_FALSE(status.ok()) << at;
    EXPECT_EQ(status.error().code, ErrorCode::kInterrupted);
    EXPECT_FALSE(report.devices.at(0).last_use.has_value());
  }
}

// The definitions, one event and one lifetime at a time.
class Reference {
 public:
  explicit Reference(const model::Trace& trace) : trace_(trace), device_(trace.devices.at(0)) {}

  std::int64_t end(std::size_t row) const {
    const std::uint32_t died = death(device_.lifetimes, row, model::default_liveness(device_));
    return died == model::kBeforeRecording ? -1 : std::int64_t{died};
  }
  bool is_exempt(std::size_t row) const {
    static const std::set<std::string_view> kExempt{"parameter", "buffer", "optimizer_state",
                                                    "communication", "workspace"};
    const std::uint32_t requested = device_.lifetimes.free_requested[row];
    const std::uint32_t completed = device_.lifetimes.free_completed[row];
    const bool waits = requested != kNone && (completed == kNone || completed != requested + 1);
    return waits || kExempt.contains(trace_.strings[trace_.category(device_, row)]);
  }
  bool is_temporary(std::size_t row) const {
    return has(device_.lifetimes.flags[row], model::LifetimeFlags::kTemporary);
  }
  std::int64_t ideal_end(std::size_t row) const {
    const std::uint32_t unused_from = device_.lifetimes.unused_from[row];
    if (is_exempt(row) || is_temporary(row) || unused_from == kNone) return end(row);
    const std::uint32_t born = device_.lifetimes.alloc[row];
    const std::int64_t first = born == kNone ? 0 : std::int64_t{born} + 1;
    return std::min(end(row), std::max(first, std::int64_t{unused_from}));
  }
  bool is_born(std::size_t row, std::int64_t event) const {
    const std::uint32_t born = device_.lifetimes.alloc[row];
    return born == kNone || std::int64_t{born} <= event;
  }
  template <typename End>
  std::uint64_t peak(End&& end_of) const {
    std::uint64_t most = 0;
    for (std::int64_t event = -1; event < std::int64_t(device_.events.size()); ++event) {
      std::uint64_t live = 0;
      for (std::size_t row = 0; row < device_.lifetimes.size(); ++row) {
        if (is_born(row, event) && end_of(row) > event) live += trace_.lifetime_bytes(device_, row);
      }
      most = std::max(most, live);
    }
    return most;
  }

 private:
  const model::Trace& trace_;
  const model::DeviceTrace& device_;
};

// The median of allocations from one step to the next, or else from one backward to the next.
std::optional<std::uint64_t> median_step(const model::Trace& trace) {
  const auto& device = trace.devices.at(0);
  for (const auto kind : {model::MarkKind::kStep, model::MarkKind::kBackwardBegin}) {
    std::vector<std::uint32_t> marks;
    for (std::size_t i = 0; i < trace.marks.size(); ++i) {
      if (trace.marks[i].kind == kind) marks.push_back(device.mark_events[i]);
    }
    if (marks.size() < 3) continue;
    std::vector<std::uint64_t> lengths;
    for (std::size_t i = 1; i < marks.size(); ++i) {
      lengths.push_back(0);
      for (const std::uint32_t born : device.lifetimes.alloc) {
        lengths.back() += born != kNone && born >= marks[i - 1] && born < marks[i] ? 1 : 0;
      }
    }
    std::ranges::sort(lengths);
    return lengths[lengths.size() / 2];
  }
  return std::nullopt;
}

model::Trace random_trace_with_uses(std::uint32_t seed) {
  model::Trace trace =
      tests::random_trace({.seed = seed,
                           .events = 300,
                           .reporting = tests::RandomTraceOptions::Reporting::kEverything});
  trace.has_uses = true;
  std::mt19937 random(seed);
  auto& lifetimes = trace.devices.at(0).lifetimes;
  const auto events = static_cast<std::uint32_t>(trace.devices.at(0).events.size());
  for (std::size_t row = 0; row < lifetimes.size(); ++row) {
    if (random() % 4 == 0) continue;
    const std::uint32_t born = lifetimes.alloc[row] == kNone ? 0 : lifetimes.alloc[row];
    lifetimes.set_use(
        row, {.unused_from = born + static_cast<std::uint32_t>(random() % (events - born + 1)),
              .silence = static_cast<std::uint32_t>(random() % 300),
              .gap = static_cast<std::uint8_t>(random() % 9)});
  }
  return trace;
}

TEST(Uses, random_traces_agree_with_the_definition) {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const model::Trace trace = random_trace_with_uses(seed);
    const auto& device = trace.devices.at(0);
    const auto report = tests::run_passes(trace, tests::passes(tests::timeline_pass(), make()));
    const auto& found = report.devices.at(0).last_use;
    const auto peak_event = report.devices.at(0).live_totals().peak_event;
    if (!peak_event || report.devices.at(0).has_unknown_peak()) continue;
    ASSERT_TRUE(found.has_value());
    const auto peak = static_cast<std::int64_t>(*peak_event);
    const Reference reference(trace);
    std::uint64_t live = 0, unused = 0, unknown = 0;
    using PlaceKey = std::tuple<std::string, std::string_view, bool>;
    const model::UserLines lines(trace);
    const auto place_of = [&](std::size_t row) {
      const model::Site& site = trace.birth(device, row);
      return PlaceKey{lines.label(site.stack), trace.strings[site.op],
                      site.phase == Phase::kBackward};
    };
    std::map<PlaceKey, std::uint64_t> longest;
    for (std::size_t row = 0; row < device.lifetimes.size(); ++row) {
      const std::uint8_t gap = device.lifetimes.use_gap[row];
      std::uint64_t& known = longest[place_of(row)];
      if (gap > 0) known = std::max(known, std::uint64_t{1} << (gap - 1));
    }
    for (std::size_t row = 0; row < device.lifetimes.size(); ++row) {
      if (!reference.is_born(row, peak) || reference.end(row) <= peak) continue;
      const std::uint64_t size = trace.lifetime_bytes(device, row);
      live += size;
      const bool is_unknown = device.lifetimes.unused_from[row] == kNone;
      if (is_unknown && !reference.is_exempt(row) && !reference.is_temporary(row)) unknown += size;
      if (reference.ideal_end(row) > peak) continue;
      unused += size;
    }
    EXPECT_EQ(found->live_bytes, live);
    EXPECT_EQ(found->unused_bytes, unused);
    EXPECT_EQ(found->unknown_bytes, unknown);
    EXPECT_EQ(found->reachable_peak_bytes,
              reference.peak([&](std::size_t row) { return reference.ideal_end(row); }));
    const auto step = median_step(trace);
    std::uint64_t certain_bytes = 0, reported_bytes = 0, reported_certain = 0;
    for (std::size_t row = 0; row < device.lifetimes.size(); ++row) {
      if (!reference.is_born(row, peak) || reference.end(row) <= peak) continue;
      if (reference.ideal_end(row) > peak) continue;
      const std::uint64_t gap = longest[place_of(row)];
      const bool is_read_later = step && gap / 2 > 2 * *step;
      const bool is_certain = device.lifetimes.silence[row] > gap && !is_read_later;
      if (is_certain) certain_bytes += trace.lifetime_bytes(device, row);
    }
    for (const UnusedRow& row : found->rows) {
      reported_bytes += row.bytes;
      reported_certain += row.certain_bytes;
    }
    EXPECT_LE(reported_bytes, unused);
    EXPECT_LE(unused - reported_bytes, live / 1000 * 20);  // rows of at most a thousandth
    EXPECT_LE(reported_certain, certain_bytes);
    EXPECT_LE(certain_bytes - reported_certain, live / 1000 * 20);
    const std::uint64_t as_it_was =
        reference.peak([&](std::size_t row) { return reference.end(row); });
    EXPECT_LE(found->certain_saving_bytes, as_it_was - found->reachable_peak_bytes);
    EXPECT_LE(found->kept_saving_bytes, as_it_was - found->reachable_peak_bytes);
  }
}

}  // namespace
}  // namespace plimsoll::analysis::uses

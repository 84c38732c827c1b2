// Compares tiles with slow references and with the passes of the report, on random recordings.
// Every equation holds to the byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/composition/composition.h"
#include "analysis/pinning.h"
#include "model/heap_layout.h"
#include "model/live_set.h"
#include "tests/support/run_pass.h"
#include "tests/support/timeline_pass.h"
#include "tests/tiles/random_memory.h"
#include "tests/tiles/reference.h"
#include "tiles/bands.h"
#include "tiles/columns.h"
#include "tiles/segments.h"

namespace plimsoll::tiles {
namespace {

using model::DeviceTrace;
using model::Dimension;
using model::kBeforeFirst;
using model::Trace;
using tests::KnownMemory;
using tests::RandomMemory;
using tests::RandomMemoryOptions;
namespace reference = tests::reference;

constexpr Dimension kDimensions[] = {Dimension::kCategory, Dimension::kLayer, Dimension::kLine,
                                     Dimension::kOperator, Dimension::kPhase, Dimension::kStep,
                                     Dimension::kStream,   Dimension::kPool,  Dimension::kDtype,
                                     Dimension::kTensor};
constexpr AxisKind kAxes[] = {AxisKind::kStep, AxisKind::kTime, AxisKind::kEvent};

RandomMemoryOptions options_of(std::uint32_t seed) {
  using Times = RandomMemoryOptions::Times;
  constexpr Times kTimes[] = {Times::kAscending, Times::kBackwards, Times::kUnknown};
  RandomMemoryOptions options;
  options.seed = seed;
  options.devices = 1 + seed % 3;
  options.operations = 60 + 40 * (seed % 4);
  options.times = kTimes[seed % 3];
  options.frees_in_reverse = seed % 4 == 0;
  options.has_block_sizes = seed % 2 == 0;
  options.has_final_state = seed % 5 != 0;
  options.has_steps = seed % 7 != 0;
  return options;
}

// A device of a random recording; `name` names the case in failures.
struct Case {
  const Trace& trace;
  const DeviceTrace& device;
  const KnownMemory& known;
  std::size_t d;
  std::string name;

  Baseline baseline() const { return {known.before[d].live_bytes, known.before[d].reserved_bytes}; }
  std::uint32_t event_count() const { return static_cast<std::uint32_t>(device.events.size()); }
};

template <typename Check>
void for_each_device(const RandomMemoryOptions& options, Check&& check) {
  RandomMemory memory(options);
  const KnownMemory known = memory.finish();
  for (std::size_t d = 0; d < known.trace.devices.size(); ++d) {
    const std::string name =
        "seed " + std::to_string(options.seed) + ", device " + std::to_string(d);
    SCOPED_TRACE(name);
    check(Case{known.trace, known.trace.devices[d], known, d, name});
    if (testing::Test::HasFatalFailure()) return;
  }
}

template <typename Check>
void for_each_case(Check&& check) {
  for (std::uint32_t seed = 0; seed < 84; ++seed) {
    for_each_device(options_of(seed), check);
    if (testing::Test::HasFatalFailure()) return;
  }
}

// Calls check(axis) for each axis that is known.
template <typename Check>
void for_each_axis(const Case& on, Check&& check) {
  for (const AxisKind kind : kAxes) {
    if (!Axis::is_known(on.trace, on.device, kind)) continue;
    SCOPED_TRACE(to_string(kind));
    check(Axis(on.trace, on.device, kind));
  }
}

std::vector<Column> all_columns(const Case& on, const Axis& axis, std::size_t count) {
  return columns(on.device, axis, on.baseline(), 0, axis.end(), count);
}

// Points after each event, and before the first one.
std::vector<std::int64_t> every_point(const Case& on, std::int64_t step) {
  std::vector<std::int64_t> points;
  for (std::int64_t p = kBeforeFirst; p < on.event_count(); p += step) points.push_back(p);
  return points;
}

Groups grouped(const Case& on, Dimension dimension) {
  const model::UserLines lines(on.trace);
  const auto grouping = model::make_grouping(on.trace, on.device, lines, dimension);
  return grouping ? groups_of(*grouping, on.device) : Groups{};
}

TEST(TilesProperty, positions_are_monotone_and_follow_their_definitions) {
  for_each_case([](const Case& on) {
    for_each_axis(on, [&](const Axis& axis) {
      double last = 0;
      for (std::uint32_t event = 0; event < on.event_count(); ++event) {
        const double position = axis.position(event);
        ASSERT_GE(position, last) << event;
        ASSERT_LT(position, axis.end()) << event;
        last = position;
        if (axis.kind() == AxisKind::kEvent) {
          ASSERT_EQ(position, event);
        }
        if (axis.kind() == AxisKind::kTime) {
          ASSERT_EQ(position, reference::elapsed_ns(on.device, event)) << event;
        }
        if (axis.kind() == AxisKind::kStep) {
          ASSERT_EQ(static_cast<std::size_t>(position),
                    reference::step_number(on.trace, on.device, event))
              << event;
        }
        ASSERT_LE(axis.first_event(position), event);
        ASSERT_EQ(axis.position(axis.first_event(position)), position);
      }
      ASSERT_EQ(axis.first_event(0), 0u);
      ASSERT_EQ(axis.first_event(axis.end()), on.event_count());
    });
  });
}

TEST(TilesProperty, a_column_is_the_first_highest_point_of_its_span) {
  for_each_case([](const Case& on) {
    for_each_axis(on, [&](const Axis& axis) {
      for (const std::size_t count : {1u, 5u, 16u, 300u}) {
        std::uint32_t next = 0;
        for (const Column& column : all_columns(on, axis, count)) {
          ASSERT_EQ(column.first_event, next);
          next = column.end_event;
          std::int64_t highest = std::int64_t{column.first_event} - 1;
          std::int64_t lowest = highest;
          const auto live = [&](std::int64_t p) {
            return p < 0 ? on.known.before[on.d].live_bytes
                         : on.known.after[on.d][static_cast<std::size_t>(p)].live_bytes;
          };
          for (std::uint32_t e = column.first_event; e < column.end_event; ++e) {
            if (e == column.first_event || live(e) > live(highest)) highest = e;
            if (e == column.first_event || live(e) < live(lowest)) lowest = e;
          }
          ASSERT_EQ(column.point, highest);
          ASSERT_EQ(column.live_bytes, live(highest));
          ASSERT_EQ(column.lowest_point, lowest);
          ASSERT_EQ(column.lowest_bytes, live(lowest));
          if (highest >= 0) {
            ASSERT_EQ(column.reserved_bytes,
                      on.known.after[on.d][static_cast<std::size_t>(highest)].reserved_bytes);
          }
        }
        ASSERT_EQ(next, on.event_count());
      }
    });
  });
}

TEST(TilesProperty, the_events_of_a_column_are_in_its_span_of_the_axis) {
  for_each_case([](const Case& on) {
    for_each_axis(on, [&](const Axis& axis) {
      const double begin = axis.end() * 0.3, end = axis.end() * 0.8;
      constexpr std::size_t kCount = 7;
      const double width = (end - begin) / kCount;
      const auto window = columns(on.device, axis, on.baseline(), begin, end, kCount);
      for (std::uint32_t e = 0; e < on.event_count(); ++e) {
        const double place = (axis.position(e) - begin) / width;
        for (std::size_t i = 0; i < kCount; ++i) {
          const bool is_in = window[i].first_event <= e && e < window[i].end_event;
          const double from = static_cast<double>(i), to = from + 1, rounding = 1e-9;
          const bool is_near = place > from - rounding && place < to + rounding;
          const bool is_inside = place > from + rounding && place < to - rounding;
          ASSERT_TRUE(is_near || !is_in) << e;
          ASSERT_TRUE(is_in || !is_inside) << e;
        }
      }
    });
  });
}

TEST(TilesProperty, zooming_never_moves_adds_or_loses_a_peak) {
  for_each_case([](const Case& on) {
    for_each_axis(on, [&](const Axis& axis) {
      for (const std::size_t count : {1u, 3u, 8u, 24u, 128u}) {
        const auto parents = all_columns(on, axis, count);
        const auto children = all_columns(on, axis, 2 * count);
        for (std::size_t i = 0; i < count; ++i) {
          const Column& left = children[2 * i];
          const Column& right = children[2 * i + 1];
          ASSERT_EQ(parents[i].first_event, left.first_event);
          ASSERT_EQ(parents[i].end_event, right.end_event);
          ASSERT_EQ(left.end_event, right.first_event);
          const bool is_left_empty = left.first_event == left.end_event;
          const bool is_right_empty = right.first_event == right.end_event;
          const bool is_right =
              !is_right_empty && (is_left_empty || right.live_bytes > left.live_bytes);
          const Column& larger = is_right ? right : left;
          ASSERT_EQ(parents[i].point, larger.point);
          ASSERT_EQ(parents[i].live_bytes, larger.live_bytes);
          ASSERT_EQ(parents[i].reserved_bytes, larger.reserved_bytes);
        }
      }
    });
  });
}

TEST(TilesProperty, columns_are_the_maxima_of_the_reports_timeline) {
  for_each_case([](const Case& on) {
    const auto report = tests::run_passes(on.trace, tests::passes(tests::timeline_pass()));
    const auto& totals = report.devices[on.d];
    const auto series = on.device.has_block_sizes ? report::Series::kAllocatedRounded
                                                  : report::Series::kRequestedActive;
    const Baseline baseline{totals.live_totals().baseline_bytes, totals.reserved.baseline_bytes};
    for_each_axis(on, [&](const Axis& axis) {
      const auto whole = columns(on.device, axis, baseline, 0, axis.end(), 1);
      ASSERT_EQ(std::max(whole[0].live_bytes, baseline.live_bytes),
                totals.live_totals().peak_bytes);
      if (totals.live_totals().peak_event) {
        ASSERT_EQ(whole[0].point, static_cast<std::int64_t>(*totals.live_totals().peak_event));
      }
      for (const Column& column : columns(on.device, axis, baseline, 0, axis.end(), 11)) {
        if (column.first_event == column.end_event) continue;
        const auto& level = totals.timeline.levels.front();  // a bucket for each event
        std::int64_t highest = level[column.first_event].of(series).max_bytes;
        for (std::uint32_t e = column.first_event; e < column.end_event; ++e) {
          highest = std::max(highest, level[e].of(series).max_bytes);
        }
        ASSERT_EQ(column.live_bytes, highest);
      }
    });
  });
}

void check_bands(const Case& on, const Groups& groups, std::span<const std::int64_t> points) {
  const Bands all = bands(on.trace, on.device, groups, points);
  for (std::size_t p = 0; p < points.size(); ++p) {
    std::vector<std::uint64_t> bytes(groups.names.size()), counts(groups.names.size());
    for (std::size_t row = 0; row < on.device.lifetimes.size(); ++row) {
      if (!reference::is_live(on.device, row, points[p])) continue;
      bytes[groups.of[row]] += reference::bytes_of(on.trace, on.device, row);
      counts[groups.of[row]] += 1;
    }
    for (std::size_t band = 0; band < groups.names.size(); ++band) {
      ASSERT_EQ(all.of(band)[p], bytes[band]) << groups.names[band] << " at " << points[p];
      ASSERT_EQ(all.counts[band * points.size() + p], counts[band]);
    }
  }
}

TEST(TilesProperty, bands_are_the_live_lifetimes_of_each_group) {
  for_each_case([](const Case& on) {
    for (const Dimension dimension : kDimensions) {
      SCOPED_TRACE(model::to_string(dimension));
      const Groups groups = grouped(on, dimension);
      if (groups.names.empty()) continue;
      std::vector<std::int64_t> points = every_point(on, 3);
      points.push_back(points.back());
      check_bands(on, groups, points);
      const std::size_t third = points.size() / 3;
      check_bands(on, groups, std::span(points).subspan(third, third + 1));
    }
  });
}

TEST(TilesProperty, bands_sum_to_their_column) {
  for_each_case([](const Case& on) {
    for_each_axis(on, [&](const Axis& axis) {
      const auto all = all_columns(on, axis, 40);
      const auto points = points_of(all);
      const Bands by_line = bands(on.trace, on.device, grouped(on, Dimension::kLine), points);
      for (std::size_t p = 0; p < points.size(); ++p) {
        std::uint64_t sum = 0;
        for (std::size_t band = 0; band < by_line.names.size(); ++band) sum += by_line.of(band)[p];
        ASSERT_EQ(static_cast<std::int64_t>(sum), all[p].live_bytes - on.known.unknown_bytes[on.d])
            << "column " << p;
      }
    });
  });
}

// name -> (bytes, count)
using Table = std::map<std::string, std::pair<std::uint64_t, std::uint64_t>>;

Table rows_of(const std::vector<report::GroupRow>& rows, std::int32_t device) {
  Table table;
  for (const report::GroupRow& row : rows) {
    if (row.device == device) table[row.key] = {row.bytes, row.count};
  }
  return table;
}

const std::vector<report::GroupRow>& table_of(const report::Tables& tables, Dimension dimension) {
  switch (dimension) {
    case Dimension::kCategory:
      return tables.by_category;
    case Dimension::kLayer:
      return tables.by_layer;
    case Dimension::kLine:
      return tables.by_line;
    case Dimension::kOperator:
      return tables.by_operator;
    case Dimension::kPhase:
      return tables.by_phase;
    case Dimension::kStep:
      return tables.by_step;
    case Dimension::kStream:
      return tables.by_stream;
    case Dimension::kPool:
      return tables.by_pool;
    case Dimension::kDtype:
      return tables.by_dtype;
    case Dimension::kTensor:
      break;
  }
  return tables.by_tensor;
}

TEST(TilesProperty, a_table_and_a_chart_agree) {
  for_each_case([](const Case& on) {
    const std::uint32_t point = on.event_count() / 2;
    analysis::Options options;
    options.point = {.kind = analysis::TimePoint::Kind::kEvent, .event = point};
    options.top = 1'000'000;
    options.device = on.device.device;
    const auto report = tests::run_passes(
        on.trace, tests::passes(tests::timeline_pass(), analysis::composition::make()), options);
    const std::vector<std::int64_t> points = {point};
    for (const Dimension dimension : kDimensions) {
      SCOPED_TRACE(model::to_string(dimension));
      const Groups groups = grouped(on, dimension);
      Table chart;
      if (groups.names.empty()) {
        ASSERT_TRUE(table_of(report.tables, dimension).empty());
        continue;
      }
      const Bands all = bands(on.trace, on.device, groups, points);
      for (std::size_t band = 0; band < all.names.size(); ++band) {
        ASSERT_FALSE(chart.contains(all.names[band]));
        if (all.counts[band] > 0) chart[all.names[band]] = {all.bytes[band], all.counts[band]};
      }
      ASSERT_EQ(chart, rows_of(table_of(report.tables, dimension), on.device.device.ordinal));
    }
  });
}

TEST(TilesProperty, the_largest_groups_keep_every_byte) {
  for_each_case([](const Case& on) {
    const auto points = every_point(on, 2);
    const std::vector<std::int64_t> important = {points[points.size() / 2], points.back()};
    const Groups all = grouped(on, Dimension::kLine);
    const Groups few = largest(on.trace, on.device, all, points, important, 1);
    ASSERT_LE(few.names.size(), 4u);
    const Bands full = bands(on.trace, on.device, all, points);
    const Bands kept = bands(on.trace, on.device, few, points);
    for (std::size_t band = 0; band < few.names.size(); ++band) {
      const auto same = std::ranges::find(all.names, few.names[band]);
      for (std::size_t p = 0; p < points.size(); ++p) {
        std::uint64_t expected = 0;
        if (same != all.names.end()) {
          expected = full.of(static_cast<std::size_t>(same - all.names.begin()))[p];
        } else {
          for (std::size_t other = 0; other < all.names.size(); ++other) {
            const bool is_kept = std::ranges::find(few.names, all.names[other]) != few.names.end();
            if (!is_kept) expected += full.of(other)[p];
          }
        }
        ASSERT_EQ(kept.of(band)[p], expected) << few.names[band];
      }
    }
    // The largest line at an important point has a band.
    for (const std::int64_t point : important) {
      const auto at = static_cast<std::size_t>(std::ranges::find(points, point) - points.begin());
      std::uint64_t most = 0;
      for (std::size_t band = 0; band < all.names.size(); ++band) {
        most = std::max(most, full.of(band)[at]);
      }
      std::uint64_t most_named = 0;
      for (std::size_t band = 0; band < few.names.size(); ++band) {
        if (few.names[band] != "[everything else]") {
          most_named = std::max(most_named, kept.of(band)[at]);
        }
      }
      ASSERT_EQ(most_named, most);
    }
  });
}

TEST(TilesProperty, segments_are_covered_and_sum_to_the_reports_fragmentation) {
  for_each_case([](const Case& on) {
    const model::UserLines lines(on.trace);
    const auto last = std::int64_t{on.event_count()} - 1;
    for (const std::int64_t point : {kBeforeFirst, last / 3, last / 2, last}) {
      SCOPED_TRACE(point);
      const auto all = segments(on.trace, on.device, point);
      if (!on.device.has_final_state) {
        ASSERT_TRUE(all.empty());
        continue;
      }
      const std::vector<std::int64_t> points = {point};
      const auto layout =
          point == last
              ? model::final_layout(on.trace, on.device)
              : model::layout_of(on.trace, on.device,
                                 model::segments_at(on.trace, on.device, points)[0],
                                 model::live_set(on.device, model::Liveness::kActive, point));
      const auto pinning = analysis::find_pinning(on.trace, layout, lines, {});
      std::uint64_t reserved = 0, pinned = 0, releasable = 0, of_pools = 0;
      for (const SegmentParts& segment : all) {
        std::uint64_t at = 0, by_kind[4] = {};
        for (const SegmentPart& part : segment.parts) {
          ASSERT_EQ(part.offset_bytes, at);
          ASSERT_GT(part.size_bytes, 0u);
          at += part.size_bytes;
          by_kind[static_cast<std::size_t>(part.kind)] += part.size_bytes;
        }
        ASSERT_EQ(at, segment.segment.size_bytes);
        ASSERT_EQ(by_kind[0], segment.block_bytes);
        ASSERT_EQ(by_kind[1], segment.pinned_bytes);
        ASSERT_EQ(by_kind[2], segment.releasable_bytes);
        ASSERT_EQ(by_kind[3], segment.private_bytes);
        reserved += at;
        pinned += segment.pinned_bytes;
        releasable += segment.releasable_bytes;
        of_pools += segment.private_bytes;
      }
      ASSERT_EQ(reserved, pinning.reserved_bytes);
      ASSERT_EQ(pinned, pinning.pinned_bytes);
      ASSERT_EQ(releasable, pinning.releasable_bytes);
      ASSERT_EQ(of_pools, pinning.private_bytes);
      ASSERT_EQ(static_cast<std::int64_t>(reserved),
                point < 0 ? on.known.before[on.d].reserved_bytes
                          : on.known.after[on.d][static_cast<std::size_t>(point)].reserved_bytes);
    }
  });
}

// Checks the pages that a free range touches: they are pinned if a block touches them too.
void check_free_range(const Case& on, const SegmentParts& segment, const SegmentPart& range) {
  const std::uint64_t large_or_small =
      segment.segment.type == model::SegmentType::kSmall ? 2 << 20 : 20 << 20;
  const std::uint64_t page =
      segment.segment.is_expandable ? large_or_small : segment.segment.size_bytes;
  const std::uint64_t end = range.offset_bytes + range.size_bytes;
  for (std::uint64_t at = range.offset_bytes / page * page; at < end; at += page) {
    const bool is_pinned = std::ranges::any_of(segment.parts, [&](const SegmentPart& part) {
      return part.kind == RangeKind::kBlock && part.offset_bytes < at + page &&
             part.offset_bytes + part.size_bytes > at;
    });
    const model::Pool& pool = on.trace.pools[segment.segment.pool.index()];
    const bool is_default_pool = pool.first == 0 && pool.second == 0;
    const RangeKind expected = is_pinned         ? RangeKind::kPinned
                               : is_default_pool ? RangeKind::kReleasable
                                                 : RangeKind::kPrivate;
    ASSERT_EQ(range.kind, expected) << "at " << at;
  }
}

TEST(TilesProperty, a_free_range_is_pinned_if_a_block_is_on_its_page) {
  for_each_case([](const Case& on) {
    const auto last = std::int64_t{on.event_count()} - 1;
    for (const std::int64_t point : {kBeforeFirst, last / 2, last}) {
      for (const SegmentParts& segment : segments(on.trace, on.device, point)) {
        for (const SegmentPart& part : segment.parts) {
          if (part.kind != RangeKind::kBlock) check_free_range(on, segment, part);
        }
      }
    }
  });
}

TEST(TilesProperty, the_blocks_of_segments_are_the_active_lifetimes) {
  for_each_case([](const Case& on) {
    if (!on.device.has_final_state) return;
    const auto last = std::int64_t{on.event_count()} - 1;
    for (const std::int64_t point : {kBeforeFirst, last / 2, last}) {
      std::set<std::uint32_t> shown;
      for (const SegmentParts& segment : segments(on.trace, on.device, point)) {
        for (const SegmentPart& part : segment.parts) {
          if (part.kind != RangeKind::kBlock) {
            ASSERT_EQ(part.lifetime, model::kNone);
            continue;
          }
          ASSERT_TRUE(shown.insert(part.lifetime).second);
          ASSERT_EQ(on.trace.address(on.device, part.lifetime),
                    segment.segment.address + part.offset_bytes);
          if (on.device.has_block_sizes) {
            ASSERT_EQ(part.size_bytes, on.trace.block_bytes(on.device, part.lifetime));
          }
        }
      }
      const auto active = model::live_set(on.device, model::Liveness::kActive, point);
      ASSERT_EQ(shown, std::set<std::uint32_t>(active.begin(), active.end())) << point;
    }
  });
}

// Charts follow their definitions even if the events contradict each other.
TEST(TilesProperty, contradictory_recordings_do_no_harm) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    RandomMemoryOptions options = options_of(seed);
    options.is_contradictory = true;
    for_each_device(options, [](const Case& on) {
      const auto points = every_point(on, 4);
      check_bands(on, grouped(on, Dimension::kLine), points);
      for_each_axis(on, [&](const Axis& axis) {
        for (const Column& column : all_columns(on, axis, 9)) {
          const auto change = reference::change_until(on.device, column.point);
          ASSERT_EQ(static_cast<std::uint64_t>(column.live_bytes),
                    static_cast<std::uint64_t>(on.baseline().live_bytes) + change.live_bytes);
          ASSERT_EQ(
              static_cast<std::uint64_t>(column.reserved_bytes),
              static_cast<std::uint64_t>(on.baseline().reserved_bytes) + change.reserved_bytes);
        }
      });
      for (const std::int64_t point : points) {
        for (const SegmentParts& segment : segments(on.trace, on.device, point)) {
          std::uint64_t at = 0;
          for (const SegmentPart& part : segment.parts) {
            ASSERT_EQ(part.offset_bytes, at);
            at += part.size_bytes;
          }
          ASSERT_EQ(at, segment.segment.size_bytes);
        }
      }
    });
  }
}

}  // namespace
}  // namespace plimsoll::tiles

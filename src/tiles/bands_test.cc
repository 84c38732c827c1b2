#include "tiles/bands.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/last_use.h"
#include "model/live_set.h"
#include "tests/support/trace_maker.h"

namespace plimsoll::tiles {
namespace {

using Bytes = std::vector<std::uint64_t>;
using tests::Reported;
using tests::TraceMaker;

Bytes of(const Bands& bands, std::size_t band) {
  return {bands.of(band).begin(), bands.of(band).end()};
}

Groups by(const model::Trace& trace, model::Dimension dimension) {
  const model::UserLines lines(trace);
  const auto grouping = model::make_grouping(trace, trace.devices[0], lines, dimension);
  return groups_of(*grouping, trace.devices[0]);
}

model::Trace three_categories() {
  TraceMaker maker;
  maker.alloc_reported(1, 100, {.category = "parameter"});    // 0
  maker.alloc_reported(2, 30, {.category = "activation"});    // 1
  maker.alloc_reported(3, 7, {.category = "unknown"});        // 2
  maker.alloc_reported(4, 40, {.category = "activation"});    // 3
  maker.free_immediately(2, 30).free_immediately(4, 40);      // 4, 5
  maker.alloc_reported(5, 2, {}).free_immediately(9, 1'000);  // 6, 7: live before the recording
  return maker.finish();
}

TEST(Bands, are_the_live_bytes_of_each_group_at_each_point) {
  const auto trace = three_categories();
  const std::vector<std::int64_t> points = {model::kBeforeFirst, 1, 3, 3, 4, 7};
  const Bands all = bands(trace, trace.devices[0], by(trace, model::Dimension::kCategory), points);
  EXPECT_EQ(all.names, (std::vector<std::string>{"unknown", "parameter", "activation"}));
  EXPECT_EQ(all.points, 6u);
  EXPECT_EQ(of(all, 0), (Bytes{1'000, 1'000, 1'007, 1'007, 1'007, 9}));
  EXPECT_EQ(of(all, 1), (Bytes{0, 100, 100, 100, 100, 100}));
  EXPECT_EQ(of(all, 2), (Bytes{0, 30, 70, 70, 40, 0}));
  EXPECT_EQ(all.counts, (Bytes{1, 1, 2, 2, 2, 2,  //
                               0, 1, 1, 1, 1, 1,  //
                               0, 1, 2, 2, 1, 0}));
}

TEST(Bands, the_unused_part_begins_after_the_last_use) {
  TraceMaker maker;
  maker
      .alloc_reported(1, 100, {.category = "activation", .use = {.unused_from = 2}})  // 0
      .alloc_reported(2, 30, {.category = "activation", .use = {.unused_from = 0}})   // 1
      .alloc_reported(3, 7, {.category = "parameter", .use = {.unused_from = 0}})     // 2
      .alloc_reported(4, 5, {.category = "activation"})                               // 3: unknown
      .free_immediately(1, 100)                                                       // 4
      .free_immediately(2, 30);                                                       // 5
  const auto trace = maker.finish();
  const model::DeviceTrace& device = trace.devices[0];
  const std::vector<std::int64_t> points = {model::kBeforeFirst, 0, 1, 2, 2, 3, 4, 5};
  const Bands unused = unused_bands(trace, device, by(trace, model::Dimension::kCategory), points);
  const model::LastUses uses(trace, device);
  Bytes bytes;
  Bytes expected;
  for (std::size_t i = 0; i < points.size(); ++i) {
    bytes.push_back(0);
    expected.push_back(0);
    for (std::size_t band = 0; band < unused.names.size(); ++band) {
      bytes.back() += unused.of(band)[i];
    }
    for (const std::uint32_t row :
         model::live_set(device, model::default_liveness(device), points[i])) {
      const bool is_unused = uses.used_again(row, points[i]) == model::UsedAgain::kNo;
      if (is_unused) expected.back() += trace.lifetime_bytes(device, row);
    }
  }
  EXPECT_EQ(bytes, expected);
  EXPECT_EQ(bytes, (Bytes{0, 0, 0, 130, 130, 130, 30, 0}));
}

TEST(Bands, keep_the_largest_groups_at_important_points_and_over_all) {
  TraceMaker maker;
  maker.alloc_reported(1, 10, {.layer = "steady"}).alloc_reported(2, 900, {.layer = "peak"});
  maker.free_immediately(2, 900).alloc_reported(3, 5, {.layer = "small"});
  maker.free_immediately(3, 5).alloc_reported(4, 1, {.layer = "tiny"});
  const auto trace = maker.finish();
  const Groups layers = by(trace, model::Dimension::kLayer);
  ASSERT_EQ(layers.names.size(), 4u);
  const std::vector<std::int64_t> points = {0, 3, 5};  // the peak is not among them
  const auto names = [&](std::vector<std::int64_t> important, std::size_t keep) {
    return largest(trace, trace.devices[0], layers, points, important, keep).names;
  };
  EXPECT_EQ(names({}, 1), (std::vector<std::string>{"steady", "[everything else]"}));
  EXPECT_EQ(names({1}, 1), (std::vector<std::string>{"steady", "peak", "[everything else]"}));
  EXPECT_EQ(names({}, 4), layers.names);
  EXPECT_EQ(names({1}, 3), layers.names);  // merging a single group saves no band
  const Groups kept = largest(trace, trace.devices[0], layers, points, {}, 1);
  EXPECT_EQ(of(bands(trace, trace.devices[0], kept, points), 1), (Bytes{0, 5, 1}));
}

}  // namespace
}  // namespace plimsoll::tiles

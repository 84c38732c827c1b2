#include "engine/overwrite_plan.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"
#include "tests/support/trace_maker.h"

namespace plimsoll::engine {
namespace {

using model::LifetimeFlags;
using testing::ElementsAre;
using testing::IsEmpty;
using tests::TraceMaker;

constexpr std::uint64_t kNever = PlannedAllocation::kNever;
constexpr model::Device kGpu{model::DeviceType::kCuda, 1};

OverwritePlan plan_of(const model::Trace& trace) {
  auto plan = overwrite_plan(trace);
  EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.error().message);
  return plan.ok() ? *std::move(plan) : OverwritePlan{};
}

std::vector<std::uint64_t> unused_from(const OverwritePlan& plan) {
  std::vector<std::uint64_t> numbers;
  for (const PlannedAllocation& row : plan.allocations) numbers.push_back(row.unused_from);
  return numbers;
}

// `event` is the first event that may find the memory unused.
tests::Reported unused_at(std::uint32_t event) { return {.use = {event, 0, 0}}; }

std::string error_of(const model::Trace& trace) {
  const auto plan = overwrite_plan(trace);
  return plan.ok() ? "" : plan.error().message;
}

TEST(OverwritePlan, memory_is_overwritten_at_the_first_allocation_after_its_last_use) {
  TraceMaker maker;
  maker.alloc_reported(0x1000, 10, unused_at(1));  // event 0: unused at event 1, allocation 1
  maker.alloc_reported(0x2000, 20, unused_at(2));  // event 1: the next allocation is number 2
  maker.free_immediately(0x1000, 10);              // event 2
  maker.alloc_reported(0x3000, 30, unused_at(4));  // event 3, allocation 2
  maker.alloc_reported(0x4000, 40, unused_at(5));  // event 4, allocation 3: none follows
  const OverwritePlan plan = plan_of(maker.finish());
  EXPECT_THAT(unused_from(plan), ElementsAre(1, 2, 3, kNever));
  std::vector<std::uint64_t> sizes;
  for (const PlannedAllocation& row : plan.allocations) sizes.push_back(row.size_bytes);
  EXPECT_THAT(sizes, ElementsAre(10, 20, 30, 40));
}

TEST(OverwritePlan, the_order_is_that_of_the_last_uses) {
  TraceMaker maker;
  maker.alloc_reported(0x1000, 1, unused_at(3)).alloc_reported(0x2000, 1, unused_at(2));
  maker.alloc_reported(0x3000, 1, unused_at(4)).alloc_reported(0x4000, 1, unused_at(4));
  const OverwritePlan plan = plan_of(maker.finish());
  EXPECT_THAT(unused_from(plan), ElementsAre(3, 2, kNever, kNever));
  EXPECT_THAT(plan.overwritten(), ElementsAre(1, 0));
}

TEST(OverwritePlan, parameters_buffers_and_optimizer_state_are_never_overwritten) {
  TraceMaker maker;
  for (const char* const category : {"parameter", "buffer", "optimizer_state", "gradient", ""}) {
    tests::Reported reported = unused_at(5);
    reported.category = category;
    maker.alloc_reported(0x1000, 1, reported);
    maker.free_immediately(0x1000, 1);
  }
  // The last one is allocated by event 8; event 5 is the free of "optimizer_state".
  EXPECT_THAT(unused_from(plan_of(maker.finish())), ElementsAre(kNever, kNever, kNever, 3, 3));
}

TEST(OverwritePlan, unknown_last_uses_are_never_overwritten) {
  TraceMaker maker;
  maker.alloc_reported(0x1000, 1, {}).alloc_reported(0x2000, 1, unused_at(2));
  maker.alloc_reported(0x3000, 1, {});
  const OverwritePlan plan = plan_of(maker.finish());
  EXPECT_THAT(unused_from(plan), ElementsAre(kNever, 2, kNever));
  EXPECT_THAT(plan.overwritten(), ElementsAre(1));
}

// A second run does not adopt the same memory, so it is not counted.
TEST(OverwritePlan, adopted_memory_and_memory_from_before_have_no_number) {
  TraceMaker maker;
  maker.free_immediately(0x9000, 7);  // allocated before the recording
  tests::Reported adopted = unused_at(3);
  adopted.flags = LifetimeFlags::kAdopted;
  maker.alloc_reported(0x1000, 100, adopted);
  maker.alloc_reported(0x2000, 1, unused_at(3)).alloc_reported(0x3000, 2, {});
  const OverwritePlan plan = plan_of(maker.finish());
  EXPECT_THAT(unused_from(plan), ElementsAre(1, kNever));
  EXPECT_EQ(plan.allocations[0].size_bytes, 1u);
}

TEST(OverwritePlan, each_device_counts_its_own_allocations) {
  TraceMaker maker;
  maker.on({}).alloc_reported(0x1000, 1, unused_at(1));
  maker.on(kGpu).alloc_reported(0x1000, 2, unused_at(1));
  maker.on({}).alloc_reported(0x2000, 3, {});
  maker.on(kGpu).alloc_reported(0x2000, 4, {});
  const OverwritePlan plan = plan_of(maker.finish());
  EXPECT_THAT(unused_from(plan), ElementsAre(1, kNever, 1, kNever));
  const PlannedAllocation& last = plan.allocations[3];
  EXPECT_EQ(last.size_bytes, 4u);
  EXPECT_EQ(last.device_type, static_cast<std::uint32_t>(kGpu.type));
  EXPECT_EQ(last.ordinal, 1);
}

TEST(OverwritePlan, each_allocation_has_its_line) {
  TraceMaker maker;
  tests::Reported reported = unused_at(1);
  reported.stack = maker.stack({{"train.py", 42, "forward"}});
  maker.alloc_reported(0x1000, 1, reported);
  EXPECT_THAT(plan_of(maker.finish()).places, ElementsAre("train.py:42 (forward)"));
}

TEST(OverwritePlan, the_file_has_the_first_rows_in_order_of_last_use) {
  TraceMaker maker;
  maker.alloc_reported(0x1000, 1, unused_at(3)).alloc_reported(0x2000, 1, unused_at(2));
  maker.alloc_reported(0x3000, 1, {}).alloc_reported(0x4000, 1, {});
  const OverwritePlan plan = plan_of(maker.finish());
  const tests::TemporaryFolder folder;
  const std::string path = folder.path() + "/plan";
  const auto written = [&](std::size_t count) {
    EXPECT_TRUE(plan.write(path, count).ok());
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    OverwritePlan read;
    read.allocations.resize(bytes.size() / sizeof(PlannedAllocation));
    std::memcpy(read.allocations.data(), bytes.data(), bytes.size());
    return unused_from(read);
  };
  EXPECT_THAT(written(0), ElementsAre(kNever, kNever, kNever, kNever));
  EXPECT_THAT(written(1), ElementsAre(kNever, 2, kNever, kNever));
  EXPECT_THAT(written(2), ElementsAre(3, 2, kNever, kNever));
  EXPECT_FALSE(plan.write(folder.path() + "/none/plan", 2).ok());
}

TEST(OverwritePlan, a_trace_without_uses_or_without_its_beginning_has_none) {
  TraceMaker plain;
  plain.alloc(0x1000, 1);
  EXPECT_EQ(error_of(plain.finish()), "the recording has no last uses");
  TraceMaker maker;
  maker.alloc_reported(0x1000, 1, unused_at(1));
  model::Trace trace = maker.finish();
  EXPECT_THAT(plan_of(trace).overwritten(), IsEmpty());
  trace.devices[0].history = model::History::kTruncated;
  EXPECT_EQ(error_of(trace), "the recording lacks its first events");
}

}  // namespace
}  // namespace plimsoll::engine

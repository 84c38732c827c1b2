#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "findings/rules.h"
#include "tests/support/own_case.h"

namespace plimsoll::findings {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr model::Device kHost{model::DeviceType::kCpu, -1};

// A process whose tensors have 39 MiB at their peak; both figures in MiB.
Findings found(std::uint64_t start, std::uint64_t end, model::Device device = kHost) {
  Case c;
  c.maker.on(device).alloc(1, 39 * kMib);
  c.report.devices.resize(1);
  report::DeviceReport& report = c.report.devices[0];
  report.requested_active.peak_bytes = static_cast<std::int64_t>(39 * kMib);
  report.process_start_bytes = start * kMib;
  report.process_end_bytes = end * kMib;
  return c.run(memory_outside_tensors);
}

TEST(MemoryOutsideTensors, that_explains_most_of_the_process_growth_is_reported) {
  const Findings all = found(237, 895);
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].title,
            "The process grew by 658.0 MiB; its tensors explain at most 39.0 MiB of it");
  EXPECT_THAT(all[0].next_step(), HasSubstr("memray or heaptrack"));
  EXPECT_EQ(all[0].severity, report::FindingSeverity::kInfo);
}

TEST(MemoryOutsideTensors, of_imports_or_of_tensors_is_not_reported) {
  EXPECT_THAT(found(237, 700), IsEmpty());
  EXPECT_THAT(found(895, 237), IsEmpty());
}

TEST(MemoryOutsideTensors, is_not_judged_if_a_gpu_is_in_use) {
  EXPECT_THAT(found(237, 2000, model::Device{}), IsEmpty());
}

}  // namespace
}  // namespace plimsoll::findings

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
Findings found(std::uint64_t start, std::uint64_t end, model::Device device = kHost,
               std::uint64_t free_heap = 0) {
  Case c;
  c.maker.on(device).alloc(1, 39 * kMib);
  c.report.devices.resize(1);
  report::DeviceReport& report = c.report.devices[0];
  report.requested_active.peak_bytes = static_cast<std::int64_t>(39 * kMib);
  report.process_start_bytes = start * kMib;
  report.process_end_bytes = end * kMib;
  report.process_free_heap_bytes = free_heap * kMib;
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

TEST(MemoryOutsideTensors, that_the_c_library_keeps_is_named) {
  EXPECT_EQ(found(237, 895)[0].steps.size(), 2u);
  const Findings all = found(237, 895, kHost, 400);
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].evidence[0],
            "Its resident memory was 237.0 MiB when the recording began and 895.0 MiB when it "
            "ended. Of these 658.0 MiB, tensors are at most 39.0 MiB, and the C library has not "
            "returned 400.0 MiB of what was freed.");
  EXPECT_THAT(all[0].evidence[1], HasSubstr("The other 219.0 MiB are outside tensors"));
  EXPECT_THAT(all[0].steps.back().text, HasSubstr("MALLOC_MMAP_THRESHOLD_"));
}

TEST(MemoryOutsideTensors, of_imports_or_of_tensors_is_not_reported) {
  EXPECT_THAT(found(237, 700), IsEmpty());
  EXPECT_THAT(found(895, 237), IsEmpty());
}

// The same, with growth that went on after the third step.
Findings found_after_step_3(std::uint64_t growth, std::string diagnostic = "",
                            std::uint64_t kept = 0) {
  Case c;
  c.maker.on(kHost).alloc(1, 20 * kMib);
  c.report.devices.resize(1);
  report::DeviceReport& report = c.report.devices[0];
  report.requested_active.peak_bytes = static_cast<std::int64_t>(20 * kMib);
  report.process_start_bytes = 200 * kMib;
  report.process_end_bytes = report.process_highest_bytes = (300 + kept + growth) * kMib;
  report.process_warm_bytes = 300 * kMib;
  report.process_growth_bytes = growth * kMib;
  report.is_process_growing = true;
  if (!diagnostic.empty())
    c.report.source.diagnostics.push_back({std::move(diagnostic), "data_loss", 1, "", ""});
  return c.run(memory_outside_tensors);
}

TEST(MemoryOutsideTensors, that_grows_from_step_to_step_is_reported_from_64_mib) {
  const Findings all = found_after_step_3(64);
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].title, "The process grew by 64.0 MiB outside its tensors after step 3");
  EXPECT_EQ(all[0].severity, report::FindingSeverity::kWarning);
  EXPECT_THAT(found_after_step_3(63), IsEmpty());
  const Findings with_kept = found_after_step_3(64, "", 100);
  ASSERT_THAT(with_kept, SizeIs(1));
  EXPECT_THAT(with_kept[0].evidence[0],
              HasSubstr("Of these 164.0 MiB, 100.0 MiB are of tensors, or were freed and the C "
                        "library keeps them."));
  EXPECT_THAT(with_kept[0].evidence[1], HasSubstr("The other 64.0 MiB are outside tensors"));
}

TEST(MemoryOutsideTensors, is_not_judged_if_tensors_are_missing) {
  EXPECT_THAT(found_after_step_3(64, "python_adapter"), IsEmpty());
}

TEST(MemoryOutsideTensors, is_not_judged_if_a_gpu_is_in_use) {
  EXPECT_THAT(found(237, 2000, model::Device{}), IsEmpty());
}

}  // namespace
}  // namespace plimsoll::findings

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "findings/rules.h"
#include "tests/support/own_case.h"

namespace plimsoll::findings {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::uint64_t kContext = 500 * kMib;
constexpr std::uint64_t kReserved = 100 * kMib;

// 12 steps, with a reading after steps 1, 5, 8 and 11. `outside` lists the bytes at each reading,
// in MiB.
Case with_readings(const std::vector<std::uint64_t>& outside) {
  Case c;
  c.maker.on(model::Device{});
  c.maker.event(model::Action::kSegmentAlloc, 1 << 20, kReserved).alloc(1 << 20, kMib);
  std::size_t next = 0;
  for (std::uint64_t step = 1; step <= 12; ++step) {
    c.maker.alloc(step, 512).free_immediately(step, 512).step(step);
    c.maker.at(c.maker.time_ns() + 1'000);
    if (step != 1 && step != 5 && step != 8 && step != 11) continue;
    model::DeviceReading reading;
    reading.time_ns = c.maker.time_ns();
    c.maker.at(c.maker.time_ns() + 1'000);
    reading.figures.total_bytes = 80 * kGib;
    reading.figures.free_bytes = 40 * kGib;
    reading.figures.own_bytes = kReserved + kContext + outside.at(next++) * kMib;
    reading.figures.context_bytes = kContext;
    reading.figures.processes = {{.pid = 77, .name = "other", .used_bytes = 30 * kGib}};
    c.maker.builder().add_reading(reading);
  }
  c.report.devices.resize(1);
  c.report.devices[0].reserved.peak_bytes = static_cast<std::int64_t>(kReserved);
  return c;
}

TEST(NonPytorchMemory, that_grows_at_every_step_is_a_warning_without_a_line) {
  const Findings found = with_readings({512, 1536, 2304, 3072}).run(non_pytorch_memory);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].severity, report::FindingSeverity::kWarning);
  EXPECT_EQ(found[0].title,
            "Memory of this process outside PyTorch on cuda:0 grows by 256.0 MiB a step, to 3.0 "
            "GiB");
  EXPECT_THAT(
      found[0].evidence,
      Contains("It was 1.5 GiB after step 5 and 3.0 GiB after step 11, and rose between all 3 "
               "readings."));
  EXPECT_EQ(found[0].saving_bytes(), 1536 * kMib);
}

TEST(NonPytorchMemory, of_libraries_that_load_their_kernels_is_not_reported) {
  EXPECT_THAT(with_readings({200, 240, 240, 240}).run(non_pytorch_memory), IsEmpty());
  EXPECT_THAT(with_readings({0, 100, 200, 300}).run(non_pytorch_memory), IsEmpty());
}

TEST(NonPytorchMemory, that_is_added_once_or_falls_does_not_grow) {
  EXPECT_THAT(with_readings({100, 100, 100, 900}).run(non_pytorch_memory), IsEmpty());
  EXPECT_THAT(with_readings({100, 900, 400, 950}).run(non_pytorch_memory), IsEmpty());
}

TEST(NonPytorchMemory, that_is_a_good_part_of_the_process_is_information) {
  const Findings found = with_readings({2048, 2048, 2048, 2048}).run(non_pytorch_memory);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].severity, report::FindingSeverity::kInfo);
  EXPECT_EQ(found[0].title,
            "2.0 GiB of the 2.6 GiB that this process uses on cuda:0 are outside PyTorch");
}

TEST(NonPytorchMemory, is_unknown_if_the_driver_does_not_report_this_process) {
  Case c = with_readings({512, 1536, 2304, 3072});
  c.report.devices[0].reserved.peak_bytes = 0;
  EXPECT_THAT(c.run(non_pytorch_memory), IsEmpty());
}

}  // namespace
}  // namespace plimsoll::findings

// Devices whose peak need not be explained because the memory that matters is on another device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/devices.h"
#include "tests/support/units.h"

namespace plimsoll::report {
namespace {

using tests::kGib;
using tests::kMib;

DeviceReport with_peak(const char* type, std::int32_t ordinal, std::uint64_t bytes) {
  DeviceReport made;
  made.device = ordinal;
  made.device_type = type;
  made.requested_active.peak_bytes = static_cast<std::int64_t>(bytes);
  return made;
}

// Whether the first device is minor next to the second.
bool is_minor_next_to(DeviceReport device, DeviceReport other) {
  Report report;
  report.devices = {std::move(device), std::move(other)};
  return is_minor(report, report.devices[0]);
}

TEST(MinorDevices, memory_of_the_host_that_a_gpu_exceeds_is_minor) {
  const DeviceReport gpu = with_peak("cuda", 0, 2 * kGib);
  EXPECT_TRUE(is_minor_next_to(with_peak("cpu", -1, 64 * kMib), gpu)) << "a model before .cuda()";
  EXPECT_TRUE(is_minor_next_to(with_peak("pinned_host", -2, 4 * kMib), gpu));
  EXPECT_TRUE(is_minor_next_to(with_peak("cpu", -1, 2 * kGib), gpu));
  EXPECT_FALSE(is_minor_next_to(with_peak("cpu", -1, 3 * kGib), gpu)) << "it is the story";
}

TEST(MinorDevices, a_host_that_trains_while_a_gpu_holds_little_is_not_minor) {
  const DeviceReport host = with_peak("cpu", -1, 800 * kMib);
  EXPECT_FALSE(is_minor_next_to(host, with_peak("cuda", 0, 8 * kMib)));
  EXPECT_FALSE(is_minor_next_to(host, with_peak("cuda", 0, 0)));
  EXPECT_FALSE(is_minor_next_to(host, with_peak("pinned_host", -2, 900 * kMib)));
}

TEST(MinorDevices, a_gpu_is_minor_next_to_one_with_fifty_times_as_much) {
  const DeviceReport gpu = with_peak("cuda", 0, 8 * kGib);
  EXPECT_TRUE(is_minor_next_to(with_peak("cuda", 1, 12), gpu));
  EXPECT_FALSE(is_minor_next_to(with_peak("cuda", 1, 200 * kMib), gpu));
  EXPECT_FALSE(is_minor_next_to(gpu, with_peak("cpu", -1, 900 * kGib)));
}

}  // namespace
}  // namespace plimsoll::report

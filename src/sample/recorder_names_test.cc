#include "base/recorder_names.h"

#include <gtest/gtest.h>

#include "base/categories.h"
#include "plimsoll/recorder_c.h"

namespace plimsoll::sample {
namespace {

TEST(RecorderNames, have_the_numbers_of_the_recorder) {
  EXPECT_EQ(base::kPhaseNames[PLIMSOLL_PHASE_OTHER], "other");
  EXPECT_EQ(base::phase_of(PLIMSOLL_PHASE_FORWARD), base::Phase::kForward);
  EXPECT_EQ(base::phase_of(PLIMSOLL_PHASE_BACKWARD), base::Phase::kBackward);
  EXPECT_EQ(base::phase_of(PLIMSOLL_PHASE_OPTIMIZER), base::Phase::kOptimizer);
  EXPECT_EQ(base::phase_of(PLIMSOLL_PHASE_DATA), base::Phase::kData);
  EXPECT_EQ(base::kPhaseNames.size(), std::size_t{PLIMSOLL_PHASE_DATA} + 1);

  EXPECT_EQ(base::autograd_of(PLIMSOLL_AUTOGRAD_UNKNOWN), base::Autograd::kUnknown);
  EXPECT_EQ(base::autograd_of(PLIMSOLL_AUTOGRAD_OFF), base::Autograd::kOff);
  EXPECT_EQ(base::autograd_of(PLIMSOLL_AUTOGRAD_ON), base::Autograd::kOn);
  EXPECT_EQ(base::autograd_of(PLIMSOLL_AUTOGRAD_BUILT), base::Autograd::kBuilt);
  EXPECT_EQ(base::kAutogradNames.size(), std::size_t{PLIMSOLL_AUTOGRAD_BUILT} + 1);

  EXPECT_EQ(base::device_type_of(PLIMSOLL_DEVICE_CPU), base::DeviceType::kCpu);
  EXPECT_EQ(base::device_type_of(PLIMSOLL_DEVICE_CUDA), base::DeviceType::kCuda);
  EXPECT_EQ(base::device_type_of(PLIMSOLL_DEVICE_HIP), base::DeviceType::kHip);
  EXPECT_EQ(base::device_type_of(PLIMSOLL_DEVICE_XPU), base::DeviceType::kXpu);
  EXPECT_EQ(base::device_type_of(PLIMSOLL_DEVICE_PINNED_HOST), base::DeviceType::kPinnedHost);
  EXPECT_EQ(base::device_type_of(PLIMSOLL_DEVICE_OTHER), base::DeviceType::kOther);
  EXPECT_EQ(base::device_type_of(PLIMSOLL_DEVICE_MTIA), base::DeviceType::kMtia);
  EXPECT_EQ(base::device_type_of(PLIMSOLL_DEVICE_NPU), base::DeviceType::kNpu);
  EXPECT_EQ(base::device_type_of(PLIMSOLL_DEVICE_HPU), base::DeviceType::kHpu);
  EXPECT_EQ(base::device_type_of(PLIMSOLL_DEVICE_MPS), base::DeviceType::kMps);
  EXPECT_EQ(base::kDeviceTypeNames.size(), std::size_t{PLIMSOLL_DEVICE_MPS} + 1);

  EXPECT_EQ(base::kRoleNames[PLIMSOLL_ROLE_KNOWN], "known");
  EXPECT_EQ(base::kRoleNames.size(), std::size_t{PLIMSOLL_ROLE_ACTIVATION} + 1);
}

TEST(RecorderNames, take_numbers_of_later_versions) {
  EXPECT_EQ(base::phase_of(200), base::Phase::kOther);
  EXPECT_EQ(base::autograd_of(200), base::Autograd::kUnknown);
  EXPECT_EQ(base::device_type_of(200), base::DeviceType::kOther);
  EXPECT_EQ(base::category_of({.role = 200}), base::Category::kOther);
}

TEST(RecorderNames, name_devices) {
  EXPECT_EQ(base::device_name(base::DeviceType::kCuda, 1), "cuda:1");
  EXPECT_EQ(base::device_name(base::DeviceType::kCpu, -1), "cpu");
  EXPECT_EQ(base::device_name(base::DeviceType::kPinnedHost, 0), "pinned_host");
}

TEST(Categories, of_roles_have_the_names_of_the_roles) {
  for (std::uint8_t role = PLIMSOLL_ROLE_PARAMETER; role <= PLIMSOLL_ROLE_ACTIVATION; ++role) {
    EXPECT_EQ(name_of(base::category_of({.role = role})), base::kRoleNames[role]);
  }
}

}  // namespace
}  // namespace plimsoll::sample

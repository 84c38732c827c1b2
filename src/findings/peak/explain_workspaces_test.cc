#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "findings/peak/peak.h"
#include "findings/rules.h"
#include "tests/support/own_case.h"

namespace plimsoll::findings {
namespace {

using model::Phase;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

void with_workspaces(Case& c, std::size_t count, std::uint64_t parameters_mib) {
  c.maker.alloc_reported(1000, parameters_mib * kMib, {.category = "parameter"});
  for (std::size_t i = 1; i <= count; ++i) {
    c.maker.alloc_reported(i, 32 * kMib,
                           {.category = "workspace", .phase = Phase::kForward, .op = "aten::mm"});
  }
}

TEST(ExplainWorkspaces, of_many_streams_are_reported_with_what_a_smaller_size_saves) {
  Case c;
  with_workspaces(c, 16, 1024);
  const auto found = c.run(explain_workspaces);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].id, "library_workspaces");
  EXPECT_EQ(found[0].title,
            "Library workspaces fill 33.3% of the peak on cuda:0: 512.0 MiB of 1.5 GiB in 16 "
            "blocks");
  EXPECT_EQ(found[0].evidence[0], "Their sizes are 16 × 32.0 MiB.");
  EXPECT_EQ(found[0].saving_bytes(), kMib * 16 * 24);
}

TEST(ExplainWorkspaces, below_the_thresholds_are_not_reported) {
  Case few, small, share;
  with_workspaces(few, 3, 1);
  EXPECT_THAT(few.run(explain_workspaces), IsEmpty()) << "three are the least";
  with_workspaces(small, 7, 1);
  EXPECT_THAT(small.run(explain_workspaces), IsEmpty()) << "below 256 MiB";
  with_workspaces(share, 10, 2881);
  EXPECT_THAT(share.run(explain_workspaces), IsEmpty()) << "below a tenth";
}

// At the peak, a convolution has requested `mib` in addition to 100 MiB of parameters.
Findings with_convolution(std::string_view category, std::string_view op, std::uint64_t mib,
                          model::Device device = {}) {
  Case c;
  c.maker.on(device);
  const model::StackId line =
      category == "workspace" ? model::kNoStack : c.maker.stack({{"/u/net.py", 10, "Net.forward"}});
  c.maker.alloc_reported(1, 100 * kMib, {.category = "parameter"});
  c.maker.alloc_reported(2, mib * kMib,
                         {.category = category,
                          .phase = Phase::kForward,
                          .op = op,
                          .flags = model::LifetimeFlags::kTemporary,
                          .stack = line});
  c.peak_at_event = 1;
  c.maker.free(2, mib * kMib);
  return c.run(explain_workspaces);
}

TEST(ExplainWorkspaces, of_cudnn_name_the_operator_and_benchmark) {
  const auto found = with_convolution("workspace", "aten::cudnn_convolution", 900);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].id, "library_workspaces");
  EXPECT_EQ(found[0].title,
            "Workspaces of cuDNN fill 90.0% of the peak on cuda:0: 900.0 MiB of 1000.0 MiB "
            "requested by aten::cudnn_convolution");
  EXPECT_THAT(found[0].next_step(), HasSubstr("torch.backends.cudnn.benchmark = False"));
}

TEST(ExplainWorkspaces, of_older_recordings_have_a_line) {
  const auto found = with_convolution("temporary", "aten::convolution_backward", 900);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].id, "one_line_dominates");
  EXPECT_THAT(found[0].title,
              HasSubstr("aten::convolution_backward at /u/net.py:10 (Net.forward)"));
}

TEST(ExplainWorkspaces, of_a_convolution_on_the_cpu_are_not_cudnns) {
  EXPECT_THAT(with_convolution("temporary", "aten::convolution_backward", 900,
                               {model::DeviceType::kCpu, -1}),
              IsEmpty());
}

TEST(ExplainWorkspaces, other_temporaries_and_small_ones_are_not_cudnns) {
  EXPECT_THAT(with_convolution("temporary", "aten::cat", 900), IsEmpty());
  EXPECT_THAT(with_convolution("activation", "aten::cudnn_convolution", 900), IsEmpty());
  EXPECT_THAT(with_convolution("workspace", "aten::cudnn_convolution", 60), IsEmpty());
}

}  // namespace
}  // namespace plimsoll::findings

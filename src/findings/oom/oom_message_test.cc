// What the finding about a printed message concludes and advises. tests/e2e/test_oom_verdicts.py
// has the verdict for each form of a message.
#include "findings/oom/oom_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/steps_text.h"
#include "tests/support/units.h"

namespace plimsoll::findings {
namespace {

using model::DeviceType;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using tests::kGib;

model::OomMessage message_of(DeviceType type) {
  model::OomMessage message;
  message.device = {type, type == DeviceType::kCpu ? -1 : 0};
  message.requested_bytes = 4 * kGib;
  return message;
}

// A device of 80 GiB, 14 GiB of it reserved.
model::OomMessage on_cuda() {
  model::OomMessage message = message_of(DeviceType::kCuda);
  message.total_bytes = 80 * kGib;
  message.free_bytes = 0;
  message.allocated_bytes = 7 * kGib;
  message.reserved_bytes = 14 * kGib;
  return message;
}

TEST(OomMessageFinding, contiguous_memory_helps_at_a_limit_if_enough_is_unused) {
  model::OomMessage message = on_cuda();
  message.free_bytes = 60 * kGib;
  message.limit_bytes = 17 * kGib;
  const report::Finding finding = explain_message(message, "", 1);
  EXPECT_THAT(finding.title, HasSubstr("may hold 17.0 GiB, of which 7.0 GiB were reserved and "
                                       "unused, and requested 4.0 GiB more"));
  EXPECT_THAT(steps_text(finding), AllOf(StartsWith("Set PYTORCH_CUDA_ALLOC_CONF"),
                                         HasSubstr(" | Raise the limit that the program sets")));
  message.allocated_bytes = 11 * kGib;
  EXPECT_THAT(steps_text(explain_message(message, "", 1)), StartsWith("Raise the limit"));
}

TEST(OomMessageFinding, only_a_named_line_is_called_that_line) {
  for (model::OomMessage message : {on_cuda(), message_of(DeviceType::kCpu)}) {
    message.requested_bytes = 90 * kGib;
    EXPECT_THAT(steps_text(explain_message(message, "a.py:1 (f)", 1)), HasSubstr("ake that line"));
    EXPECT_THAT(steps_text(explain_message(message, "", 1)),
                AllOf(HasSubstr("equest less at a time"), Not(HasSubstr("line"))));
  }
}

TEST(OomMessageFinding, recording_is_advised_only_where_it_is_supported) {
  const auto step = [](DeviceType type, bool is_from_windows) {
    model::OomMessage message = message_of(type);
    message.is_from_windows = is_from_windows;
    const report::Finding finding = explain_message(message, "", 1);
    return steps_text(finding) + finding.evidence.back();
  };
  for (const DeviceType type : {DeviceType::kCuda, DeviceType::kCpu}) {
    EXPECT_THAT(step(type, false), HasSubstr("plimsoll run SCRIPT"));
  }
  for (const DeviceType type : {DeviceType::kHip, DeviceType::kXpu, DeviceType::kNpu}) {
    EXPECT_THAT(step(type, false), HasSubstr("memory._dump_snapshot(PATH)"));
  }
  EXPECT_THAT(step(DeviceType::kCuda, true), HasSubstr("memory._dump_snapshot(PATH)"));
  EXPECT_THAT(step(DeviceType::kMps, false), HasSubstr("does not record MPS."));
  EXPECT_THAT(step(DeviceType::kCpu, true),
              AllOf(HasSubstr("does not record on Windows."), Not(HasSubstr("free -h"))));
}

TEST(OomMessageFinding, expandable_segments_may_be_missing_on_windows) {
  model::OomMessage message = on_cuda();
  message.total_bytes = 14 * kGib;
  const auto of_windows = HasSubstr("on Windows");
  EXPECT_THAT(steps_text(explain_message(message, "", 1)),
              AllOf(HasSubstr("expandable_segments:True"), Not(of_windows)));
  message.is_from_windows = true;
  EXPECT_THAT(steps_text(explain_message(message, "", 1)), of_windows);
}

// A log of a laptop: 22.4 GiB allocated on a card of 8 GiB.
TEST(OomMessageFinding, tensors_above_the_size_of_the_device_are_spilled) {
  model::OomMessage message = on_cuda();
  message.total_bytes = 8 * kGib;
  message.allocated_bytes = 22 * kGib + 2 * kGib / 5;
  message.reserved_bytes = 23 * kGib;
  message.process_bytes = 24 * kGib;
  const report::Finding finding = explain_message(message, "", 1);
  EXPECT_THAT(finding.title, HasSubstr("22.4 GiB in tensors on a device of 8.0 GiB: the driver "
                                       "spilled 14.4 GiB or more to the host's memory"));
  EXPECT_THAT(steps_text(finding), HasSubstr("Sysmem Fallback"));
  message.allocated_bytes = 8 * kGib;
  EXPECT_THAT(explain_message(message, "", 1).title, Not(HasSubstr("spilled")));
}

TEST(OomMessageFinding, a_known_text_is_explained_by_its_table) {
  model::OomMessage message = message_of(DeviceType::kCpu);
  message.known = {"Ray killed workers", "Why.", "the line", {"First.", "Second."}};
  const report::Finding finding = explain_message(message, "a.py:1 (f)", 2);
  EXPECT_EQ(finding.title, "Ray killed workers");
  EXPECT_EQ(steps_text(finding), "First. | Second.");
  EXPECT_THAT(finding.evidence,
              testing::ElementsAre("Why.", "The log: \"the line\"", HasSubstr("a.py:1 (f)"),
                                   HasSubstr("2 messages")));
}

}  // namespace
}  // namespace plimsoll::findings

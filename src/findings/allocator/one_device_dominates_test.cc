// One device that holds far more memory than the others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>

#include "findings/rules.h"
#include "tests/support/trace_maker.h"
#include "tests/support/units.h"

namespace plimsoll::findings {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using tests::FrameText;
using tests::kGib;

constexpr FrameText kLogits{"/u/model.py", 88, "forward"};

struct Allocated {
  std::uint64_t gib;
  model::StackId stack;
};

class OneDevice : public testing::Test {
 protected:
  // The live memory of a device at the end, which is its peak.
  void device(std::int32_t ordinal, std::initializer_list<Allocated> live) {
    maker_.on(model::Device{model::DeviceType::kCuda, ordinal});
    report::DeviceReport row;
    row.device = ordinal;
    row.device_type = "cuda";
    std::uint64_t address = 0;
    for (const Allocated& each : live) {
      address += kGib << 8;
      maker_.alloc_reported(address, each.gib * kGib,
                            {.category = "activation", .stack = each.stack});
      row.requested_active.peak_bytes += static_cast<std::int64_t>(each.gib * kGib);
    }
    if (live.size() > 0) row.requested_active.peak_event = live.size() - 1;
    report_.devices.push_back(row);
  }
  Findings run() {
    const model::Trace trace = maker_.finish();
    const model::UserLines lines(trace);
    const Options options;
    const Facts facts{trace, lines, report_, options, allocator_conf(trace)};
    return one_device_dominates(facts);
  }

  tests::TraceMaker maker_;
  report::Report report_;
  model::StackId logits_ = maker_.stack({kLogits, {"/u/train.py", 9, "main"}});
  model::StackId layer_ =
      maker_.stack({{"/u/model.py", 40, "forward"}, {"/u/train.py", 9, "main"}});
};

TEST_F(OneDevice, with_most_memory_is_named_with_the_line_of_most_of_it) {
  device(0, {{6, layer_}, {2, logits_}});
  device(1, {{14, layer_}, {64, logits_}});
  device(2, {{18, layer_}, {2, logits_}});
  device(3, {});
  const Findings found = run();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].severity, report::FindingSeverity::kInfo);
  EXPECT_EQ(found[0].title,
            "cuda:1 holds 78.0 GiB at its peak, far more than the others: cuda:2 20.0 GiB, cuda:0 "
            "8.0 GiB");
  EXPECT_THAT(found[0].evidence,
              Contains("What cuda:1 holds more of than any other at its peak: activation 62.0 GiB "
                       "at /u/model.py:88 (forward)."));
  EXPECT_THAT(found[0].next_step(), HasSubstr("what /u/model.py:88 (forward) works on"));
}

TEST_F(OneDevice, of_data_parallel_is_named_with_the_replacement) {
  const auto gathered =
      maker_.stack({{"/x/site-packages/torch/nn/parallel/scatter_gather.py", 90, "gather"},
                    {"/x/site-packages/torch/nn/parallel/data_parallel.py", 190, "forward"},
                    {"/u/train.py", 9, "main"}});
  const auto scattered =
      maker_.stack({{"/x/site-packages/torch/nn/parallel/data_parallel.py", 180, "forward"},
                    {"/u/train.py", 9, "main"}});
  device(0, {{6, layer_}, {10, gathered}});
  device(1, {{6, layer_}, {1, scattered}});
  const Findings found = run();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].next_step(), HasSubstr("DistributedDataParallel"));
}

TEST_F(OneDevice, with_more_of_the_model_should_move_parts_of_it) {
  device(0, {{6, layer_}});
  maker_.alloc_reported(1, 20 * kGib, {.category = "parameter", .stack = layer_});
  report_.devices[0].requested_active.peak_bytes += static_cast<std::int64_t>(20 * kGib);
  report_.devices[0].requested_active.peak_event = 1;
  device(1, {{6, layer_}});
  const Findings found = run();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].next_step(), HasSubstr("Move layers of the model from cuda:0"));
}

TEST_F(OneDevice, stages_of_a_pipeline_may_differ) {
  device(0, {{10, layer_}});
  device(1, {{19, layer_}});
  EXPECT_THAT(run(), IsEmpty());
}

TEST_F(OneDevice, alone_or_next_to_idle_devices_is_not_a_finding) {
  device(0, {{40, layer_}});
  device(1, {});
  device(2, {{0, layer_}});
  EXPECT_THAT(run(), IsEmpty());
}

TEST_F(OneDevice, that_runs_different_lines_is_not_a_finding) {
  const auto reward = maker_.stack({{"/u/reward.py", 3, "score"}});
  device(0, {{40, layer_}});
  device(1, {{4, reward}});
  EXPECT_THAT(run(), IsEmpty());
}

}  // namespace
}  // namespace plimsoll::findings

// Programs in which no backward runs get no advice that assumes training.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "findings/peak/peak.h"
#include "tests/support/own_case.h"

namespace plimsoll::findings {
namespace {

using model::Phase;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// Two layers of a forward, and what happens to their memory.
Case forward_of(std::uint64_t mib, bool is_freed) {
  Case c;
  const auto of_layer = [](std::string_view layer) {
    return tests::Reported{.layer = layer,
                           .category = "activation",
                           .phase = Phase::kForward,
                           .autograd = model::Autograd::kBuilt};
  };
  c.maker.alloc_reported(1, mib * kMib, of_layer("Net.a"));
  c.maker.alloc_reported(2, mib * kMib, of_layer("Net.b"));
  if (is_freed) c.maker.free(1, mib * kMib).free(2, mib * kMib);
  for (const char* path : {"Net", "Net.a", "Net.b"}) {
    report::LayerRow row;
    row.layer = path;
    row.inclusive.activation_bytes = std::string_view(path) == "Net" ? 2 * mib * kMib : mib * kMib;
    c.report.tables.layers.push_back(row);
  }
  c.peak_phase = "forward";
  c.peak_layer = "Net.b";
  c.peak_at_event = 1;
  return c;
}

TEST(ForwardOnly, activations_are_of_note_from_16_mib_on_and_are_not_checkpointed) {
  EXPECT_THAT(forward_of(7, true).run(explain_activations), IsEmpty());
  const auto found = forward_of(8, true).run(explain_activations);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].next_step(), "Use a smaller batch.");
  EXPECT_EQ(found[0].saving_bytes(), 0u);
}

TEST(ForwardOnly, keys_and_values_that_cat_makes_longer_are_to_be_allocated_once) {
  Case c;
  const auto stack = c.maker.stack({{"decoder.py", 12, "Layer.forward"}});
  const auto add = [&](std::uint64_t address, std::uint64_t mib) {
    c.maker.alloc_reported(address, mib * kMib,
                           {.layer = "Net.layer",
                            .category = "activation",
                            .phase = Phase::kForward,
                            .op = "aten::cat",
                            .stack = stack,
                            .autograd = model::Autograd::kOff});
  };
  constexpr std::uint64_t kTokens = 10;
  for (std::uint64_t token = 1; token <= kTokens; ++token) {
    for (const std::uint64_t each : {0u, 1u}) add(2 * token + each, token);
    if (token == 1 || token == kTokens) continue;  // the old ones are live while the new ones are
    for (const std::uint64_t each : {0u, 1u}) {
      c.maker.free_immediately(2 * token - 2 + each, (token - 1) * kMib);
    }
  }
  c.peak_phase = "forward";
  const auto found = c.run(explain_activations);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].next_step(),
              HasSubstr("Allocate the tensor at decoder.py:12 (Layer.forward) once, in its final "
                        "size"));
  EXPECT_EQ(found[0].saving_bytes(), 2 * (kTokens - 1) * kMib);
}

TEST(ForwardOnly, a_recording_that_ends_before_its_first_backward_keeps_the_advice) {
  const auto found = forward_of(3, false).run(explain_activations);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].next_step(), HasSubstr("torch.utils.checkpoint"));
}

TEST(ForwardOnly, a_forward_that_ran_out_of_memory_keeps_the_advice) {
  Case c = forward_of(3, true);
  c.report.devices.resize(1);
  c.report.devices[0].oom_details.resize(1);
  const auto found = c.run(explain_activations);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].next_step(), HasSubstr("torch.utils.checkpoint"));
}

TEST(ForwardOnly, a_program_that_trains_keeps_the_advice_for_every_forward) {
  Case c = forward_of(3, true);
  c.maker.begin_backward();
  c.maker.alloc_reported(9, 1, {.category = "gradient", .phase = Phase::kBackward});
  EXPECT_THAT(c.run(explain_activations), SizeIs(1));
}

}  // namespace
}  // namespace plimsoll::findings

#include "alerts/held_by.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::alerts {
namespace {

using testing::ElementsAre;

MemoryAlert growth() {
  MemoryAlert alert;
  alert.id = "activations_stay";
  alert.subject = "activation";
  alert.title = "Activations on cpu keep growing";
  alert.steps = {{"Detach what is kept.", 4096, true}};
  return alert;
}

TEST(HeldBy, is_asked_only_about_tensors_that_the_program_keeps) {
  MemoryAlert alert = growth();
  EXPECT_TRUE(is_about_kept_tensors(alert));
  alert.id = "memory_growth";
  alert.subject = "";
  EXPECT_TRUE(is_about_kept_tensors(alert));
  for (const char* const subject :
       {"parameter", "buffer", "gradient", "optimizer_state", "peak", "workers", "process"}) {
    alert.subject = subject;
    EXPECT_FALSE(is_about_kept_tensors(alert)) << subject;
  }
  alert.id = "device_nearly_full";
  alert.subject = "";
  EXPECT_FALSE(is_about_kept_tensors(alert));
}

TEST(HeldBy, is_named_in_the_title_with_its_proof_and_its_edit) {
  HeldBy by;
  by.holder.path = "trainer.history";
  by.holder.type = "list";
  by.holder.length = 12;
  by.holder.chain = "trainer.history[*]";
  by.holder.count = 12;
  by.holder.bytes = by.holder.freed_bytes = 12288;
  by.holder.is_cut = true;
  by.edit = "Remove from trainer.history what is no longer needed.";
  MemoryAlert alert = growth();
  name_holder(by, alert);
  EXPECT_EQ(alert.title, "Activations on cpu keep growing, held by trainer.history");
  EXPECT_THAT(
      alert.evidence,
      ElementsAre("trainer.history, a list of 12, holds 12.0 KiB in 12 allocations. No other "
                  "reference keeps this memory: ending this one frees 12.0 KiB."));
  ASSERT_EQ(alert.steps.size(), 2u);
  EXPECT_EQ(alert.steps[0].text, by.edit);
  EXPECT_EQ(alert.steps[0].saving_bytes, 4096u);
  EXPECT_TRUE(alert.steps[0].is_upper_bound);
}

}  // namespace
}  // namespace plimsoll::alerts

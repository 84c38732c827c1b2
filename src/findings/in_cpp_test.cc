#include "findings/in_cpp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::findings {
namespace {

using testing::SizeIs;

TEST(InCpp, calls_of_python_become_those_of_libtorch) {
  EXPECT_EQ(
      in_cpp("Run it under torch.no_grad() or torch.inference_mode(): no activation is kept."),
      "Run it under torch::NoGradGuard or c10::InferenceMode: no activation is kept.");
  EXPECT_EQ(in_cpp("Use an optimizer without state, such as torch.optim.SGD. Or torch.cdist."),
            "Use an optimizer without state, such as torch::optim::SGD. Or torch::cdist.");
  EXPECT_EQ(in_cpp("Delete x in main (train.cc:4) after its last use (del x)."),
            "Delete x in main (train.cc:4) after its last use (x.reset()).");
  EXPECT_EQ(in_cpp("Call remove() on the handle of the hook, which weight.hooks keeps."),
            "Call remove_hook() with the number of the hook, which weight.hooks keeps.");
  EXPECT_EQ(in_cpp("Set kept to None after its last use."), "Set kept to {} after its last use.");
  EXPECT_EQ(in_cpp("/src/torch.cc:5 and libtorch.so allocate it."),
            "/src/torch.cc:5 and libtorch.so allocate it.");
}

TEST(InCpp, steps_that_only_python_has_are_removed) {
  report::Finding finding;
  finding.steps = {{"Pass fused=True to the optimizer if there is a fused kernel.", 8},
                   {"Store .item() values.", 5}};
  put_into_cpp(finding);
  ASSERT_THAT(finding.steps, SizeIs(1));
  EXPECT_EQ(finding.next_step(), "Store .item<double>() values.");
  EXPECT_EQ(finding.saving_bytes(), 5u);
}

}  // namespace
}  // namespace plimsoll::findings

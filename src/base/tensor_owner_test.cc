#include "base/tensor_owner.h"

#include <gtest/gtest.h>

#include <string>

namespace plimsoll::base {
namespace {

bool is_weight(std::string_view name) { return name == "net.fc.weight"; }

TEST(TensorOwner, is_found_for_each_kind_of_name) {
  using enum OwnedAs;
  EXPECT_EQ(tensor_owner("net.fc.weight", kParameterOrBuffer, is_weight), "net.fc");
  EXPECT_EQ(tensor_owner("net.fc.weight", kGradient, is_weight), "net.fc");
  EXPECT_EQ(tensor_owner("net.fc.weight.grad", kGradient, is_weight), "net.fc");
  EXPECT_EQ(tensor_owner("net.fc.weight.exp_avg", kOptimizerState, is_weight), "net.fc");
  EXPECT_EQ(tensor_owner("net.fc.weight.a.b", kOptimizerState, is_weight), "net.fc");
  EXPECT_EQ(tensor_owner("net.out.bias.exp_avg", kOptimizerState, is_weight), "net.out");
  EXPECT_EQ(tensor_owner("weight", kParameterOrBuffer, is_weight), "");
  EXPECT_EQ(tensor_owner("", kOptimizerState, is_weight), "");
}

TEST(TensorOwner, is_not_searched_deeper_than_modules_nest) {
  std::string name = "a";
  for (int i = 0; i < 100'000; ++i) name += ".a";
  int asked = 0;
  const auto count = [&](std::string_view) { return ++asked < 0; };
  static_cast<void>(tensor_owner(name, OwnedAs::kGradient, count));
  EXPECT_EQ(asked, 64);
}

TEST(TensorOwner, a_parameter_of_the_root_is_a_component) {
  EXPECT_EQ(component_of_parameter("GaussianModel._xyz"), "_xyz");
  EXPECT_EQ(component_of_parameter("Adam.f_rest"), "f_rest");
  EXPECT_EQ(component_of_parameter("Adam.f_rest[2]"), "f_rest");
  EXPECT_EQ(component_of_parameter("Adam.param_groups[0][3]"), "param_groups[0]");
  EXPECT_EQ(component_of_parameter("opacity"), "opacity");
  EXPECT_EQ(component_of_parameter("Net.conv1.weight"), "");
}

}  // namespace
}  // namespace plimsoll::base

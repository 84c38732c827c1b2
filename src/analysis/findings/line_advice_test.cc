// What a finding advises for a line with large tensors: only what fits the operator that makes
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/own_case.h"

namespace plimsoll::analysis::findings {
namespace {

using model::Phase;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr const char* kAttention = "scaled_dot_product_attention";
constexpr const char* kPairs = "torch.cdist";
constexpr const char* kOneHot = "one-hot";

struct Made {
  std::string_view op;
  std::string_view category = "activation";
  std::string_view forward_op = {};
  std::uint64_t operand_mib = 1;  // of the tensors that are live before
};

// The advice for a line that makes a tensor of 20 MiB.
std::string advice_of(const Made& made) {
  Case c;
  const auto stack = c.maker.stack({{"train.py", 7, "loss"}});
  c.maker.alloc_reported(1, made.operand_mib * kMib, {.category = "parameter"});
  c.maker.alloc_reported(2, 20 * kMib,
                         {.category = made.category,
                          .phase = Phase::kForward,
                          .op = made.op,
                          .forward_op = made.forward_op,
                          .stack = stack});
  const auto found = c.run(explain_line);
  return found.size() == 1 ? found[0].next_step : "";
}

TEST(LineAdvice, names_a_fused_operator_only_for_what_it_replaces) {
  const auto only = [](const char* name) {
    return [name](const std::string& advice) {
      for (const char* each : {kAttention, kPairs, kOneHot}) {
        const bool is_named = advice.find(each) != std::string::npos;
        if (is_named != (name != nullptr && std::string_view(name) == each)) return false;
      }
      return advice.find("train.py:7 (loss)") != std::string::npos;
    };
  };
  for (const char* op : {"aten::softmax", "aten::bmm", "aten::baddbmm", "SoftmaxBackward0"}) {
    EXPECT_PRED1(only(kAttention), advice_of({.op = op}));
  }
  EXPECT_PRED1(only(kPairs), advice_of({.op = "aten::sub"}));
  EXPECT_PRED1(only(nullptr), advice_of({.op = "aten::sub", .operand_mib = 20}));
  EXPECT_PRED1(only(kOneHot), advice_of({.op = "aten::one_hot", .category = "other"}));
  EXPECT_PRED1(only(nullptr), advice_of({.op = "aten::randn", .category = "other"}));
  for (const char* op : {"aten::cdist", "aten::lstm", "aten::log_softmax", "SliceBackward0"}) {
    EXPECT_PRED1(only(nullptr), advice_of({.op = op}));
  }
  EXPECT_PRED1(only(nullptr), advice_of({.op = "SoftmaxBackward0",
                                         .forward_op = "aten::scaled_dot_product_attention"}))
      << "it is in use";
}

TEST(LineAdvice, of_a_sparse_product_explains_its_dense_gradient) {
  EXPECT_THAT(advice_of({.op = "SparseAddmmBackward0", .category = "temporary"}),
              HasSubstr("dense gradient of its sparse matrix"));
}

// A convolution that a function of torch.func runs.
Findings of_transform(std::string_view file, std::string_view function) {
  Case c;
  c.maker.on({model::DeviceType::kCpu, -1});
  const auto stack = c.maker.stack(
      {{"jacobian.py", 4, "outputs"}, {file, 646, function}, {"jacobian.py", 9, "main"}});
  c.maker.alloc_reported(2, 20 * kMib,
                         {.category = "temporary",
                          .phase = Phase::kBackward,
                          .op = "ConvolutionBackward0",
                          .stack = stack});
  return c.run(what_fills_the_peak);
}

TEST(LineAdvice, of_torch_func_is_to_run_fewer_rows_at_a_time) {
  constexpr std::string_view kTransforms =
      "/venv/lib/python3.11/site-packages/torch/_functorch/eager_transforms.py";
  constexpr std::string_view kApis = "/venv/lib/python3.11/site-packages/torch/_functorch/apis.py";
  const auto jacobian = of_transform(kTransforms, "jacrev.<locals>.wrapper_fn");
  ASSERT_THAT(jacobian, SizeIs(1));
  EXPECT_THAT(jacobian[0].next_step,
              AllOf(HasSubstr("Pass chunk_size to torch.func.jacrev"), Not(HasSubstr("cudnn"))));
  EXPECT_THAT(of_transform(kApis, "vmap.<locals>.wrapped")[0].next_step,
              HasSubstr("Pass chunk_size to torch.func.vmap"));
  EXPECT_THAT(of_transform(kTransforms, "jacfwd.<locals>.wrapper_fn")[0].next_step,
              HasSubstr("torch.func.jacrev(…, chunk_size=…) in place of jacfwd"));
  EXPECT_THAT(of_transform(kTransforms, "_vjp_with_argnums")[0].next_step,
              Not(HasSubstr("chunk_size")));
}

}  // namespace
}  // namespace plimsoll::analysis::findings

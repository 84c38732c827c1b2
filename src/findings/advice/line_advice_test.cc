// What a finding advises for a line with large tensors: only what fits the operator that makes
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/own_case.h"
#include "tests/support/steps_text.h"

namespace plimsoll::findings {
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
  return found.size() == 1 ? steps_text(found[0]) : "";
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
  for (const char* op : {"aten::softmax", "aten::bmm"}) {
    EXPECT_PRED1(only(nullptr), advice_of({.op = op})) << "one alone may be anything";
  }
  EXPECT_PRED1(only(kPairs), advice_of({.op = "aten::sub"}));
  EXPECT_PRED1(only(nullptr), advice_of({.op = "aten::sub", .operand_mib = 20}));
  EXPECT_PRED1(only(kOneHot), advice_of({.op = "aten::one_hot", .category = "other"}));
  EXPECT_PRED1(only(nullptr), advice_of({.op = "aten::randn", .category = "other"}));
  for (const char* op : {"aten::cdist", "aten::lstm", "aten::log_softmax", "SliceBackward0"}) {
    EXPECT_PRED1(only(nullptr), advice_of({.op = op}));
  }
}

// A line that makes a tensor of 20 MiB from a tensor of 20 MiB that another line has made.
struct Read {
  std::string_view source_op;
  std::string_view op;
  std::string_view forward_op = {};
  std::uint32_t source_line = 6;
  std::uint64_t other_mib = 1;
  Phase phase = Phase::kForward;
  std::string_view category = "activation";
};

Findings of_read(const Read& read, Case c = {}) {
  c.maker.alloc_reported(1, read.other_mib * kMib, {.category = "parameter"});
  c.maker.alloc_reported(2, 20 * kMib,
                         {.category = "activation",
                          .phase = Phase::kForward,
                          .op = read.source_op,
                          .stack = c.maker.stack({{"train.py", read.source_line, "loss"}})});
  for (const std::uint64_t address : {3u, 4u}) {
    c.maker.alloc_reported(address, 20 * kMib,
                           {.category = read.category,
                            .phase = read.phase,
                            .op = read.op,
                            .forward_op = read.forward_op,
                            .stack = c.maker.stack({{"train.py", 7, "loss"}})});
  }
  Findings found;
  for (auto& each : c.run(explain_line)) {
    if (each.title.find("train.py:7 (loss)") != std::string::npos) found.push_back(each);
  }
  return found;
}

TEST(LineAdvice, names_what_replaces_the_line_before_too) {
  const auto advice = [](const Read& read) { return steps_text(of_read(read)[0]); };
  for (const char* product : {"aten::bmm", "aten::baddbmm"}) {
    EXPECT_THAT(advice({.source_op = product, .op = "aten::softmax"}), HasSubstr(kAttention));
  }
  EXPECT_THAT(advice({.source_op = "aten::bmm", .op = "aten::log_softmax"}),
              Not(HasSubstr(kAttention)));
  EXPECT_THAT(advice({.source_op = "aten::bmm",
                      .op = "SoftmaxBackward0",
                      .forward_op = "aten::scaled_dot_product_attention"}),
              Not(HasSubstr(kAttention)))
      << "it is in use";
  Case dropout;
  dropout.maker.on({model::DeviceType::kCpu, -1});
  dropout.maker.alloc_reported(5, 20 * kMib,
                               {.category = "activation",
                                .phase = Phase::kForward,
                                .op = "aten::dropout",
                                .stack = dropout.maker.stack({{"train.py", 8, "loss"}})});
  const Read attention = {.source_op = "aten::bmm", .op = "aten::softmax"};
  EXPECT_THAT(steps_text(of_read(attention, std::move(dropout))[0]), Not(HasSubstr(kAttention)))
      << "on the CPU, with dropout it stores the scores too";

  EXPECT_THAT(advice({.source_op = "aten::sub", .op = "PowBackward0", .forward_op = "aten::pow"}),
              HasSubstr(kPairs));
  EXPECT_THAT(advice({.source_op = "aten::sub",
                      .op = "LinalgVectorNormBackward0",
                      .forward_op = "aten::linalg_vector_norm"}),
              HasSubstr(kPairs));
  EXPECT_THAT(advice({.source_op = "aten::sub", .op = "aten::pow", .other_mib = 20}),
              Not(HasSubstr(kPairs)))
      << "an operand has the size of the result";
  EXPECT_THAT(advice({.source_op = "aten::add", .op = "aten::pow"}), Not(HasSubstr(kPairs)));

  EXPECT_THAT(advice({.source_op = "aten::one_hot", .op = "aten::to", .source_line = 7}),
              HasSubstr(kOneHot));
  EXPECT_THAT(advice({.source_op = "aten::one_hot", .op = "aten::to"}),
              Not(HasSubstr("train.py:7 (loss): use an index")));
}

TEST(LineAdvice, names_attention_of_many_layers_among_the_steps_for_activations) {
  Case c;
  for (std::uint64_t i = 0; i < 6; ++i) {
    for (const char* op : {"aten::bmm", "aten::softmax"}) {
      c.maker.alloc_reported(10 * i + (op[6] == 'b' ? 0 : 1), 4 * kMib,
                             {.layer = "Net." + std::to_string(i),
                              .category = "activation",
                              .phase = Phase::kForward,
                              .op = op,
                              .stack = c.maker.stack({{"net.py", 7, "Attention.forward"}})});
    }
  }
  const auto found = c.run(explain_activations);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].next_step(), AllOf(HasSubstr("net.py:7"), HasSubstr(kAttention)));
  EXPECT_EQ(found[0].saving_bytes(), 48 * kMib);
}

TEST(LineAdvice, of_chunks_gives_the_bytes_without_the_tensors) {
  const auto chunks = of_read({.source_op = "aten::linear", .op = "aten::add"});
  EXPECT_EQ(chunks[0].saving_bytes(), 40 * kMib);
  const auto pairs = of_read({.source_op = "aten::sub", .op = "aten::pow"});
  EXPECT_EQ(pairs[0].saving_bytes(), 60 * kMib) << "cdist does not store the differences either";
}

// A line makes two tensors of 20 MiB, and in backward two gradients, each 20 MiB. What it reads is
// as large only if `is_whole`.
std::uint64_t saving_of_chunks(bool is_whole) {
  Case c;
  const auto line = c.maker.stack({{"train.py", 7, "loss"}});
  const std::uint64_t input = is_whole ? 24 * kMib : kMib;
  const auto make = [&](std::uint64_t address, std::uint64_t size, Phase phase, auto stack) {
    const char* category = phase == Phase::kForward ? "activation" : "activation_gradient";
    c.maker.alloc_reported(address, size, {.category = category, .phase = phase, .stack = stack});
  };
  make(1, input, Phase::kForward, c.maker.stack({{"net.py", 2, "forward"}}));
  for (const std::uint64_t address : {2u, 3u}) make(address, 20 * kMib, Phase::kForward, line);
  c.maker.begin_backward();
  for (const std::uint64_t address : {4u, 5u}) make(address, 20 * kMib, Phase::kBackward, line);
  for (std::uint64_t address : {2u, 3u, 4u, 5u}) c.maker.free_immediately(address, 20 * kMib);
  c.peak_at_event = 4;
  for (const auto& found : c.run(explain_line)) {
    if (found.title.find("train.py:7") != std::string::npos) return found.saving_bytes();
  }
  return 0;
}

TEST(LineAdvice, of_chunks_keeps_the_gradient_of_what_the_line_reads) {
  EXPECT_EQ(saving_of_chunks(false), 80 * kMib);
  EXPECT_EQ(saving_of_chunks(true) * 2, 115 * kMib) << "a gradient and a sixteenth of the rest";
}

TEST(LineAdvice, of_temporaries_of_backward_is_a_checkpoint_for_what_forward_keeps) {
  for (const Phase phase : {Phase::kForward, Phase::kBackward}) {
    const auto found = of_read(
        {.source_op = "aten::linear", .op = "aten::add", .phase = phase, .category = "temporary"});
    EXPECT_EQ(steps_text(found[0]).find("checkpoint") != std::string::npos,
              phase == Phase::kBackward);
  }
}

TEST(LineAdvice, names_one_hot_tensors_of_another_line) {
  const auto found = of_read({.source_op = "aten::one_hot", .op = "aten::log_softmax"});
  EXPECT_THAT(steps_text(found[0]), HasSubstr("train.py:6 (loss): use an index"));
}

TEST(LineAdvice, of_a_sparse_product_explains_its_dense_gradient) {
  EXPECT_THAT(advice_of({.op = "SparseAddmmBackward0", .category = "temporary"}),
              HasSubstr("makes a dense gradient of it"));
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
  EXPECT_THAT(jacobian[0].next_step(),
              AllOf(HasSubstr("Pass chunk_size to torch.func.jacrev"), Not(HasSubstr("cudnn"))));
  EXPECT_THAT(of_transform(kApis, "vmap.<locals>.wrapped")[0].next_step(),
              HasSubstr("Pass chunk_size to torch.func.vmap"));
  EXPECT_THAT(of_transform(kTransforms, "jacfwd.<locals>.wrapper_fn")[0].next_step(),
              HasSubstr("torch.func.jacrev(…, chunk_size=…) in place of jacfwd"));
  EXPECT_THAT(of_transform(kTransforms, "_vjp_with_argnums")[0].next_step(),
              Not(HasSubstr("chunk_size")));
}

}  // namespace
}  // namespace plimsoll::findings

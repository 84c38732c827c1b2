// Tests the checkpoints that activations_dominate advises: for which layers, and how.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/own_case.h"
#include "tests/support/steps_text.h"

namespace plimsoll::findings {
namespace {

using model::Phase;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::SizeIs;

report::LayerRow kept_layer(std::string path, std::uint64_t saved_mib) {
  report::LayerRow row;
  row.layer = std::move(path);
  row.inclusive.saved_bytes = saved_mib * kMib;
  return row;
}

// A deep model: 24 equal layers, each of which keeps `mib` for backward, and a head.
Case deep_model(std::uint64_t mib) {
  Case c;
  c.maker.alloc_reported(1, 26 * mib * kMib, {.category = "activation", .phase = Phase::kForward});
  c.maker.alloc_reported(2, 10 * kMib, {.category = "parameter"});
  c.report.tables.layers = {kept_layer("Net", 26 * mib), kept_layer("Net.blocks", 24 * mib),
                            kept_layer("Net.head", 2 * mib)};
  for (int i = 0; i < 24; ++i) {
    c.report.tables.layers.push_back(kept_layer("Net.blocks." + std::to_string(i), mib));
  }
  report::SavedRow saved;
  saved.bytes = 26 * mib * kMib;
  c.report.tables.saved.push_back(saved);
  return c;
}

TEST(LayersToCheckpoint, equal_layers_count_together_and_are_named_as_a_range) {
  const auto found = deep_model(4).run(explain_activations);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].evidence, Contains("Net.blocks.0…23, Net.head hold 104.0 MiB of it; the "
                                          "largest 8.0 MiB."));
  EXPECT_THAT(found[0].next_step(), HasSubstr("Run Net.blocks.0…23, Net.head through"));
  EXPECT_EQ(found[0].saving_bytes(), 96 * kMib);
}

TEST(LayersToCheckpoint, equal_layers_alone_are_counted_with_their_size) {
  Case c = deep_model(4);
  c.report.tables.layers[2].inclusive.saved_bytes = kMib;
  const auto found = c.run(explain_activations);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].evidence, Contains("Net.blocks.0…23 hold 96.0 MiB of it: 24 × 4.0 MiB."));
  EXPECT_EQ(found[0].saving_bytes(), 92 * kMib);
}

TEST(LayersToCheckpoint, a_checkpoint_that_eval_mode_turns_off_is_named) {
  const auto step_if = [](int blocks) {  // that eval mode concerns
    Case c = deep_model(4);
    c.report.tables.layers[2].inclusive.saved_bytes = kMib;
    for (int i = 0; i < blocks; ++i) {
      const model::StringId path = c.maker.string("Net.blocks." + std::to_string(i));
      c.maker.builder().add_module({path, path, 0, true, true});
    }
    return c.run(explain_activations)[0].next_step();
  };
  EXPECT_THAT(step_if(23), HasSubstr("Run Net.blocks.0…23 through"));
  EXPECT_THAT(step_if(24),
              HasSubstr("Call train() on Net.blocks.0…23: their gradient_checkpointing is True"));
}

TEST(LayersToCheckpoint, what_cant_be_called_is_represented_by_the_layers_inside_it) {
  Case c = deep_model(4);
  c.report.tables.layers.resize(1);
  for (int i = 0; i < 6; ++i) {
    const std::string path = "Net.stage." + std::to_string(i);
    const model::StringId name = c.maker.string(path);
    c.maker.builder().add_module({.path = name, .type = name, .only_holds = true});
    c.report.tables.layers.push_back(kept_layer(path, 16));
    for (const char* block : {".0", ".1"}) {
      c.report.tables.layers.push_back(kept_layer(path + block, 8));
    }
  }
  c.report.tables.layers.push_back(kept_layer("Net.stage", 96));
  EXPECT_THAT(c.run(explain_activations)[0].next_step(),
              HasSubstr("Run Net.stage.0.0…1, Net.stage.1.0…1"));
}

TEST(LayersToCheckpoint, of_many_ranges_the_first_are_named) {
  Case c = deep_model(4);
  for (std::size_t i = 2; i < 24; i += 3) {
    c.report.tables.layers[3 + i].inclusive.saved_bytes = 0;
    for (std::size_t above = 0; above < 2; ++above) {
      c.report.tables.layers[above].inclusive.saved_bytes -= 4 * kMib;
    }
  }
  c.report.tables.layers[2].inclusive.saved_bytes = kMib;
  const auto found = c.run(explain_activations);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].next_step(),
              HasSubstr("Run Net.blocks.0…1, Net.blocks.3…4, Net.blocks.6…7, Net.blocks.9…10 and "
                        "4 more through"));
}

TEST(LayersToCheckpoint, a_layer_that_runs_through_checkpoint_is_not_advised_again) {
  Case c = deep_model(4);
  const auto stack =
      c.maker.stack({{"/u/net.py", 9, "forward"},
                     {"/x/site-packages/torch/utils/checkpoint.py", 488, "checkpoint"},
                     {"/u/train.py", 5, "main"}});
  for (int i = 0; i < 24; ++i) {
    c.maker.alloc_reported(100 + static_cast<std::uint64_t>(i), 1000,
                           {.layer = "Net.blocks." + std::to_string(i),
                            .category = "activation",
                            .phase = Phase::kForward,
                            .stack = stack});
  }
  const auto found = c.run(explain_activations);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].evidence, Contains("24 layers already run through torch.utils.checkpoint."));
  EXPECT_EQ(found[0].next_step(), "Use a smaller batch.");
  EXPECT_EQ(found[0].saving_bytes(), 0u);
}

TEST(LayersToCheckpoint, a_layer_of_one_operator_is_not_advised) {
  for (const char* second : {"aten::dropout", "aten::relu"}) {
    Case c = deep_model(4);
    for (int i = 0; i < 24; ++i) {
      for (const char* op : {"aten::dropout", second}) {
        c.maker.alloc_reported(100 + static_cast<std::uint64_t>(i), 1000,
                               {.layer = "Net.blocks." + std::to_string(i),
                                .category = "activation",
                                .phase = Phase::kForward,
                                .op = op});
      }
    }
    const auto found = c.run(explain_activations);
    ASSERT_THAT(found, SizeIs(1));
    const bool is_single = std::string_view(second) == "aten::dropout";
    EXPECT_EQ(found[0].next_step() == "Use a smaller batch.", is_single);
  }
}

TEST(LayersToCheckpoint, the_advice_is_what_the_models_package_has) {
  const auto advice = [](const char* file, const char* function) {
    Case c = deep_model(4);
    const auto stack =
        c.maker.stack({{"/x/site-packages/torch/nn/modules/linear.py", 134, "Linear.forward"},
                       {file, 175, function},
                       {"/u/scale.py", 19, "step"}});
    c.maker.alloc_reported(9, 200 * kMib,
                           {.category = "activation", .phase = Phase::kForward, .stack = stack});
    const auto found = c.run(explain_activations);
    return found.at(0).next_step() + found.at(0).evidence.at(0);
  };
  EXPECT_THAT(advice("/x/site-packages/transformers/models/llama/modeling_llama.py", "M.forward"),
              AllOf(HasSubstr("Call model.gradient_checkpointing_enable() before training "
                              "(activation_checkpointing_enable() in later versions). "
                              "Backward then recomputes the activations inside these layers"),
                    HasSubstr("/u/scale.py:19 (step): 200.0 MiB, of which transformers/models/"
                              "llama/modeling_llama.py:175 (M.forward) creates 200.0 MiB.")));
  EXPECT_THAT(advice("C:\\py\\Lib\\site-packages\\timm\\models\\vit.py", "Block.forward"),
              HasSubstr("model.set_grad_checkpointing()"));
  EXPECT_THAT(advice("/x/site-packages/torch/distributed/fsdp/fully_sharded_data_parallel.py",
                     "FullyShardedDataParallel.forward"),
              HasSubstr("apply_activation_checkpointing("));
  EXPECT_THAT(advice("/x/site-packages/lightning/pytorch/strategies/fsdp.py", "training_step"),
              HasSubstr("FSDPStrategy"));
  EXPECT_THAT(advice("/u/transformers/models/mine.py", "M.forward"),
              HasSubstr("torch.utils.checkpoint.checkpoint("))
      << "the program's own folder";
}

// Four layers, each of which keeps `mib` MiB and an output of 2 MiB.
void four_layers(Case& c, std::uint64_t first, std::uint64_t mib) {
  for (std::uint64_t i = 0; i < 4; ++i) {
    const std::string name = "Net." + std::to_string(i);
    for (std::uint64_t j = 0; j < 2; ++j) {
      c.maker.alloc_reported(first + 2 * i + j, (j == 0 ? mib : 2) * kMib,
                             {.layer = name, .category = "activation", .phase = Phase::kForward});
    }
  }
}

// A peak in a forward that no backward follows.
Findings without_backward(bool is_out_of_memory) {
  Case c;
  four_layers(c, 1, 2);
  c.maker.begin_backward();
  for (std::uint64_t i = 1; i <= 8; ++i) c.maker.free(i, 2 * kMib);
  c.maker.end_backward();
  four_layers(c, 101, 8);
  c.peak_phase = "forward";
  c.report.tables.saved.push_back({});
  c.report.tables.saved[0].bytes = 16 * kMib;
  c.report.tables.layers = {kept_layer("Net", 16)};
  for (int i = 0; i < 4; ++i) {
    c.report.tables.layers.push_back(kept_layer("Net." + std::to_string(i), 4));
    c.report.tables.layers.back().inclusive.activation_bytes = 10 * kMib;
  }
  c.report.tables.layers[0].inclusive.activation_bytes = 40 * kMib;
  c.report.devices.resize(1);
  if (is_out_of_memory) c.report.devices[0].oom_details.emplace_back();
  return c.run(explain_activations);
}

TEST(LayersToCheckpoint, a_forward_that_ran_out_of_memory_counts_as_if_its_backward_followed) {
  const auto evaluation = without_backward(false);
  ASSERT_THAT(evaluation, SizeIs(1));
  EXPECT_EQ(evaluation[0].saving_bytes(), 0u);
  const auto found = without_backward(true);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].evidence, Contains("Net.0…3 hold 40.0 MiB of it: 4 × 10.0 MiB."));
  EXPECT_EQ(found[0].saving_bytes(), (40 - 3 * 2 - 10) * kMib) << "three outputs and a whole layer";
}

TEST(LayersToCheckpoint, bfloat16_is_advised_only_if_the_activations_are_known_to_be_float32) {
  const auto advice = [](const char* dtype) {
    Case c;
    const auto tensor = c.maker.tensor("", dtype);
    c.maker.alloc_reported(1, 60 * kMib,
                           {.category = "activation", .phase = Phase::kForward, .tensor = tensor});
    return steps_text(c.run(explain_activations).at(0));
  };
  EXPECT_THAT(advice("float32"),
              HasSubstr("Compute in bfloat16 (torch.autocast). | Use a smaller batch."));
  EXPECT_EQ(advice("bfloat16"), "Use a smaller batch.");
  EXPECT_EQ(advice(""), "Use a smaller batch.");
}

}  // namespace
}  // namespace plimsoll::findings

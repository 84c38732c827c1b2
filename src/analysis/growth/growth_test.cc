#include "analysis/growth/growth.h"

#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/run_pass.h"
#include "tests/support/trace_maker.h"

namespace plimsoll::analysis::growth {
namespace {

using report::GrowthRow;
using tests::TraceMaker;

report::Report run(const model::Trace& trace, const Options& options = {}) {
  return tests::run_passes(trace, tests::passes(make()), options);
}

// Training for `steps` steps; `body` adds the allocations under test. Every step ends in an
// optimizer step.
model::Trace train(int steps, const std::function<void(TraceMaker&, std::uint64_t step)>& body) {
  TraceMaker maker;
  for (std::uint64_t step = 0; step < static_cast<std::uint64_t>(steps); ++step) {
    maker.alloc(7, 5000).free(7, 5000);
    body(maker, step);
    maker.annotation("Optimizer.step#AdamW.step", maker.time_ns() - 500, maker.time_ns() - 1);
  }
  return maker.finish();
}

TEST(Growth, memory_kept_at_each_step_grows) {
  const auto trace = train(8, [](TraceMaker& maker, std::uint64_t step) {
    maker.alloc(1000 + step, 256, maker.stack({{"/train.py", 91, "step"}}));
  });
  const auto report = run(trace);
  ASSERT_EQ(report.tables.growth.size(), 1u);
  const GrowthRow& row = report.tables.growth[0];
  EXPECT_EQ(row.line, "/train.py:91 (step)");
  EXPECT_EQ(row.steps, 8u);
  EXPECT_EQ(row.first_bytes, 3 * 256);
  EXPECT_EQ(row.last_bytes, 8 * 256);
  EXPECT_DOUBLE_EQ(row.bytes_per_step, 256);
  EXPECT_DOUBLE_EQ(row.low_bytes_per_step, 256);
  EXPECT_EQ(row.grown_bytes, 8 * 256);
  EXPECT_TRUE(row.is_certain);
  EXPECT_EQ(row.boundary, "Optimizer.step#AdamW.step");
}

constexpr model::Device kPinned{model::DeviceType::kPinnedHost, -2};

// A GPU whose stacks show the optimizer's steps, and pinned memory with `pinned` allocations in
// all.
model::Trace with_pinned_memory(int steps, int pinned) {
  TraceMaker maker;
  const auto optimizer =
      maker.stack({{"/x/torch/optim/optimizer.py", 5, "wrapper"}, {"/home/u/train.py", 7, "main"}});
  const auto line = maker.stack({{"/home/u/data.py", 3, "load"}});
  for (int i = 0; i < steps; ++i) {
    const auto address = static_cast<std::uint64_t>(i) + 1000;
    maker.on(model::Device{}).alloc(1, 512, optimizer).free(1, 512).alloc(2, 512).free(2, 512);
    if (i < pinned) maker.on(kPinned).alloc(address, 1 << 20, line);
  }
  return maker.finish();
}

TEST(Growth, of_pinned_memory_is_judged_by_the_steps_of_the_gpu) {
  const auto report = run(with_pinned_memory(16, 16));
  ASSERT_EQ(report.tables.growth.size(), 1u);
  EXPECT_EQ(report.tables.growth[0].device, kPinned.ordinal);
  EXPECT_EQ(report.tables.growth[0].line, "/home/u/data.py:3 (load)");
  EXPECT_DOUBLE_EQ(report.tables.growth[0].bytes_per_step, 1 << 20);
  EXPECT_EQ(report.passes.at(0).reason, "");
}

TEST(Growth, a_device_that_cannot_be_judged_is_stated) {
  const auto report = run(with_pinned_memory(16, 2));
  EXPECT_TRUE(report.tables.growth.empty());
  EXPECT_EQ(report.passes.at(0).state, report::PassState::kRan);
  EXPECT_TRUE(report.passes.at(0).reason.starts_with("on pinned_host: no steps are marked"))
      << report.passes.at(0).reason;
}

TEST(Growth, optimizer_state_that_appears_and_stays_does_not_grow) {
  for (const std::uint64_t born : {0u, 1u, 2u, 4u}) {
    const auto trace = train(8, [&](TraceMaker& maker, std::uint64_t step) {
      if (step == born) maker.alloc(1000, 4096, maker.stack({{"/adam.py", 5, "init"}}));
    });
    EXPECT_TRUE(run(trace).tables.growth.empty());
  }
}

TEST(Growth, activations_live_at_some_boundaries_do_not_grow) {
  const std::uint64_t sizes[] = {300, 900, 100, 700, 200, 800, 400, 600, 500, 350};
  const auto trace = train(10, [&](TraceMaker& maker, std::uint64_t step) {
    if (step > 0) maker.free(1000, sizes[step - 1]);
    maker.alloc(1000, sizes[step], maker.stack({{"/model.py", 5, "forward"}}));
  });
  EXPECT_TRUE(run(trace).tables.growth.empty());
}

TEST(Growth, batches_that_get_larger_at_every_step_do_not_grow) {
  const auto trace = train(20, [](TraceMaker& maker, std::uint64_t step) {
    if (step > 0) maker.free(1000, step * 100);
    maker.alloc(1000, (step + 1) * 100, maker.stack({{"/data.py", 5, "next"}}));
  });
  EXPECT_TRUE(run(trace).tables.growth.empty());
}

// Each hook makes a new tensor at every step and frees the one from the step before.
TEST(Growth, hooks_registered_at_each_step_grow_although_tensors_are_replaced) {
  const auto trace = train(20, [](TraceMaker& maker, std::uint64_t step) {
    for (std::uint64_t hook = 0; hook <= step; ++hook) {
      const std::uint64_t old = 1000 + 2 * hook + step % 2, made = 1000 + 2 * hook + (step + 1) % 2;
      maker.alloc(made, 100, maker.stack({{"/train.py", 9, "hook"}}));
      if (hook < step) maker.free(old, 100);
    }
  });
  const auto report = run(trace);
  ASSERT_EQ(report.tables.growth.size(), 1u);
  EXPECT_EQ(report.tables.growth[0].line, "/train.py:9 (hook)");
  EXPECT_DOUBLE_EQ(report.tables.growth[0].bytes_per_step, 100);
}

// One line keeps an activation at every step. The gradient of the step before, which has the same
// size, is freed just afterwards, and one more tensor is replaced at the same line.
TEST(Growth, what_is_kept_is_named_not_what_is_freed_at_the_same_line) {
  for (const char* freed : {"gradient", "activation"}) {
    const auto trace = train(20, [&](TraceMaker& maker, std::uint64_t step) {
      const auto line = maker.stack({{"/train.py", 9, "step"}});
      maker.alloc_reported(1000 + step, 100,
                           {.layer = "Net.kept",
                            .category = "activation",
                            .phase = model::Phase::kForward,
                            .op = "aten::relu",
                            .stack = line});
      if (step > 0) maker.free(499 + step, 100);
      maker.alloc_reported(500 + step, 100,
                           {.layer = "Net.freed",
                            .category = freed,
                            .phase = model::Phase::kBackward,
                            .op = "aten::mm",
                            .stack = line});
    });
    const auto tables = run(trace).tables;
    ASSERT_EQ(tables.growth_by_category.size(), 1u) << freed;
    EXPECT_EQ(tables.growth_by_category[0].key, "activation");
    ASSERT_EQ(tables.growth_by_layer.size(), 1u) << freed;
    EXPECT_EQ(tables.growth_by_layer[0].key, "Net.kept");
    EXPECT_DOUBLE_EQ(tables.growth_by_layer[0].bytes_per_step, 100);
    EXPECT_EQ(tables.growth_by_layer[0].last_bytes, 20 * 100);
  }
}

// Each hook makes its tensor in a different layer from the one before; the tensor that is live at
// the end counts.
TEST(Growth, an_entry_has_the_layer_of_its_newest_tensor) {
  const auto trace = train(20, [](TraceMaker& maker, std::uint64_t step) {
    for (std::uint64_t hook = 0; hook <= step; ++hook) {
      const std::uint64_t old = 1000 + 2 * hook + step % 2, made = 1000 + 2 * hook + (step + 1) % 2;
      maker.alloc_reported(made, 100,
                           {.layer = hook < step ? "Net.later" : "Net.first",
                            .category = "activation",
                            .stack = maker.stack({{"/train.py", 9, "hook"}})});
      if (hook < step) maker.free(old, 100);
    }
  });
  const auto tables = run(trace).tables;
  ASSERT_EQ(tables.growth_by_layer.size(), 1u);
  EXPECT_EQ(tables.growth_by_layer[0].key, "Net.later");
}

// Each step builds a list that is longer by one; the previous list is freed once the new one is
// complete.
TEST(Growth, a_longer_list_rebuilt_at_each_step_does_not_grow) {
  const auto trace = train(20, [](TraceMaker& maker, std::uint64_t step) {
    const std::uint64_t first = 1000 + step % 2 * 500, before = 1000 + (step + 1) % 2 * 500;
    for (std::uint64_t i = 0; i <= step; ++i) {
      maker.alloc(first + i, 100, maker.stack({{"/train.py", 9, "unroll"}}));
    }
    for (std::uint64_t i = 0; i < step; ++i) maker.free(before + i, 100);
  });
  EXPECT_TRUE(run(trace).tables.growth.empty());
}

TEST(Growth, a_full_window_with_replaced_entries_does_not_grow) {
  const auto trace = train(40, [](TraceMaker& maker, std::uint64_t step) {
    const std::uint64_t entry = step % 10, round = step / 10;
    maker.alloc(1000 + 2 * entry + round % 2, 100, maker.stack({{"/train.py", 9, "put"}}));
    if (round > 0) maker.free(1000 + 2 * entry + (round + 1) % 2, 100);
  });
  EXPECT_TRUE(run(trace).tables.growth.empty());
}

TEST(Growth, memory_replacing_older_memory_of_another_line_does_not_grow) {
  for (const std::uint64_t old : {100u, 300u}) {
    const auto trace = train(20, [&](TraceMaker& maker, std::uint64_t step) {
      for (std::uint64_t i = 0; step == 0 && i < 30; ++i) {
        maker.alloc(500 + i, old, maker.stack({{"/train.py", 4, "fill"}}));
      }
      maker.alloc(1000 + step, 100, maker.stack({{"/train.py", 9, "step"}}));
      maker.free(500 + step, old);
    });
    EXPECT_TRUE(run(trace).tables.growth.empty()) << old;
  }
}

TEST(Growth, memory_that_is_freed_once_hides_no_leak) {
  const auto trace = train(20, [&](TraceMaker& maker, std::uint64_t step) {
    if (step == 0) maker.alloc(500, 100'000, maker.stack({{"/train.py", 4, "fill"}}));
    maker.alloc(1000 + step, 100, maker.stack({{"/train.py", 9, "step"}}));
    if (step == 12) maker.free(500, 100'000);
  });
  ASSERT_EQ(run(trace).tables.growth.size(), 1u);
  EXPECT_EQ(run(trace).tables.growth[0].line, "/train.py:9 (step)");
}

TEST(Growth, a_leak_alongside_a_larger_queue_is_found) {
  const auto trace = train(40, [&](TraceMaker& maker, std::uint64_t step) {
    maker.alloc(5000 + step, 2000, maker.stack({{"/train.py", 4, "push"}}));
    if (step >= 8) maker.free(5000 + step - 8, 2000);
    maker.alloc(1000 + step, 100, maker.stack({{"/train.py", 9, "step"}}));
  });
  ASSERT_EQ(run(trace).tables.growth.size(), 1u);
  EXPECT_EQ(run(trace).tables.growth[0].line, "/train.py:9 (step)");
}

TEST(Growth, a_leak_is_found_on_a_line_that_also_holds_larger_memory_of_varying_size) {
  const std::uint64_t sizes[] = {16'000, 48'000, 8'000, 30'000, 21'000, 44'000, 12'000};
  const auto trace = train(21, [&](TraceMaker& maker, std::uint64_t step) {
    const auto line = maker.stack({{"/train.py", 9, "step"}});
    if (step > 0) maker.free(500, sizes[(step - 1) % 7]);
    maker.alloc(500, sizes[step % 7], line);
    maker.alloc(1000 + step, 100, line);
  });
  const auto rows = run(trace).tables.growth;
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_DOUBLE_EQ(rows[0].bytes_per_step, 100);
  EXPECT_EQ(rows[0].grown_bytes, 21 * 100);
}

TEST(Growth, all_of_many_steps_are_counted_and_the_rate_is_per_step) {
  const auto trace = train(131, [](TraceMaker& maker, std::uint64_t step) {
    maker.alloc(1000 + step, 256, maker.stack({{"/train.py", 91, "step"}}));
  });
  const auto rows = run(trace).tables.growth;
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].steps, 131u);
  EXPECT_EQ(rows[0].steps_each, 2u);
  EXPECT_DOUBLE_EQ(rows[0].bytes_per_step, 256);
  EXPECT_EQ(rows[0].grown_bytes, 131 * 256);
}

TEST(Growth, a_second_model_in_the_middle_is_not_growth) {
  const auto trace = train(30, [](TraceMaker& maker, std::uint64_t step) {
    if (step != 15) return;
    for (std::uint64_t layer = 0; layer < 40; ++layer) {
      maker.alloc(1000 + layer, 4096, maker.stack({{"/model.py", 3, "init"}}));
    }
  });
  EXPECT_TRUE(run(trace).tables.growth.empty());
}

TEST(Growth, state_of_successively_unfrozen_parameters_does_not_grow) {
  for (const bool is_new_model : {false, true}) {
    const auto trace = train(24, [&](TraceMaker& maker, std::uint64_t step) {
      const auto weight = maker.tensor("Net." + std::to_string(step) + ".weight");
      const auto state = maker.tensor("Net." + std::to_string(step) + ".weight.exp_avg");
      if (step == 0 && !is_new_model) {
        for (std::uint64_t layer = 0; layer < 24; ++layer) {
          const auto each = maker.tensor("Net." + std::to_string(layer) + ".weight");
          maker.alloc_reported(1000 + layer, 64, {.category = "parameter", .tensor = each});
        }
      }
      if (is_new_model) {
        maker.alloc_reported(1000 + step, 64, {.category = "parameter", .tensor = weight});
      }
      maker.alloc_reported(2000 + step, 64, {.category = "gradient", .tensor = weight});
      maker.alloc_reported(3000 + step, 64, {.category = "optimizer_state", .tensor = state});
    });
    EXPECT_EQ(run(trace).tables.growth.empty(), !is_new_model);
  }
}

// A tensor of `first` bytes, to which every step appends `rest` bytes.
model::Trace appended(bool has_pieces, const char* op = "aten::cat") {
  return train(20, [=](TraceMaker& maker, std::uint64_t step) {
    const auto line = maker.stack({{"/train.py", 9, "step"}});
    const std::uint64_t before = 1000 + (step - 1) * 100, now = 1000 + step * 100;
    maker.alloc(50, has_pieces ? 100 : 99);
    maker.alloc_reported(100 + step, now, {.op = op, .stack = line});
    maker.free(50, has_pieces ? 100 : 99);
    if (step > 0) maker.free(99 + step, before);
  });
}

TEST(Growth, a_tensor_appended_to_at_every_step_grows_by_what_is_appended) {
  const auto rows = run(appended(true)).tables.growth;
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_TRUE(rows[0].is_appended);
  EXPECT_DOUBLE_EQ(rows[0].bytes_per_step, 100);
  EXPECT_EQ(rows[0].first_bytes, 1000 + 5 * 100);
  EXPECT_EQ(rows[0].last_bytes, 1000 + 19 * 100);
  EXPECT_EQ(rows[0].first_step, 6u);
}

// One line appends to the tensors of three layers in turn, 100, 200 and 300 bytes.
TEST(Growth, tensors_of_several_layers_appended_to_by_one_line_grow) {
  const auto trace = train(20, [](TraceMaker& maker, std::uint64_t step) {
    const auto line = maker.stack({{"/train.py", 9, "step"}});
    for (std::uint64_t layer = 1; layer <= 3; ++layer) {
      const std::uint64_t more = 100 * layer, place = 1000 * layer + step;
      maker.alloc(50, more);
      maker.alloc_reported(place, (step + 1) * more, {.op = "aten::cat", .stack = line});
      maker.free(50, more);
      if (step > 0) maker.free(place - 1, step * more);
    }
  });
  const auto rows = run(trace).tables.growth;
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_TRUE(rows[0].is_appended);
  EXPECT_DOUBLE_EQ(rows[0].bytes_per_step, 600);
  EXPECT_EQ(rows[0].last_bytes, 20 * 600);
}

// As in `bank = torch.cat([bank, keys.repeat(8, 1)])`, where repeat() resizes small tensors inside.
TEST(Growth, resizes_by_another_operator_of_the_line_hide_no_appended_tensor) {
  const auto trace = train(20, [](TraceMaker& maker, std::uint64_t step) {
    const auto line = maker.stack({{"/train.py", 9, "step"}});
    maker.alloc_reported(60, 16, {.op = "aten::resize_", .stack = line}).free(60, 16);
    maker.alloc(50, 100);
    maker.alloc_reported(1000 + step, (step + 1) * 100, {.op = "aten::cat", .stack = line});
    maker.free(50, 100);
    if (step > 0) maker.free(999 + step, step * 100);
  });
  const auto rows = run(trace).tables.growth;
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_DOUBLE_EQ(rows[0].bytes_per_step, 100);
}

// Every third step evaluates four batches and appends the features of each.
TEST(Growth, a_tensor_appended_to_by_each_batch_of_an_evaluation_grows) {
  std::uint64_t made = 0;
  const auto trace = train(48, [&](TraceMaker& maker, std::uint64_t step) {
    const auto line = maker.stack({{"/train.py", 9, "update"}});
    for (int batch = 0; step % 3 == 2 && batch < 4; ++batch) {
      maker.alloc(50, 100);
      ++made;
      maker.alloc_reported(100 + made, made * 100, {.op = "aten::cat", .stack = line});
      if (made > 1) maker.free(99 + made, (made - 1) * 100);
      maker.free(50, 100);
    }
  });
  const auto rows = run(trace).tables.growth;
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_TRUE(rows[0].is_appended);
  EXPECT_EQ(rows[0].last_bytes, 16 * 400);
}

TEST(Growth, a_tensor_padded_at_every_step_grows_by_what_is_appended) {
  const auto rows = run(appended(true, "aten::pad")).tables.growth;
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_DOUBLE_EQ(rows[0].bytes_per_step, 100);
}

// A batch of 60 fields, from 100 to 6,000 bytes, that one line makes at every step.
TEST(Growth, fields_of_a_batch_are_not_appended_to_those_of_the_one_before) {
  const auto trace = train(20, [](TraceMaker& maker, std::uint64_t step) {
    const auto line = maker.stack({{"/data.py", 9, "collate"}});
    for (std::uint64_t field = 1; field <= 60; ++field) {
      const std::uint64_t place = 10'000 * field + 3000 * (step % 2);
      maker.alloc_reported(place, 100 * field, {.op = "aten::cat", .stack = line});
    }
    if (step == 0) return;
    for (std::uint64_t field = 1; field <= 60; ++field) {
      maker.free(10'000 * field + 3000 * ((step - 1) % 2), 100 * field);
    }
  });
  EXPECT_TRUE(run(trace).tables.growth.empty());
}

TEST(Growth, a_longer_batch_at_every_step_is_not_appended_to_the_one_before) {
  EXPECT_TRUE(run(appended(false)).tables.growth.empty());
}

TEST(Growth, a_line_in_a_forward_is_named_with_the_line_that_calls_it) {
  const auto trace = train(8, [](TraceMaker& maker, std::uint64_t step) {
    maker.alloc(1000 + step, 256,
                maker.stack({{"/model.py", 12, "Block.forward"},
                             {"/model.py", 20, "Net.forward"},
                             {"/train.py", 40, "step"},
                             {"/train.py", 60, "main"}}));
    maker.alloc(2000 + step, 128, maker.stack({{"/train.py", 41, "step"}, {"/train.py", 60, "m"}}));
  });
  const auto rows = run(trace).tables.growth;
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].line, "/model.py:12 (Block.forward)");
  EXPECT_EQ(rows[0].caller, "/train.py:40 (step)");
  EXPECT_EQ(rows[1].caller, "");
}

TEST(Growth, memory_that_is_freed_before_the_boundary_does_not_count) {
  const auto trace = train(8, [](TraceMaker& maker, std::uint64_t step) {
    const auto stack = maker.stack({{"/model.py", 5, "forward"}});
    maker.alloc(1000, 100 * (step + 1), stack).free(1000, 100 * (step + 1), stack);
  });
  EXPECT_TRUE(run(trace).tables.growth.empty());
}

TEST(Growth, the_steepest_line_comes_first_and_all_are_kept) {
  const auto trace = train(8, [](TraceMaker& maker, std::uint64_t step) {
    maker.alloc(1000 + step, 10, maker.stack({{"/slow.py", 1, "f"}}));
    maker.alloc(2000 + step, 90, maker.stack({{"/fast.py", 1, "f"}}));
  });
  Options options;
  options.top = 1;
  const auto rows = run(trace, options).tables.growth;
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].line, "/fast.py:1 (f)");
}

TEST(Growth, cycles_are_used_if_steps_are_not_marked) {
  TraceMaker maker;
  const auto leak = maker.stack({{"/train.py", 91, "step"}});
  for (std::uint64_t step = 0; step < 20; ++step) {
    for (std::uint64_t layer = 1; layer <= 5; ++layer) maker.alloc(layer, 1000);
    for (std::uint64_t layer = 1; layer <= 5; ++layer) maker.free(layer, 1000);
    maker.alloc(100 + step, 10, leak);
  }
  const auto rows = run(maker.finish()).tables.growth;
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].line, "/train.py:91 (step)");
  EXPECT_EQ(rows[0].boundary, "cycle");
  EXPECT_DOUBLE_EQ(rows[0].bytes_per_step, 10);
}

TEST(Growth, a_single_step_is_skipped_with_its_reason) {
  const auto trace = train(1, [](TraceMaker&, std::uint64_t) {});
  const auto report = run(trace);
  EXPECT_EQ(report.passes.at(0).state, report::PassState::kSkipped);
  EXPECT_EQ(report.passes.at(0).reason,
            "the recording has 1 step: record at least 6 to see what grows from step to step");
}

TEST(Growth, marked_steps_are_boundaries_and_layers_and_categories_grow) {
  TraceMaker maker;
  for (std::uint64_t step = 0; step < 8; ++step) {
    maker.alloc_reported(7, 5000, {.layer = "Net.a", .category = "activation"}).free(7, 5000);
    maker.alloc_reported(1000 + step, 256, {.layer = "Net.b", .category = "activation"});
    maker.alloc_reported(2000 + step, 64, {.layer = "Net.b", .category = "unknown"});
    maker.step(step);
  }
  const auto tables = run(maker.finish()).tables;
  ASSERT_EQ(tables.growth.size(), 1u);
  EXPECT_EQ(tables.growth[0].boundary, "step");
  EXPECT_EQ(tables.growth[0].steps, 8u);
  EXPECT_EQ(tables.growth[0].key, tables.growth[0].line);
  ASSERT_EQ(tables.growth_by_layer.size(), 1u);
  EXPECT_EQ(tables.growth_by_layer[0].key, "Net.b");
  EXPECT_DOUBLE_EQ(tables.growth_by_layer[0].bytes_per_step, 320);
  ASSERT_EQ(tables.growth_by_category.size(), 2u);
  EXPECT_EQ(tables.growth_by_category[0].key, "activation");
  EXPECT_EQ(tables.growth_by_category[0].first_bytes, 3 * 256);
  EXPECT_EQ(tables.growth_by_category[1].key, "unknown");
}

}  // namespace
}  // namespace plimsoll::analysis::growth

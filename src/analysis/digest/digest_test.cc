#include "analysis/digest/digest.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/digest/keys.h"
#include "analysis/digest/modules.h"
#include "base/json_writer.h"
#include "model/live_set.h"
#include "tests/support/holder_case.h"
#include "tests/support/random_trace.h"
#include "tests/support/run_pass.h"
#include "tests/support/timeline_pass.h"
#include "tests/support/trace_maker.h"
#include "tests/support/uses_pass.h"

namespace plimsoll::analysis::digest {
namespace {

using model::Phase;
using report::Digest;
using report::DigestKey;
using report::DigestPoint;
using report::DigestRow;
using tests::TraceMaker;

Digest digest_of(const model::Trace& trace) {
  const auto passes = tests::passes(tests::timeline_pass(), tests::uses_pass(), make());
  const model::UserLines lines(trace);
  base::Progress progress;
  report::Report report;
  const Options options;
  PassContext context{trace, lines, options, progress, report};
  const std::vector<std::string> wanted = {"digest"};
  EXPECT_TRUE(run_passes(passes, wanted, OptionSet::kNone, context).ok());
  return report.digest;
}

std::vector<std::string> names_of(const Digest& digest) {
  std::vector<std::string> names;
  for (const DigestPoint& point : digest.points) names.push_back(point.name);
  return names;
}

// Two blocks of the same layer, four steps.
model::Trace training() {
  TraceMaker maker;
  const auto line = maker.stack({{"/home/me/model.py", 12, "Net.forward"}});
  maker.stack({{"/home/me/model.py", 10, "Net.forward"}});
  for (std::uint64_t step = 0; step < 4; ++step) {
    for (const char* const layer : {"Net.blocks.0.up", "Net.blocks.1.up"}) {
      const std::uint64_t address = layer[11] == '0' ? 0x1000 : 0x2000;
      maker.alloc_reported(address, layer[11] == '0' ? 100 : 100 + 50 * step,
                           {.layer = layer,
                            .category = "activation",
                            .phase = Phase::kForward,
                            .op = "aten::linear",
                            .stack = line});
    }
    maker.alloc_reported(0x3000, 10,
                         {.category = "activation_gradient", .phase = Phase::kBackward});
    maker.free(0x1000, 100).free(0x2000, 100 + 50 * step).free(0x3000, 10);
    maker.step(step);
  }
  return maker.finish();
}

TEST(Digest, points_are_the_peak_the_highest_of_each_phase_and_the_ends) {
  const Digest digest = digest_of(training());
  EXPECT_THAT(names_of(digest),
              testing::ElementsAre("peak", "forward", "backward", "step end", "end"));
  EXPECT_EQ(digest.points[0].bytes, 360);
  EXPECT_EQ(digest.points[0].phase, "backward");
  EXPECT_EQ(digest.points[0].step, 3u);
  EXPECT_EQ(digest.points[1].bytes, 350);
  EXPECT_EQ(digest.points[3].bytes, 0);
  EXPECT_EQ(digest.source.steps, 4u);
}

TEST(Digest, repeated_blocks_are_one_row_that_names_those_that_differ) {
  const Digest digest = digest_of(training());
  const DigestRow& row = digest.rows[0];
  const DigestKey& key = digest.keys[row.key];
  EXPECT_EQ(key.layer, "Net.blocks.*.up");
  EXPECT_EQ(key.example_layer, "Net.blocks.0.up");
  EXPECT_EQ(key.function, "Net.forward");
  EXPECT_EQ(key.offset, 2);
  EXPECT_EQ(key.op, "aten::linear");
  EXPECT_EQ(row.bytes, 350);
  EXPECT_EQ(row.count, 2u);
  EXPECT_EQ(row.instances, 2u);
  EXPECT_EQ(row.instance_bytes, 100);
  EXPECT_THAT(row.uneven, testing::ElementsAre(report::DigestInstance{"Net.blocks.1.up", 250, 1}));
}

TEST(Digest, rows_have_what_holds_them_but_files_do_not) {
  tests::HolderCase held;
  const auto main = held.root(PLIMSOLL_LINK_MODULE, "__main__");
  const auto list = held.link(main, PLIMSOLL_LINK_ATTRIBUTE, "history", "list", {}, 0, 3);
  held.hold(held.link(list, PLIMSOLL_LINK_ITEM, {}, "Tensor"), 3);
  held.hold(0, 2);
  held.finish();
  const Digest digest = digest_of(held.trace);
  EXPECT_TRUE(digest.knows_holders);
  ASSERT_FALSE(digest.rows.empty());
  ASSERT_EQ(digest.rows[0].holders.size(), 1u);
  EXPECT_EQ(digest.rows[0].holders[0].holder.path, "history");
  EXPECT_EQ(digest.rows[0].holders[0].holder.bytes, 300u);
  EXPECT_THAT(digest.rows[0].holders[0].edit, testing::StartsWith("Remove from history"));
  const std::string file =
      base::json_text([&](base::JsonWriter& json) { base::write_json(json, digest); });
  EXPECT_THAT(file, testing::Not(testing::HasSubstr("history")));
}

TEST(Digest, a_walk_that_ended_early_does_not_know_what_is_not_held) {
  tests::HolderCase held;
  held.hold(held.root(PLIMSOLL_LINK_MODULE, "__main__"), 1);
  held.finish();
  held.trace.holders.walks[0].end = PLIMSOLL_WALK_TIME;
  EXPECT_FALSE(digest_of(held.trace).knows_holders);
}

TEST(Digest, the_peak_has_what_no_operator_uses_again) {
  for (const bool is_sampled : {false, true}) {
    TraceMaker maker;
    maker.begin_uses();
    maker.alloc_reported(0x1000, 300, {.use = {1, 0, 0}});    // not used after the next event
    maker.alloc_reported(0x2000, 50, {.use = {1000, 0, 0}});  // used until it is freed
    if (is_sampled) maker.end_uses();
    maker.alloc_reported(0x3000, 8, {.use = {1000, 0, 0}});
    const Digest digest = digest_of(maker.finish());
    ASSERT_EQ(digest.points[0].name, "peak");
    ASSERT_TRUE(digest.points[0].unused.has_value());
    EXPECT_EQ(digest.points[0].unused->bytes, 300);
    EXPECT_EQ(digest.points[0].unused->steps, is_sampled ? "some" : "all");
    for (const DigestPoint& point : digest.points) {
      EXPECT_EQ(point.unused.has_value(), point.name == "peak") << point.name;
    }
  }
  EXPECT_FALSE(digest_of(training()).points[0].unused.has_value());
}

// The key of an allocation in lines 12 and 13 of a function.
std::vector<DigestKey> keys_of_two_lines(TraceMaker&& maker) {
  for (const std::uint32_t line : {12u, 13u}) {
    maker.alloc_reported(std::uint64_t{0x1000} * line, 100,
                         {.category = "activation",
                          .stack = maker.stack({{"/home/me/model.py", line, "Net.forward"}})});
  }
  return digest_of(maker.finish()).keys;
}

TEST(Digest, a_line_has_its_text_and_its_offset_in_the_function) {
  TraceMaker maker;
  maker.source_line("/home/me/model.py", 12, "x = f(y)");
  maker.source_line("/home/me/model.py", 13, "", 0x1F);
  maker.function_start("/home/me/model.py", "Net.forward", 9);
  const auto keys = keys_of_two_lines(std::move(maker));
  ASSERT_EQ(keys.size(), 2u);
  EXPECT_EQ(keys[0].text, "x = f(y)");
  EXPECT_EQ(keys[0].offset, 3);
  EXPECT_EQ(keys[1].text, "#000000000000001f");
  EXPECT_EQ(keys[1].offset, 4);
}

TEST(Digest, lines_with_the_same_text_are_one_key) {
  TraceMaker maker;
  maker.source_line("/home/me/model.py", 12, "x = f(x)");
  maker.source_line("/home/me/model.py", 13, "x = f(x)");
  const auto keys = keys_of_two_lines(std::move(maker));
  ASSERT_EQ(keys.size(), 1u);
  EXPECT_EQ(keys[0].offset, 0);
}

TEST(Digest, modules_have_their_class_and_parameters) {
  TraceMaker maker;
  maker.module("Net", "Net", 0);
  maker.module("Net.blocks.0", "Linear", 100);
  maker.module("Net.blocks.1", "Linear", 300);
  maker.alloc(0x1000, 8);
  const Digest digest = digest_of(maker.finish());
  ASSERT_EQ(digest.modules.size(), 3u);
  EXPECT_EQ(digest.modules[0].type, "Net");
  EXPECT_EQ(digest.modules[1].path, "Net.blocks");  // no module of the list, but around one
  EXPECT_EQ(digest.modules[1].type, "");
  EXPECT_EQ(digest.modules[2].type, "Linear");
  EXPECT_EQ(digest.modules[2].instances, 2u);
  EXPECT_EQ(digest.modules[2].parameter_bytes, 400u);
}

TEST(Digest, modules_are_listed_with_their_indices) {
  const Digest digest = digest_of(training());
  std::map<std::string, std::string> indices;
  for (const report::DigestModule& module : digest.modules) indices[module.path] = module.indices;
  EXPECT_THAT(indices,
              testing::ElementsAre(testing::Pair("Net", ""), testing::Pair("Net.blocks", ""),
                                   testing::Pair("Net.blocks.*", "0-1"),
                                   testing::Pair("Net.blocks.*.up", "")));
}

TEST(Digest, only_repetitions_of_a_block_are_folded) {
  TraceMaker maker;
  maker.module("Net", "Net", 0);
  maker.module("Net.main", "Sequential", 0);
  maker.module("Net.main.0", "Conv2d", 0);
  maker.module("Net.main.1", "ReLU", 0);
  for (const char* const block : {"Net.main.2", "Net.main.3"}) {
    maker.module(block, "Block", 0);
    maker.module(std::string(block) + ".up", "Linear", 0);
  }
  maker.module("Net.main.4", "ReLU", 0);
  maker.alloc(0x1000, 8);
  std::vector<std::string> paths;
  for (const auto& module : digest_of(maker.finish()).modules) {
    paths.push_back(module.path + " " + module.indices);
  }
  EXPECT_THAT(paths, testing::ElementsAre("Net ", "Net.main ", "Net.main.0 ", "Net.main.1 ",
                                          "Net.main.* 2-3", "Net.main.*.up ", "Net.main.4 "));
}

TEST(Digest, sequences_of_other_modules_are_no_repetitions) {
  const auto paths_of = [](const std::vector<std::vector<const char*>>& parts) {
    TraceMaker maker;
    maker.module("Net", "Sequential", 0);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::string part = "Net." + std::to_string(i);
      maker.module(part, "Sequential", 0);
      for (std::size_t j = 0; j < parts[i].size(); ++j) {
        maker.module(part + '.' + std::to_string(j), parts[i][j], 0);
      }
    }
    maker.alloc(0x1000, 8);
    std::vector<std::string> paths;
    for (const auto& module : digest_of(maker.finish()).modules) paths.push_back(module.path);
    return paths;
  };
  EXPECT_THAT(paths_of({{"Linear", "ReLU"}, {"Linear", "ReLU"}}),
              testing::ElementsAre("Net", "Net.*", "Net.*.0", "Net.*.1"));
  EXPECT_THAT(paths_of({{"Linear", "ReLU"}, {"Linear"}}),
              testing::ElementsAre("Net", "Net.0", "Net.0.0", "Net.0.1", "Net.1", "Net.1.0"));
  EXPECT_THAT(paths_of({{"Linear", "Linear"}, {"Linear"}}),
              testing::ElementsAre("Net", "Net.*", "Net.*.*"));
}

TEST(Digest, indices_are_names_of_digits_only) {
  EXPECT_EQ(without_indices("Net.3.conv2d.10"), "Net.*.conv2d.*");
  EXPECT_EQ(without_indices(""), "");
  EXPECT_EQ(without_indices("a."), "a.");
  EXPECT_EQ(ranges_text({0, 1, 2, 7, 9, 10}), "0-2, 7, 9-10");
}

TEST(Digest, runs_only_on_request) {
  const auto trace = training();
  EXPECT_TRUE(
      tests::run_passes(trace, tests::passes(tests::timeline_pass(), make())).digest.rows.empty());
}

// The rows of a point sum to what a count of the live lifetimes gives.
TEST(Digest, rows_sum_to_the_bytes_of_their_point) {
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    const model::Trace trace =
        tests::RandomTrace({.seed = seed,
                            .reporting = seed % 2 == 0
                                             ? tests::RandomTraceOptions::Reporting::kStacksOnly
                                             : tests::RandomTraceOptions::Reporting::kEverything})
            .make();
    const Digest digest = digest_of(trace);
    std::vector<std::int64_t> sums(digest.points.size());
    for (const DigestRow& row : digest.rows) {
      sums[row.point] += row.bytes;
      std::int64_t uneven = 0;
      for (const auto& each : row.uneven) uneven += each.bytes;
      EXPECT_EQ(row.bytes, uneven + row.instance_bytes * static_cast<std::int64_t>(
                                                             row.instances - row.uneven.size()));
    }
    for (std::size_t point = 0; point < sums.size(); ++point) {
      EXPECT_EQ(sums[point], digest.points[point].bytes) << seed << digest.points[point].name;
    }
  }
}

}  // namespace
}  // namespace plimsoll::analysis::digest

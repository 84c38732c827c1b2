// The causes of edits that change the tree of modules.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comparison/diff.h"

namespace plimsoll::comparison {
namespace {

using report::Digest;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::int64_t kBytesInKiB = 1024;

// A module with a parameter of its own, or none.
struct Built {
  std::string path;
  std::string type;
  std::int64_t kib = 0;
  std::uint64_t instances = 1;
  std::string op = "linear";  // of its result, which has 1 KiB
};

report::DigestKey built_key(const Built& part, const std::string& category, const std::string& op) {
  report::DigestKey made;
  made.device = "cpu";
  made.category = category;
  made.layer = part.path;
  made.example_layer = part.path;
  made.op = op;
  made.function = "Net.forward";
  made.text = category + op;
  return made;
}

Digest network(const std::vector<Built>& parts) {
  Digest digest;
  digest.points.push_back({.device = "cpu", .name = "peak"});
  const auto add = [&](const Built& part, const std::string& category, const std::string& op,
                       std::int64_t bytes) {
    digest.keys.push_back(built_key(part, category, op));
    digest.rows.push_back({.key = digest.keys.size() - 1,
                           .bytes = bytes,
                           .count = part.instances,
                           .largest_bytes = static_cast<std::uint64_t>(bytes) / part.instances,
                           .instances = part.instances,
                           .instance_bytes = bytes / static_cast<std::int64_t>(part.instances)});
    digest.points[0].bytes += bytes;
  };
  for (const Built& part : parts) {
    const std::int64_t bytes = part.kib * kBytesInKiB * static_cast<std::int64_t>(part.instances);
    digest.modules.push_back(
        {.path = part.path,
         .type = part.type,
         .instances = part.instances,
         .indices = part.path.ends_with('*') ? "0-" + std::to_string(part.instances - 1) : "",
         .parameter_bytes = static_cast<std::uint64_t>(bytes)});
    if (part.kib == 0) continue;
    add(part, "parameter", "empty", bytes);
    add(part, "activation", part.op, static_cast<std::int64_t>(part.instances) * kBytesInKiB);
  }
  return digest;
}

// Makes the parameter of one repetition of a block larger.
void widen(Digest& digest, const std::string& block, const std::string& layer, std::int64_t kib) {
  for (report::DigestRow& row : digest.rows) {
    const report::DigestKey& of_row = digest.keys[row.key];
    if (of_row.layer != block || of_row.category != "parameter") continue;
    row.uneven.push_back({layer, row.instance_bytes + kib * kBytesInKiB, 1});
    row.bytes += kib * kBytesInKiB;
    row.largest_bytes += static_cast<std::uint64_t>(kib * kBytesInKiB);
    digest.points[0].bytes += kib * kBytesInKiB;
  }
}

std::vector<std::string> titled_causes(const Digest& before, const Digest& after) {
  std::vector<std::string> texts;
  const Diff diff = compare(before, after);
  for (const DiffCause& cause : diff.points[0].causes) {
    texts.push_back(std::to_string(cause.difference_bytes / kBytesInKiB) + " KiB: " + cause.title);
  }
  return texts;
}

Digest blocks(std::uint64_t count) {
  return network(
      {{"Net", "Net"}, {"Net.blocks", "ModuleList"}, {"Net.blocks.*", "Block", 8, count}});
}

TEST(ModuleChanges, a_model_that_was_wrapped_and_resized_has_another_size) {
  const Digest before =
      network({{"Net", "Net"}, {"Net.up", "Linear", 4}, {"Net.down", "Linear", 2}});
  const Digest after = network({{"Outer", "Outer"},
                                {"Outer.inner", "Net"},
                                {"Outer.inner.up", "Linear", 16},
                                {"Outer.inner.down", "Linear", 8}});
  EXPECT_THAT(titled_causes(before, after), ElementsAre("18 KiB: size of Outer.inner"));
  EXPECT_THAT(titled_causes(after, before), ElementsAre("-18 KiB: size of Net.up and down"));
}

TEST(ModuleChanges, the_block_that_was_resized_is_named) {
  Digest after = blocks(4);
  widen(after, "Net.blocks.*", "Net.blocks.2", 24);
  EXPECT_THAT(titled_causes(blocks(4), after), ElementsAre("24 KiB: size of Net.blocks.2"));
  EXPECT_THAT(titled_causes(after, blocks(4)), ElementsAre("-24 KiB: size of Net.blocks.2"));
}

TEST(ModuleChanges, a_block_more_and_a_resized_one_are_two_causes) {
  Digest after = blocks(5);
  widen(after, "Net.blocks.*", "Net.blocks.1", 24);
  EXPECT_THAT(
      titled_causes(blocks(4), after),
      ElementsAre("24 KiB: size of Net.blocks.1", "9 KiB: module Net.blocks.4 (Block) is new"));
}

TEST(ModuleChanges, a_container_of_what_both_have_is_not_new) {
  const Digest before = blocks(4);
  const Digest after = network({{"Net", "Net"},
                                {"Net.body", "ModuleDict"},
                                {"Net.body.layers", "ModuleList"},
                                {"Net.body.layers.*", "Block", 8, 4},
                                {"Net.bridge", "Linear", 2}});
  EXPECT_THAT(titled_causes(before, after),
              ElementsAre("3 KiB: module Net.bridge (Linear) is new"));
  EXPECT_THAT(titled_causes(after, before),
              ElementsAre("-3 KiB: module Net.bridge (Linear) is gone"));
}

TEST(ModuleChanges, another_class_is_one_cause_with_the_results_that_it_needs) {
  const auto with = [](const std::string& type, const std::string& op, std::int64_t kib) {
    return network({{"Net", "Net"}, {"Net.up", "Linear", 4}, {"Net.act", type, kib, 1, op}});
  };
  EXPECT_THAT(titled_causes(with("PReLU", "prelu", 1), with("Maxout", "max", 5)),
              ElementsAre("4 KiB: module Net.act: PReLU → Maxout"));
}

TEST(ModuleChanges, what_was_put_beside_a_layer_in_a_sequence_is_new_and_not_the_sequence) {
  const Digest before = network({{"Net", "Net"}, {"Net.head", "Linear", 4}});
  const Digest after = network({{"Net", "Net"},
                                {"Net.head", "Sequential"},
                                {"Net.head.0", "Gate", 2},
                                {"Net.head.1", "Linear", 4}});
  EXPECT_THAT(titled_causes(before, after), ElementsAre("3 KiB: module Net.head.0 (Gate) is new"));
  EXPECT_THAT(titled_causes(after, before),
              ElementsAre("-3 KiB: module Net.head.0 (Gate) is gone"));
}

// A result of an operator, in a module that has no parameters.
void add_result(Digest& digest, const std::string& layer, const std::string& op, std::int64_t kib,
                std::uint64_t count = 1) {
  digest.keys.push_back(built_key({layer, ""}, "activation", op));
  digest.rows.push_back({.key = digest.keys.size() - 1,
                         .bytes = kib * kBytesInKiB,
                         .count = count,
                         .largest_bytes = static_cast<std::uint64_t>(kib * kBytesInKiB) / count,
                         .instances = 1,
                         .instance_bytes = kib * kBytesInKiB});
  digest.points[0].bytes += kib * kBytesInKiB;
}

TEST(ModuleChanges, a_function_in_place_of_its_module_is_no_change) {
  Digest module = network({{"Net", "Net"}, {"Net.mlp", "Mlp", 4}, {"Net.mlp.act", "GELU"}});
  add_result(module, "Net.mlp.act", "gelu", 16);
  Digest function = network({{"Net", "Net"}, {"Net.mlp", "Mlp", 4}});
  add_result(function, "Net.mlp", "gelu", 16);
  EXPECT_THAT(compare(module, function).findings, IsEmpty());
  EXPECT_THAT(compare(function, module).findings, IsEmpty());
}

TEST(ModuleChanges, a_swapped_function_is_the_cause_of_what_backward_keeps_for_it) {
  const auto with = [](const std::string& op, std::int64_t kept_kib) {
    Digest digest = network({{"Net", "Net"}, {"Net.mlp", "Mlp", 4}});
    add_result(digest, "Net.mlp", op, 16);
    add_result(digest, "Net.mlp", "norm", kept_kib, static_cast<std::uint64_t>(kept_kib) / 16);
    return digest;
  };
  EXPECT_THAT(titled_causes(with("relu", 16), with("gelu", 32)),
              ElementsAre("16 KiB: gelu (16.0 KiB) instead of relu (16.0 KiB) in Net.mlp, and what "
                          "backward keeps for it"));
}

TEST(ModuleChanges, repetitions_with_names_are_no_change) {
  const Digest named = network({{"Net", "Net"},
                                {"Net.blocks", "ModuleDict"},
                                {"Net.blocks.low", "Block", 8},
                                {"Net.blocks.high", "Block", 8}});
  EXPECT_THAT(compare(blocks(2), named).findings, IsEmpty());
  EXPECT_THAT(compare(named, blocks(2)).findings, IsEmpty());
}

TEST(ModuleChanges, sums_are_exact_if_a_row_contradicts_itself) {
  Digest after = blocks(5);
  after.rows[0].uneven.push_back({"Net.blocks.1", 77 * kBytesInKiB, 9});
  const DiffPoint peak = compare(blocks(4), after).points[0];
  std::int64_t sum = peak.everything_else_bytes;
  for (const DiffCause& cause : peak.causes) sum += cause.difference_bytes;
  EXPECT_EQ(sum, 9 * kBytesInKiB);
}

}  // namespace
}  // namespace plimsoll::comparison

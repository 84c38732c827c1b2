#include "comparison/diff.h"

#include <random>
#include <set>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comparison/alignment.h"

namespace plimsoll::comparison {
namespace {

using report::Digest;
using report::DigestKey;
using report::DigestRow;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr std::int64_t kKiB = 1024;

DigestKey key(const std::string& layer, const std::string& text,
              const std::string& category = "activation", const std::string& op = "aten::linear") {
  DigestKey made;
  made.device = "cpu";
  made.category = category;
  made.phase = "forward";
  made.layer = layer;
  made.op = op;
  made.function = "Net.forward";
  made.text = text;
  made.place = "model.py:7 (Net.forward)";
  return made;
}

class Maker {
 public:
  Maker& at(const std::string& name, const std::string& phase = {}) {
    digest_.points.push_back({.device = "cpu", .name = name, .phase = phase});
    return *this;
  }
  Maker& row(const DigestKey& what, std::int64_t bytes, std::uint64_t count = 1,
             std::uint64_t instances = 1) {
    DigestRow row;
    row.point = digest_.points.size() - 1;
    row.key = index_of(what);
    row.bytes = bytes;
    row.count = count;
    row.largest_bytes = static_cast<std::uint64_t>(bytes) / count;
    row.instances = instances;
    row.instance_bytes = bytes / static_cast<std::int64_t>(instances);
    digest_.rows.push_back(row);
    digest_.points.back().bytes += bytes;
    return *this;
  }
  // Of the point that was added last.
  Maker& unused(std::int64_t bytes, const char* steps = "all") {
    digest_.points.back().unused = {.bytes = bytes, .steps = steps};
    return *this;
  }
  // Of the row that was added last.
  Maker& shape(const std::string& text) {
    digest_.rows.back().shape = text;
    return *this;
  }
  Maker& module(const std::string& path, std::uint64_t instances = 1,
                const std::string& indices = {}, const std::string& type = {},
                std::uint64_t parameter_bytes = 0) {
    report::DigestModule row;
    row.path = path;
    row.instances = instances;
    row.indices = indices;
    row.type = type;
    row.parameter_bytes = parameter_bytes;
    digest_.modules.push_back(row);
    return *this;
  }
  const Digest& digest() const { return digest_; }

 private:
  std::uint64_t index_of(const DigestKey& what) {
    digest_.keys.push_back(what);
    return digest_.keys.size() - 1;
  }

  Digest digest_;
};

// Rows of equal keys refer to the first of them, as in a digest of a recording.
Digest with_shared_keys(Digest digest) {
  for (DigestRow& row : digest.rows) {
    const DigestKey& wanted = digest.keys[row.key];
    std::uint64_t first = 0;
    while (digest.keys[first].layer != wanted.layer || digest.keys[first].text != wanted.text ||
           digest.keys[first].category != wanted.category) {
      ++first;
    }
    row.key = first;
  }
  return digest;
}

DiffCause first_cause(const Diff& diff) {
  return diff.points.empty() || diff.points[0].causes.empty() ? DiffCause{}
                                                              : diff.points[0].causes[0];
}

TEST(Diff, equal_digests_have_no_rows_and_no_finding) {
  const Digest one = Maker().at("peak").row(key("Net.a", "x = f(y)"), kKiB).digest();
  const Diff diff = compare(one, one);
  EXPECT_THAT(diff.findings, IsEmpty());
  ASSERT_EQ(diff.points.size(), 1u);
  EXPECT_THAT(diff.points[0].rows, IsEmpty());
  EXPECT_EQ(diff.growth_bytes(), 0);
}

TEST(Diff, an_edited_line_and_a_renamed_function_are_paired) {
  DigestKey edited = key("Net.a", "scores = f(y)");
  DigestKey renamed_function = key("Net.b", "z = g(x)");
  renamed_function.function = "Net.run";
  const Digest before = Maker()
                            .at("peak")
                            .row(key("Net.a", "x = f(y)"), kKiB)
                            .row(key("Net.b", "z = g(x)"), kKiB)
                            .digest();
  const Digest after = Maker().at("peak").row(edited, kKiB).row(renamed_function, kKiB).digest();
  EXPECT_THAT(compare(before, after).points[0].rows, IsEmpty());
}

TEST(Diff, a_renamed_block_is_found_by_what_is_inside) {
  Maker before;
  Maker after;
  before.at("peak").module("Net.blocks");
  after.at("peak").module("Net.stack");
  for (const char* const part : {"a", "b", "c"}) {
    before.row(key(std::string("Net.blocks.*.") + part, "x = f(y)"), kKiB);
    after.row(key(std::string("Net.stack.*.") + part, "x = f(y)"), kKiB);
  }
  const Alignment alignment = align(before.digest(), after.digest());
  EXPECT_EQ(alignment.modules.name_before("Net.blocks.0"), "Net.stack.0");
  EXPECT_THAT(compare(before.digest(), after.digest()).points[0].rows, IsEmpty());
}

// A network with a sequence of modules, which have one parameter and one activation each.
Digest sequence(const std::string& root, const std::vector<std::pair<std::string, int>>& modules) {
  Maker maker;
  maker.at("peak").module(root, 1, {}, "Net").module(root + ".layers", 1, {}, "Sequential");
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const auto& [type, kib] = modules[i];
    const std::string path = root + ".layers." + std::to_string(i);
    maker.module(path, 1, {}, type, static_cast<std::uint64_t>(kib) * kKiB);
    if (kib > 0) maker.row(key(path, type + std::to_string(kib), "parameter"), kib * kKiB);
    maker.row(key(path, "self.layers(x)"), 8 * kKiB);
  }
  return with_shared_keys(maker.digest());
}

TEST(Diff, a_module_inserted_into_a_sequence_is_the_new_one) {
  const Digest before = sequence("Net", {{"Linear", 16}, {"ReLU", 0}, {"Linear", 4}});
  const Digest after = sequence("Net", {{"Norm", 1}, {"Linear", 16}, {"ReLU", 0}, {"Linear", 4}});
  const DiffCause cause = first_cause(compare(before, after));
  EXPECT_EQ(cause.title, "module Net.layers.0 (Norm) is new");
  EXPECT_EQ(cause.difference_bytes, 9 * kKiB);
  EXPECT_EQ(first_cause(compare(after, before)).title, "module Net.layers.0 (Norm) is gone");
}

TEST(Diff, modules_inserted_into_one_sequence_are_one_cause) {
  const Digest before = sequence("Net", {{"Linear", 16}, {"ReLU", 0}, {"Linear", 4}});
  const Digest after =
      sequence("Net", {{"Linear", 16}, {"ReLU", 0}, {"Linear", 12}, {"ReLU", 0}, {"Linear", 4}});
  const DiffPoint peak = compare(before, after).points[0];
  ASSERT_EQ(peak.causes.size(), 1u);
  EXPECT_EQ(peak.causes[0].title, "modules Net.layers.2 (Linear) and 3 (ReLU) are new");
}

TEST(Diff, a_renamed_and_resized_module_has_another_size) {
  const auto digest = [](const char* name, int kib) {
    const std::string path = std::string("Net.") + name;
    return Maker()
        .at("peak")
        .module("Net", 1, {}, "Net")
        .module(path, 1, {}, "Linear", static_cast<std::uint64_t>(kib) * kKiB)
        .row(key(path, "x", "parameter"), kib * kKiB)
        .digest();
  };
  const DiffCause cause = first_cause(compare(digest("up", 4), digest("expand", 6)));
  EXPECT_EQ(cause.id, "size_changed");
  EXPECT_EQ(cause.subject, "Net.expand");
}

TEST(Diff, a_renamed_and_a_wrapped_model_are_the_same) {
  const Digest before = sequence("Net", {{"Linear", 16}, {"ReLU", 0}});
  for (const char* const root : {"Network", "Wrapper.module"}) {
    const Digest after = sequence(root, {{"Linear", 16}, {"ReLU", 0}});
    EXPECT_THAT(compare(before, after).points[0].rows, IsEmpty()) << root;
    EXPECT_THAT(compare(after, before).points[0].rows, IsEmpty()) << root;
  }
}

// As a digest of an earlier version does.
TEST(Diff, folded_indices_are_compared_with_named_ones) {
  const Digest named = sequence("Net", {{"Linear", 4}, {"Linear", 4}});
  const Digest folded = Maker()
                            .at("peak")
                            .module("Net")
                            .module("Net.layers")
                            .module("Net.layers.*", 2, "0-1")
                            .row(key("Net.layers.*", "Linear4", "parameter"), 8 * kKiB, 2, 2)
                            .row(key("Net.layers.*", "self.layers(x)"), 16 * kKiB, 2, 2)
                            .digest();
  EXPECT_THAT(compare(folded, named).findings, IsEmpty());
  EXPECT_THAT(compare(named, folded).findings, IsEmpty());
}

// The peaks are in two layers. `most` is what each layer allocates at any time.
Digest at_moment(const char* layer, std::int64_t kib) {
  Digest digest = Maker()
                      .at("peak", "forward")
                      .row(key("Net.a", "x"), layer == std::string("Net.a") ? 64 * kKiB : 0)
                      .row(key("Net.b", "y"), layer == std::string("Net.b") ? kib * kKiB : 0)
                      .row(key("Net", "z", "parameter"), kKiB)
                      .digest();
  digest.points[0].layer = layer;
  digest.keys[0].most_bytes = 64 * kKiB;
  digest.keys[1].most_bytes = kib * kKiB;
  digest.keys[2].most_bytes = kKiB;
  return digest;
}

TEST(Diff, memory_of_another_moment_is_not_new) {
  const DiffPoint peak = compare(at_moment("Net.a", 32), at_moment("Net.b", 96)).points[0];
  ASSERT_EQ(peak.causes.size(), 2u);
  EXPECT_EQ(peak.causes[0].id, "grew");
  EXPECT_EQ(peak.causes[0].difference_bytes, 96 * kKiB);
  EXPECT_EQ(peak.causes[1].title, "the peak moved from forward of Net.a to forward of Net.b");
  EXPECT_EQ(peak.causes[1].difference_bytes, -64 * kKiB);
}

TEST(Diff, peaks_at_two_moments_of_equal_programs_are_no_finding) {
  EXPECT_THAT(compare(at_moment("Net.a", 64), at_moment("Net.b", 64)).findings, IsEmpty());
}

TEST(Diff, a_new_module_explains_all_rows_below_it) {
  const Digest before = Maker().at("peak").module("Net").row(key("Net", "x"), kKiB).digest();
  const Digest after = Maker()
                           .at("peak")
                           .module("Net")
                           .module("Net.drop")
                           .row(key("Net", "x"), kKiB)
                           .row(key("Net.drop", "y"), 10 * kKiB)
                           .row(key("Net.drop", "z", "temporary"), 5 * kKiB)
                           .digest();
  const DiffCause cause = first_cause(compare(before, after));
  EXPECT_EQ(cause.id, "module_added");
  EXPECT_EQ(cause.subject, "Net.drop");
  EXPECT_EQ(cause.difference_bytes, 15 * kKiB);
  EXPECT_EQ(first_cause(compare(after, before)).id, "module_removed");
}

TEST(Diff, a_repeated_block_names_the_added_index) {
  const auto digest = [](std::uint64_t blocks) {
    return Maker()
        .at("peak")
        .module("Net.blocks.*", blocks, "0-" + std::to_string(blocks - 1))
        .row(key("Net.blocks.*.up", "x"), static_cast<std::int64_t>(blocks) * kKiB, blocks, blocks)
        .digest();
  };
  const DiffCause cause = first_cause(compare(digest(4), digest(5)));
  EXPECT_EQ(cause.id, "module_added");
  EXPECT_EQ(cause.subject, "Net.blocks.4");
}

TEST(Diff, one_factor_for_most_activations_is_one_cause) {
  const auto digest = [](std::int64_t batch) {
    return Maker()
        .at("peak")
        .row(key("Net.a", "x"), batch * kKiB)
        .row(key("Net.b", "y"), batch * 3 * kKiB)
        .row(key("Net.c", "z", "input"), batch * kKiB)
        .row(key("Net.d", "w", "parameter"), 9 * kKiB)
        .digest();
  };
  const Diff diff = compare(digest(8), digest(9));
  EXPECT_EQ(first_cause(diff).id, "scaled");
  EXPECT_EQ(diff.points[0].causes.size(), 1u);
  EXPECT_EQ(first_cause(diff).difference_bytes, 5 * kKiB);
  EXPECT_THAT(first_cause(diff).title, HasSubstr("× 1.12"));
}

TEST(Diff, more_of_the_same_line_is_kept) {
  const Digest before = Maker().at("end").row(key("Net.a", "x"), kKiB).digest();
  const Digest after = Maker().at("end").row(key("Net.a", "x"), 8 * kKiB, 8).digest();
  const Diff diff = compare(before, after);
  EXPECT_EQ(first_cause(diff).id, "more_kept");
  ASSERT_EQ(diff.findings.size(), 1u);
  EXPECT_EQ(diff.findings[0].id, "memory_grew");
  EXPECT_EQ(diff.findings[0].title,
            "Memory at the end on cpu grew by 7.0 KiB (+700.0%), from 1.0 KiB to 8.0 KiB");
}

// A list has one more result after each step: 4 of 8 steps have ended at the point "step end".
TEST(Diff, results_that_are_kept_each_step_are_named_as_growth) {
  const auto digest = [](std::uint64_t kept, std::uint64_t at_end) {
    Maker maker;
    const auto rows = [&](std::uint64_t count) {
      if (count > 0) {
        maker.row(key("Net.head", "y"), static_cast<std::int64_t>(count) * kKiB, count);
      }
    };
    maker.at("peak").row(key("Net", "x"), 8 * kKiB);
    rows(at_end + 1);
    maker.at("step end");
    rows(kept);
    maker.at("end");
    rows(at_end);
    Digest made = with_shared_keys(maker.digest());
    made.points[1].step = 4;
    made.source.steps = 8;
    return made;
  };
  const Diff diff = compare(digest(0, 0), digest(4, 8));
  const DiffCause cause = first_cause(diff);
  EXPECT_EQ(cause.id, "kept_each_step");
  EXPECT_THAT(cause.title, HasSubstr("9 × activation of linear in Net.head, was 1 ×"));
  EXPECT_THAT(cause.title, HasSubstr("one more each step"));
  EXPECT_THAT(diff.findings[0].next_step(), HasSubstr("memory_growth"));
  EXPECT_EQ(diff.points[2].causes[0].id, "kept_each_step");
  // As many at each step: kept, but not growing.
  const Diff kept = compare(digest(0, 0), digest(8, 8));
  EXPECT_EQ(kept.points[2].causes[0].id, "more_kept");
  EXPECT_THAT(kept.points[2].causes[0].title, HasSubstr("kept after the step"));
}

TEST(Diff, activations_that_backward_does_not_free_are_named) {
  const auto digest = [](bool is_kept) {
    Maker maker;
    maker.at("peak", "backward").row(key("Net.a", "x"), 100 * kKiB);
    if (is_kept) maker.row(key("Net.a", "x", "gradient"), 30 * kKiB);
    maker.at("step end");
    if (is_kept) maker.row(key("Net.a", "x"), 100 * kKiB);
    return with_shared_keys(maker.digest());
  };
  const Diff diff = compare(digest(false), digest(true));
  EXPECT_EQ(first_cause(diff).id, "graph_kept");
  EXPECT_EQ(diff.points[1].causes[0].id, "graph_kept");
  EXPECT_THAT(diff.findings[0].next_step(), HasSubstr("retain_graph"));
}

// The graph of the previous step is live in the forward of the next one, and checkpoints recompute
// what they do not keep: the graph is 60 of 100 KiB of activations, of which 160 KiB are live.
TEST(Diff, a_graph_that_is_live_with_the_next_one_is_named) {
  const auto digest = [](bool is_kept) {
    const std::int64_t graphs = is_kept ? 2 : 1;
    Maker maker;
    maker.at("peak", "forward").row(key("Net.a", "x"), 60 * kKiB * graphs, 3);
    maker.row(key("Net.b", "y"), 40 * kKiB);
    maker.at("step end");
    if (is_kept) maker.row(key("Net.a", "x"), 60 * kKiB, 3);
    return with_shared_keys(maker.digest());
  };
  EXPECT_EQ(first_cause(compare(digest(false), digest(true))).id, "graph_kept");
}

// The peak of the first recording is in an evaluation, so its digest has no key of the graph.
TEST(Diff, a_graph_that_includes_operators_outside_of_modules_is_named) {
  const auto digest = [](bool is_kept) {
    Maker maker;
    maker.at("peak", "forward").row(key("Net.a", "evaluation"), 100 * kKiB);
    maker.at("step end");
    if (is_kept) maker.row(key("Net.a", "x"), 70 * kKiB).row(key("", "loss"), kKiB);
    return with_shared_keys(maker.digest());
  };
  EXPECT_EQ(compare(digest(false), digest(true)).points[1].causes[0].id, "graph_kept");
}

// They are no part of a graph, which is 100 KiB: backward does not need them.
TEST(Diff, results_that_a_hook_keeps_are_no_kept_graph) {
  const auto digest = [](bool is_kept) {
    Maker maker;
    maker.at("peak", "backward").row(key("Net.a", "x"), 100 * kKiB);
    if (is_kept) maker.row(key("Net.b", "y"), 80 * kKiB).row(key("Net.c", "z"), 80 * kKiB);
    maker.at("step end");
    if (is_kept) maker.row(key("Net.b", "y"), 80 * kKiB).row(key("Net.c", "z"), 80 * kKiB);
    return with_shared_keys(maker.digest());
  };
  for (const DiffPoint& point : compare(digest(false), digest(true)).points) {
    for (const DiffCause& cause : point.causes) EXPECT_NE(cause.id, "graph_kept") << point.name;
  }
}

TEST(Diff, results_of_several_layers_that_a_hook_keeps_are_one_cause) {
  const auto digest = [](bool is_kept) {
    Maker maker;
    maker.at("peak", "backward").row(key("Net.a", "x"), 100 * kKiB);
    for (const char* const point : {"", "step end"}) {
      if (*point != 0) maker.at(point);
      for (const char* const layer : {"Net.b", "Net.c", "Net.d"}) {
        if (is_kept) maker.row(key(layer, "y"), 20 * kKiB);
      }
    }
    return with_shared_keys(maker.digest());
  };
  const Diff diff = compare(digest(false), digest(true));
  ASSERT_EQ(diff.points[0].causes.size(), 1u);
  EXPECT_EQ(first_cause(diff).id, "more_kept");
  EXPECT_EQ(first_cause(diff).title, "3 × activation of linear in 3 layers, kept after the step");
  EXPECT_THAT(diff.findings[0].next_step(), HasSubstr("hook"));
}

// foreach=True: nothing retains the scratch memory of an optimizer.
TEST(Diff, the_next_step_fits_the_category) {
  const auto scratch = [](const char* op, std::uint64_t count) {
    DigestKey what = key("", "optimizer.step()", "optimizer_scratch", op);
    return Maker()
        .at("optimizer")
        .row(what, static_cast<std::int64_t>(count) * kKiB, count)
        .digest();
  };
  const Diff foreach = compare(scratch("aten::sqrt", 2), scratch("aten::_foreach_sqrt", 28));
  EXPECT_EQ(foreach.findings[0].next_step(),
            "Pass foreach=False to the optimizer, which now updates all parameters together: "
            "model.py:7 (Net.forward).");
  EXPECT_THAT(foreach.points[0].causes[0].title,
              HasSubstr("28 × optimizer_scratch of _foreach_sqrt in Net.forward, was 2 ×"));
  const Diff more = compare(scratch("aten::sqrt", 2), scratch("aten::sqrt", 28));
  EXPECT_THAT(more.findings[0].next_step(), HasSubstr("options of the optimizer"));
  EXPECT_THAT(more.findings[0].next_step(), Not(HasSubstr("retains")));
}

// PyTorch's CUDA allocator rounds sizes up to 512 bytes.
TEST(Diff, a_parameter_that_a_gpu_rounds_up_has_not_changed_in_size) {
  const auto digest = [](std::int64_t parameter_bytes, std::int64_t workspace_bytes) {
    Maker maker;
    maker.at("peak").row(key("Net.a", "self.a = Linear(8)", "parameter"), parameter_bytes, 2);
    maker.shape("[8, 64]").row(key("Net.a", "y = self.a(x)", "temporary"), 8 * kKiB);
    DigestKey workspace = key("", "", "workspace");
    workspace.place = "[library workspace]";
    if (workspace_bytes > 0) maker.row(workspace, workspace_bytes);
    return maker.digest();
  };
  const Diff diff = compare(digest(2080, 0), digest(2560, 32 * kKiB));
  for (const DiffCause& cause : diff.points[0].causes) EXPECT_NE(cause.id, "size_changed");
  EXPECT_EQ(first_cause(diff).id, "new");
  EXPECT_EQ(diff.findings[0].next_step(), "");
}

// In the optimizer, hardly any activation is live: a larger loss there is no graph.
TEST(Diff, a_larger_loss_at_a_peak_in_the_optimizer_is_no_kept_graph) {
  const auto digest = [](std::int64_t factor) {
    Maker maker;
    maker.at("peak", "optimizer").row(key("", "loss"), 4 * factor);
    maker.row(key("Net.a", "x", "gradient"), 30 * factor * kKiB);
    maker.at("forward").row(key("Net.a", "x"), 100 * factor * kKiB);
    maker.at("step end").row(key("", "loss"), 4 * factor);
    return with_shared_keys(maker.digest());
  };
  for (const DiffPoint& point : compare(digest(1), digest(2)).points) {
    for (const DiffCause& cause : point.causes) EXPECT_NE(cause.id, "graph_kept") << point.name;
  }
}

// model.double() replaces the parameters that __init__ made.
TEST(Diff, parameters_that_another_line_made_with_another_dtype_are_the_same_parameters) {
  const auto digest = [](const char* line, const char* op, const char* dtype, std::int64_t bytes) {
    Maker maker;
    maker.at("peak");
    for (const char* const layer : {"Net.a", "Net.b"}) {
      for (const char* const category : {"parameter", "optimizer_state"}) {
        const bool is_parameter = std::string_view(category) == "parameter";
        DigestKey made = is_parameter ? key(layer, line, category, op)
                                      : key(layer, "step()", category, "aten::zeros_like");
        made.dtype = dtype;
        maker.row(made, bytes);
      }
    }
    return maker.digest();
  };
  const Digest before = digest("self.a = Linear(8)", "aten::empty", "float32", 4 * kKiB);
  Diff diff = compare(before, digest("net.double()", "aten::to", "float64", 8 * kKiB));
  ASSERT_EQ(diff.points[0].causes.size(), 1u);
  EXPECT_EQ(first_cause(diff).id, "dtype_changed");
  EXPECT_EQ(first_cause(diff).difference_bytes, 16 * kKiB);
  diff = compare(before, digest("net.cuda()", "aten::to", "float32", 4 * kKiB));
  EXPECT_THAT(diff.points[0].rows, IsEmpty());
}

TEST(Diff, a_device_of_one_recording_counts_as_0_bytes_in_the_other) {
  const Digest before = Maker().at("peak").row(key("Net.a", "x"), kKiB).digest();
  DigestKey elsewhere = key("Net.b", "y");
  elsewhere.device = "cuda:0";
  Digest after =
      Maker().at("peak").row(key("Net.a", "x"), kKiB).at("peak").row(elsewhere, 5).digest();
  after.points[1].device = "cuda:0";
  const Diff forth = compare(before, after);
  ASSERT_EQ(forth.points.size(), 2u);
  EXPECT_EQ(forth.points[1].device, "cuda:0");
  EXPECT_EQ(forth.growth_bytes(), 5);
  EXPECT_THAT(forth.notes, testing::Contains("Only the second recording has the device cuda:0."));
  const Diff back = compare(after, before);
  ASSERT_EQ(back.points.size(), 2u);
  EXPECT_EQ(back.points[1].difference_bytes, -5);
  Digest alone;  // nothing in common, so there is nothing to compare
  alone.points = {after.points[1]};
  alone.points[0].bytes = 0;
  EXPECT_THAT(compare(before, alone).points, IsEmpty());
}

TEST(Diff, an_incomplete_recording_is_the_first_finding) {
  const Digest before = Maker().at("peak").row(key("Net.a", "x"), kKiB).digest();
  Digest after = Maker().at("peak").row(key("Net.a", "x"), 2 * kKiB).digest();
  after.source.path = "after.plim";
  after.source.incomplete = "1 × file_cut: The recording has no end";
  const Diff diff = compare(before, after);
  EXPECT_TRUE(diff.is_incomplete());
  ASSERT_EQ(diff.findings.size(), 2u);
  EXPECT_EQ(diff.findings[0].id, kRecordingIncomplete);
  EXPECT_THAT(diff.findings[0].title, HasSubstr("after.plim is incomplete"));
  EXPECT_THAT(diff.findings[0].evidence[0], HasSubstr("file_cut"));
  EXPECT_FALSE(compare(before, before).is_incomplete());
}

TEST(Diff, joining_two_lines_makes_no_difference) {
  const Digest before = Maker()
                            .at("peak")
                            .row(key("Net", "x = cat(y)"), 2 * kKiB)
                            .row(key("Net", "z = cat(w)"), kKiB)
                            .digest();
  const Digest after = Maker().at("peak").row(key("Net", "cat(y), cat(w)"), 3 * kKiB, 2).digest();
  EXPECT_THAT(compare(before, after).points[0].rows, IsEmpty());
}

// Two lines of main() become one line of a helper that is called twice.
TEST(Diff, lines_moved_into_a_helper_make_no_difference) {
  const auto of = [](const std::string& function, const std::string& text) {
    DigestKey what = key("", text, "input", "aten::randn");
    what.function = function;
    return what;
  };
  Maker before;
  Maker after;
  for (const char* const point : {"peak", "step end"}) {
    before.at(point).row(of("main", "a = randn()"), kKiB).row(of("main", "b = randn()"), kKiB);
    after.at(point).row(of("make", "return randn()"), 2 * kKiB, 2);
  }
  const Digest one = with_shared_keys(before.digest());
  const Digest other = with_shared_keys(after.digest());
  for (const Diff& diff : {compare(one, other), compare(other, one)}) {
    EXPECT_THAT(diff.findings, IsEmpty());
    for (const DiffPoint& point : diff.points) EXPECT_THAT(point.rows, IsEmpty());
  }
  // Of another size: the sum may be equal, the memory is not.
  const Digest larger =
      Maker().at("peak").row(of("main", "a"), kKiB).row(of("main", "b"), 3 * kKiB).digest();
  const Digest equal = Maker().at("peak").row(of("make", "c"), 4 * kKiB, 2).digest();
  EXPECT_EQ(compare(larger, equal).findings.size(), 1u);
}

TEST(Diff, an_inserted_line_is_not_paired_with_the_line_that_had_its_offset) {
  const auto line = [](std::int64_t offset) {
    DigestKey made = key("Net", "");
    made.offset = offset;
    return made;
  };
  const Digest before = Maker().at("peak").row(line(0), kKiB).row(line(1), 2 * kKiB).digest();
  const Digest after =
      Maker().at("peak").row(line(0), kKiB).row(line(1), 5 * kKiB).row(line(2), 2 * kKiB).digest();
  const DiffCause cause = first_cause(compare(before, after));
  EXPECT_EQ(cause.id, "new");
  EXPECT_EQ(cause.difference_bytes, 5 * kKiB);
}

// Its bytes are those of another line before, but its text is the same.
TEST(Diff, a_line_is_recognized_by_its_text_wherever_it_is_now) {
  DigestKey first = key("Net", "x = f(y)");
  DigestKey second = key("Net", "z = g(x)");
  second.offset = 1;
  const Digest before = Maker().at("peak").row(first, kKiB).row(second, 2 * kKiB).digest();
  first.offset = 1;  // the two are exchanged, and one is larger
  second.offset = 0;
  const Digest after = Maker().at("peak").row(second, 2 * kKiB).row(first, 2 * kKiB).digest();
  const Diff diff = compare(before, after);
  ASSERT_EQ(diff.points[0].rows.size(), 1u);
  EXPECT_EQ(diff.points[0].rows[0].pairing, "same");
  EXPECT_EQ(diff.points[0].rows[0].difference_bytes, kKiB);
  EXPECT_EQ(diff.points[0].causes[0].id, "grew");
}

TEST(Diff, a_new_line_with_the_bytes_of_one_that_grew_is_new) {
  const DigestKey other = key("Net", "return w");
  const Digest before =
      Maker().at("peak").row(key("Net", "x = f(y)"), kKiB).row(other, 20 * kKiB).digest();
  const Digest after = Maker()
                           .at("peak")
                           .row(key("Net", "z = g(x)"), kKiB)
                           .row(key("Net", "x = f(y)"), 5 * kKiB)
                           .row(other, 20 * kKiB)
                           .digest();
  const Diff diff = compare(before, after);
  ASSERT_EQ(diff.points[0].causes.size(), 2u);
  EXPECT_EQ(diff.points[0].causes[0].id, "grew");
  EXPECT_EQ(diff.points[0].causes[0].difference_bytes, 4 * kKiB);
  EXPECT_EQ(diff.points[0].causes[1].id, "new");
}

// A program that was killed has no text; one with other settings has only hashes.
TEST(Diff, without_text_on_both_sides_lines_are_compared_by_their_offset) {
  const auto digest = [](const char* one, const char* other, std::int64_t bytes) {
    DigestKey first = key("Net", one);
    DigestKey second = key("Net", other);
    second.offset = 1;
    return Maker().at("peak").row(first, bytes).row(second, 2 * kKiB).digest();
  };
  const Digest before = digest("x = f(y)", "z = g(x)", kKiB);
  for (const auto& after :
       {digest("", "", 3 * kKiB), digest("#0123456789abcdef", "#00000000000000ff", 3 * kKiB)}) {
    const Diff diff = compare(before, after);
    ASSERT_EQ(diff.points[0].rows.size(), 1u);
    EXPECT_EQ(diff.points[0].rows[0].pairing, "same");
    EXPECT_EQ(diff.points[0].rows[0].difference_bytes, 2 * kKiB);
  }
}

// Only the list of modules shows that it was there.
TEST(Diff, a_module_that_is_listed_is_not_new_although_it_allocated_nothing) {
  const Digest before = Maker()
                            .at("peak")
                            .module("Net")
                            .module("Net.drop")
                            .row(key("Net", "x = f(y)"), kKiB)
                            .digest();
  const Digest after = Maker()
                           .at("peak")
                           .module("Net")
                           .module("Net.drop")
                           .row(key("Net", "x = f(y)"), kKiB)
                           .row(key("Net.drop", "return d(x)"), 9 * kKiB)
                           .digest();
  EXPECT_EQ(first_cause(compare(before, after)).id, "new");
}

TEST(Diff, a_module_that_allocated_nothing_before_is_not_new) {
  const DigestKey convolution = key("Net.main.*", "x");
  const Digest before =
      Maker().at("peak").module("Net.main.*", 2, "0, 2").row(convolution, 2 * kKiB, 2, 2).digest();
  const Digest after = Maker()
                           .at("peak")
                           .module("Net.main.*", 3, "0-2")
                           .row(convolution, 2 * kKiB, 2, 2)
                           .row(key("Net.main.*", "y", "activation", "aten::relu"), kKiB)
                           .digest();
  EXPECT_EQ(first_cause(compare(before, after)).id, "new");
}

TEST(Diff, memory_computed_from_a_resized_layer_counts_with_it) {
  const auto digest = [](std::int64_t width) {
    return Maker()
        .at("peak")
        .row(key("Net.head", "w", "parameter"), width * kKiB)
        .row(key("", "loss"), 10 * width * kKiB)
        .digest();
  };
  const DiffCause cause = first_cause(compare(digest(1), digest(3)));
  EXPECT_EQ(cause.id, "size_changed");
  EXPECT_EQ(cause.difference_bytes, 22 * kKiB);
  EXPECT_THAT(cause.title, HasSubstr("and what is computed from it"));
}

TEST(Diff, a_swap_of_equal_size_is_shown) {
  const Digest before =
      Maker().at("peak").row(key("Net.a", "x", "activation", "one"), kKiB).digest();
  const Digest after =
      Maker().at("peak").row(key("Net.a", "y", "activation", "two"), kKiB).digest();
  const Diff diff = compare(before, after);
  EXPECT_EQ(first_cause(diff).id, "replaced");
  EXPECT_EQ(first_cause(diff).difference_bytes, 0);
  ASSERT_EQ(diff.findings.size(), 1u);
  EXPECT_EQ(diff.findings[0].id, "peak_differs");
}

TEST(Diff, without_a_difference_no_saving_is_promised) {
  const Digest before =
      Maker().at("peak").row(key("Net.a", "x", "activation", "one"), kKiB).digest();
  const Digest after =
      Maker().at("peak").row(key("Net.b", "y", "activation", "two"), kKiB).digest();
  const Diff diff = compare(before, after);
  ASSERT_EQ(diff.findings.size(), 1u);
  EXPECT_EQ(diff.findings[0].saving_bytes(), 0u);
}

// B(b) - A(a) = [B(b) - A(b')] + [A(b') - A(a)].
TEST(Diff, peaks_of_different_phases_are_compared_at_the_higher_one) {
  const Digest before = Maker()
                            .at("peak", "backward")
                            .row(key("Net.a", "x", "activation_gradient"), 10 * kKiB)
                            .at("forward", "forward")
                            .row(key("Net.b", "y"), 6 * kKiB)
                            .digest();
  const Digest after = Maker()
                           .at("peak", "forward")
                           .row(key("Net.b", "y"), 12 * kKiB)
                           .at("forward", "forward")
                           .row(key("Net.b", "y"), 12 * kKiB)
                           .digest();
  const Diff diff = compare(before, after);
  const DiffPoint& peak = diff.points[0];
  EXPECT_EQ(peak.compared_with, "forward");
  EXPECT_EQ(peak.difference_bytes, 2 * kKiB);
  ASSERT_EQ(peak.causes.size(), 2u);
  EXPECT_EQ(peak.causes[0].difference_bytes, 6 * kKiB);
  EXPECT_EQ(peak.causes[1].id, "peak_moved");
  EXPECT_EQ(peak.causes[1].difference_bytes, -4 * kKiB);
}

TEST(Diff, different_environments_are_named) {
  Digest before = Maker().at("peak").row(key("Net.a", "x"), kKiB).digest();
  Digest after = before;
  before.source.torch = "2.12.0";
  after.source.torch = "2.13.0";
  EXPECT_THAT(compare(before, after).notes,
              testing::Contains("The version of PyTorch differs: 2.12.0 before, 2.13.0 after."));
}

Digest random_digest(std::uint32_t seed) {
  std::mt19937 random(seed);
  Maker maker;
  static const std::string kLayers[] = {"", "Net.a", "Net.blocks.*.up", "Net.blocks.*.down"};
  static const std::string kCategories[] = {"activation", "parameter", "gradient", "temporary"};
  static const std::string kTexts[] = {"x", "y", "z"};
  for (const auto& layer : kLayers) maker.module(layer);
  for (const char* const point : {"peak", "forward", "end"}) {
    maker.at(point, random() % 2 == 0 ? "forward" : "backward");
    for (int i = 0; i < 8; ++i) {
      DigestKey made = key(kLayers[random() % 4], kTexts[random() % 3], kCategories[random() % 4]);
      made.function = random() % 2 == 0 ? "f" : "g";
      const std::uint64_t count = random() % 3 + 1;
      maker.row(made, static_cast<std::int64_t>(count * (random() % 5 * 100 + 1)), count);
    }
  }
  return maker.digest();
}

// The sums of each comparison are checked inside.
TEST(Diff, exchanging_the_digests_negates_every_difference) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    const Digest one = random_digest(seed);
    const Digest other = random_digest(seed + 1000);
    const Diff forth = compare(one, other);
    const Diff back = compare(other, one);
    ASSERT_EQ(forth.points.size(), back.points.size());
    for (std::size_t point = 0; point < forth.points.size(); ++point) {
      EXPECT_EQ(forth.points[point].difference_bytes, -back.points[point].difference_bytes);
      std::multiset<std::int64_t> differences;
      for (const DiffRow& row : forth.points[point].rows) differences.insert(row.difference_bytes);
      for (const DiffRow& row : back.points[point].rows) {
        const auto found = differences.find(-row.difference_bytes);
        ASSERT_NE(found, differences.end()) << seed;
        differences.erase(found);
      }
      EXPECT_TRUE(differences.empty()) << seed;
    }
    EXPECT_TRUE(compare(one, one).findings.empty());
  }
}

TEST(Diff, states_how_much_no_operator_uses_again) {
  const DigestKey line = key("Net.a", "x = f(y)");
  const Digest before = Maker().at("peak").row(line, 100 * kKiB).unused(12 * kKiB).digest();
  const Digest after = Maker().at("peak").row(line, 200 * kKiB).unused(80 * kKiB).digest();
  const Diff diff = compare(before, after);
  ASSERT_EQ(diff.points.size(), 1u);
  const auto& unused = diff.points[0].unused;
  ASSERT_TRUE(unused.has_value());
  EXPECT_EQ(unused->before_bytes, 12 * kKiB);
  EXPECT_EQ(unused->after_bytes, 80 * kKiB);
  EXPECT_EQ(unused->difference_bytes, 68 * kKiB);
  EXPECT_FALSE(unused->is_sampled);
  EXPECT_EQ(unused_text(diff.points[0]),
            "No operator uses 80.0 KiB of the peak again, 68.0 KiB more than before.");
  EXPECT_EQ(unused_text(compare(after, before).points[0]),
            "No operator uses 12.0 KiB of the peak again, 68.0 KiB less than before.");
  EXPECT_EQ(unused_text(compare(after, after).points[0]), "");
}

TEST(Diff, what_no_operator_uses_again_is_unknown_unless_both_have_uses) {
  const DigestKey line = key("Net.a", "x = f(y)");
  const Digest known = Maker().at("peak").row(line, kKiB).unused(kKiB).digest();
  const Digest unknown = Maker().at("peak").row(line, 2 * kKiB).digest();
  Digest elsewhere = known;
  elsewhere.points[0].device = elsewhere.keys[0].device = "cuda:0";
  for (const Diff& diff :
       {compare(known, unknown), compare(unknown, known), compare(known, elsewhere)}) {
    for (const DiffPoint& point : diff.points) {
      EXPECT_FALSE(point.unused.has_value());
      EXPECT_EQ(unused_text(point), "");
    }
  }
}

TEST(Diff, notes_which_recording_has_uses_of_only_some_steps) {
  const DigestKey line = key("Net.a", "x = f(y)");
  const Digest all = Maker().at("peak").row(line, kKiB).unused(kKiB).digest();
  const Digest some = Maker().at("peak").row(line, kKiB).unused(0, "some").digest();
  const Diff diff = compare(all, some);
  EXPECT_TRUE(diff.points[0].unused->is_sampled);
  EXPECT_THAT(
      diff.notes,
      testing::Contains("Uses of memory on cpu were observed in all steps before, in some steps "
                        "after."));
  EXPECT_THAT(compare(some, some).notes, Not(testing::Contains(HasSubstr("Uses of memory"))));
}

}  // namespace
}  // namespace plimsoll::comparison

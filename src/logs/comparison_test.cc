#include "logs/comparison.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::logs {
namespace {

using ::testing::ElementsAre;

Figure figure(const char* name, double value) {
  Figure made;
  made.name = name;
  made.add(value, 1);
  return made;
}

LogSummary run(const std::string& path, const std::string& device, double allocated,
               std::uint64_t activations) {
  LogSummary summary;
  summary.source.path = path;
  summary.devices.resize(2);
  summary.devices[0].device = "cpu";
  summary.devices[0].figures = {figure("tensor_bytes", 9e9)};
  summary.devices[1].device = device;
  summary.devices[1].figures = {figure("allocated_bytes", allocated)};
  summary.devices[1].categories = {{"activation", {}, activations, 1, 1}};
  return summary;
}

const ComparedFigure& at_end(const LogComparison& comparison, const std::string& name) {
  for (const ComparedFigure& one : comparison.figures) {
    if (one.name == name && one.at == "end") return one;
  }
  ADD_FAILURE() << "no figure " << name;
  return comparison.figures.front();
}

TEST(LogComparison, of_two_runs_has_differences_and_no_outlier) {
  const LogComparison comparison = compare_logs(
      {run("a/profiles/t.log", "cuda:0", 100, 60), run("b/profiles/t.log", "cuda:0", 150, 90)});
  const ComparedFigure& allocated = at_end(comparison, "allocated_bytes");
  EXPECT_THAT(allocated.values, ElementsAre(100.0, 150.0));
  EXPECT_EQ(allocated.difference, 50.0);
  EXPECT_EQ(at_end(comparison, "activation").difference, 30.0);
  EXPECT_FALSE(allocated.outlier);
  EXPECT_FALSE(comparison.outlier);
  EXPECT_EQ(comparison.runs[1].label, "b");
}

TEST(LogComparison, compares_the_main_device_of_each_rank_and_finds_the_outlier) {
  const LogComparison comparison = compare_logs({run("o/rank0/profiles/t.log", "cuda:0", 100, 60),
                                                 run("o/rank1/profiles/t.log", "cuda:1", 102, 60),
                                                 run("o/rank2/profiles/t.log", "cuda:2", 140, 99),
                                                 run("o/rank3/profiles/t.log", "cuda:3", 99, 60)});
  EXPECT_EQ(comparison.runs[2].label, "rank2");
  EXPECT_EQ(comparison.runs[2].device, "cuda:2");
  const ComparedFigure& allocated = at_end(comparison, "allocated_bytes");
  EXPECT_EQ(allocated.median, 101.0);
  EXPECT_EQ(allocated.outlier, 2U);
  EXPECT_FALSE(allocated.difference);
  EXPECT_EQ(comparison.outlier, 2U);
}

TEST(LogComparison, finds_no_outlier_if_all_differ_or_none_does) {
  const auto outlier = [](double a, double b, double c) {
    return compare_logs(
               {run("1", "cuda:0", a, 1), run("2", "cuda:0", b, 1), run("3", "cuda:0", c, 1)})
        .outlier;
  };
  EXPECT_EQ(outlier(100, 100, 100), std::nullopt);
  EXPECT_EQ(outlier(100, 105, 109), std::nullopt);  // within 10 %
  EXPECT_EQ(outlier(50, 100, 150), std::nullopt);
  EXPECT_EQ(outlier(50, 100, 101), 0U);
}

TEST(LogComparison, omits_figures_that_a_run_does_not_have) {
  LogSummary bare;
  bare.source.path = "bare";
  const LogComparison comparison = compare_logs({run("full", "cuda:0", 100, 60), bare});
  const ComparedFigure& allocated = at_end(comparison, "allocated_bytes");
  EXPECT_THAT(allocated.values, ElementsAre(100.0, std::nullopt));
  EXPECT_FALSE(allocated.difference);
  EXPECT_EQ(comparison.runs[1].device, "");
}

TEST(LogComparison, labels_are_the_distinguishing_part_of_the_path) {
  EXPECT_THAT(labels_of({"o/rank0/profiles/a.log", "o/rank1/profiles/a.log"}),
              ElementsAre("rank0", "rank1"));
  EXPECT_THAT(labels_of({"o/x/profiles/a.log", "o/y/profiles/a.log"}), ElementsAre("x", "y"));
  EXPECT_THAT(labels_of({"o/profiles/a.log", "o/profiles/b.log"}), ElementsAre("a.log", "b.log"));
  EXPECT_THAT(labels_of({"x/rank0/profiles/a.log", "y/rank0/profiles/a.log"}),
              ElementsAre("x", "y"));
  EXPECT_THAT(labels_of({"x/profiles/rank0/a.log", "x/profiles/rank1/a.log",
                         "y/profiles/rank0/a.log", "y/profiles/rank1/a.log"}),
              ElementsAre("x/rank0", "x/rank1", "y/rank0", "y/rank1"));
  EXPECT_THAT(labels_of({"a.log", "./a.log"}), ElementsAre("a.log", "./a.log"));
}

}  // namespace
}  // namespace plimsoll::logs

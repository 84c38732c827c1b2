#include "analysis/pass_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/run_pass.h"

namespace plimsoll::analysis {
namespace {

using report::PassState;

struct Wishes {
  std::vector<const char*> depends_on;
  std::vector<const char*> runs_after;
  std::string why_not;
};

class FakePass final : public Pass {
 public:
  FakePass(const char* name, Wishes wishes) : name_(name), wishes_(std::move(wishes)) {}
  const char* name() const override { return name_; }
  std::span<const char* const> depends_on() const override { return wishes_.depends_on; }
  std::span<const char* const> runs_after() const override { return wishes_.runs_after; }
  std::string why_not(const model::Trace&) const override { return wishes_.why_not; }
  void clear(report::Report&) const override {}
  Status run(PassContext&) const override { return {}; }

 private:
  const char* name_;
  Wishes wishes_;
};

std::unique_ptr<Pass> fake(const char* name, Wishes wishes = {}) {
  return std::make_unique<FakePass>(name, std::move(wishes));
}

std::vector<report::PassRun> run(const tests::Passes& passes) {
  const model::Trace trace;
  return tests::run_passes(trace, passes).passes;
}

TEST(PassRunner, runs_dependencies_first) {
  const auto runs = run(tests::passes(fake("last", {{"middle"}, {}, {}}),
                                      fake("middle", {{"first"}, {}, {}}), fake("first")));
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].name, "first");
  EXPECT_EQ(runs[2].name, "last");
}

TEST(PassRunner, skips_dependents_of_a_skipped_pass_with_the_reason) {
  const auto runs =
      run(tests::passes(fake("a", {{}, {}, "needs events"}), fake("b", {{"a"}, {}, {}})));
  EXPECT_EQ(runs[0].reason, "needs events");
  EXPECT_EQ(runs[1].state, PassState::kSkipped);
  EXPECT_EQ(runs[1].reason, "needs the analysis a");
}

TEST(PassRunner, runs_after_optional_passes_even_if_they_were_skipped_or_are_absent) {
  const auto runs =
      run(tests::passes(fake("b", {{}, {"a", "nobody"}, {}}), fake("a", {{}, {}, "needs events"})));
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].name, "a");
  EXPECT_EQ(runs[1].state, PassState::kRan);
}

// Counts its runs in the report's findings, and reports the options that it uses.
class CountingPass final : public Pass {
 public:
  CountingPass(const char* name, OptionSet uses, std::vector<const char*> runs_after, int& runs)
      : name_(name), uses_(uses), runs_after_(std::move(runs_after)), runs_(runs) {}
  const char* name() const override { return name_; }
  std::span<const char* const> runs_after() const override { return runs_after_; }
  OptionSet uses() const override { return uses_; }
  void clear(report::Report& report) const override {
    std::erase_if(report.findings, [&](const auto& finding) { return finding.id == name_; });
  }
  Status run(PassContext& context) const override {
    ++runs_;
    report::Finding finding;
    finding.id = name_;
    context.report.findings.push_back(std::move(finding));
    return {};
  }

 private:
  const char* name_;
  OptionSet uses_;
  std::vector<const char*> runs_after_;
  int& runs_;
};

class Questions : public testing::Test {
 protected:
  void ask(std::vector<std::string> wanted, OptionSet changed) {
    const model::Trace trace;
    const model::UserLines lines(trace);
    const Options options;
    base::Progress progress;
    PassContext context{trace, lines, options, progress, report_};
    ASSERT_TRUE(run_passes(passes_, wanted, changed, context));
  }
  std::vector<std::string> answers() const {
    std::vector<std::string> ids;
    for (const report::Finding& finding : report_.findings) ids.push_back(finding.id);
    std::ranges::sort(ids);
    return ids;
  }
  std::vector<std::string> runs() const {
    std::vector<std::string> names;
    for (const report::PassRun& run : report_.passes) names.push_back(run.name);
    return names;
  }

  int totals_ = 0, tables_ = 0, verdict_ = 0, other_ = 0;
  tests::Passes passes_ = tests::passes(
      std::make_unique<CountingPass>("verdict", OptionSet::kNone,
                                     std::vector<const char*>{"tables"}, verdict_),
      std::make_unique<CountingPass>("tables", OptionSet::kPoint,
                                     std::vector<const char*>{"totals"}, tables_),
      std::make_unique<CountingPass>("totals", OptionSet::kNone, std::vector<const char*>{},
                                     totals_),
      std::make_unique<CountingPass>("other", OptionSet::kTop, std::vector<const char*>{}, other_));
  report::Report report_;
};

TEST_F(Questions, run_only_the_wanted_passes_and_what_they_build_on) {
  ask({"tables"}, OptionSet::kNone);
  EXPECT_EQ(answers(), (std::vector<std::string>{"tables", "totals"}));
}

TEST_F(Questions, run_nothing_twice) {
  ask({"tables"}, OptionSet::kNone);
  ask({}, OptionSet::kNone);
  ask({}, OptionSet::kNone);
  EXPECT_EQ(totals_ + tables_ + verdict_ + other_, 4);
  EXPECT_EQ(answers(), (std::vector<std::string>{"other", "tables", "totals", "verdict"}));
  EXPECT_EQ(runs(), (std::vector<std::string>{"totals", "tables", "verdict", "other"}));
}

TEST_F(Questions, rerun_what_depends_on_a_changed_option) {
  ask({}, OptionSet::kNone);
  ask({}, OptionSet::kPoint | OptionSet::kDevice);
  EXPECT_EQ(totals_, 1);
  EXPECT_EQ(tables_, 2);
  EXPECT_EQ(verdict_, 2);
  EXPECT_EQ(other_, 1);
  EXPECT_EQ(answers(), (std::vector<std::string>{"other", "tables", "totals", "verdict"}));
}

TEST_F(Questions, drop_stale_results_that_are_not_wanted) {
  ask({}, OptionSet::kNone);
  ask({"totals"}, OptionSet::kPoint);
  EXPECT_EQ(answers(), (std::vector<std::string>{"other", "totals"}));
  EXPECT_EQ(runs(), (std::vector<std::string>{"totals", "other"}));
}

}  // namespace
}  // namespace plimsoll::analysis

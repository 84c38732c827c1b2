#include "analysis/pass_runner.h"

#include <gtest/gtest.h>

#include <string>
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

TEST(PassRunner, runs_what_is_depended_on_first) {
  const auto runs = run(tests::passes(fake("last", {{"middle"}, {}, {}}),
                                      fake("middle", {{"first"}, {}, {}}), fake("first")));
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].name, "first");
  EXPECT_EQ(runs[2].name, "last");
}

TEST(PassRunner, skips_what_depends_on_a_skipped_pass_and_says_so) {
  const auto runs =
      run(tests::passes(fake("a", {{}, {}, "needs events"}), fake("b", {{"a"}, {}, {}})));
  EXPECT_EQ(runs[0].reason, "needs events");
  EXPECT_EQ(runs[1].state, PassState::kSkipped);
  EXPECT_EQ(runs[1].reason, "needs the analysis a");
}

TEST(PassRunner, waits_for_what_it_runs_after_and_does_not_mind_if_it_was_skipped_or_is_absent) {
  const auto runs =
      run(tests::passes(fake("b", {{}, {"a", "nobody"}, {}}), fake("a", {{}, {}, "needs events"})));
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].name, "a");
  EXPECT_EQ(runs[1].state, PassState::kRan);
}

}  // namespace
}  // namespace plimsoll::analysis

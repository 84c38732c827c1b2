#include "logs/finder.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace plimsoll::logs {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LogFinder : public ::testing::Test {
 protected:
  fs::path write(const std::string& place, int age_s, const std::string& text = "x") {
    const fs::path path = fs::path(folder_.path()) / place;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::seconds(age_s));
    return path;
  }
  Result<LatestRun> latest(const SearchLimits& limits = {}) {
    return find_latest_run(folder_.path(), limits);
  }

  tests::TemporaryFolder folder_;
};

TEST_F(LogFinder, finds_the_newest_of_all_runs_below) {
  write("profiles/tensor_profile_1.log", 30);
  const fs::path newest = write("output/ship/profiles/tensor_profile_2.log", 10);
  write("output/sea/profiles/tensor_profile_3.log", 20);
  write("output/ship/profiles/other.log", 0);
  write(".git/profiles/tensor_profile_4.log", 0);
  const auto run = latest();
  ASSERT_TRUE(run.ok());
  EXPECT_THAT(run->logs, ElementsAre(newest.string()));
  EXPECT_TRUE(run->is_complete);
}

TEST_F(LogFinder, skips_newer_logs_without_a_complete_sample) {
  const std::string sample = "# header\n\n=== Iteration 0 | x ===\nDevice: cpu\n\n";
  const fs::path usable = write("a/profiles/tensor_profile_1.log", 30, sample);
  const fs::path empty = write("b/profiles/tensor_profile_2.log", 10, "# header\n\n");
  write("b/profiles/tensor_profile_3.log", 20,
        "# header\n\n=== Iteration 0 | x ===\nDevice: cpu\n");
  EXPECT_THAT(latest()->logs, ElementsAre(usable.string()));
  EXPECT_EQ(latest()->skipped, empty.string());
  fs::remove(usable);
  EXPECT_THAT(latest()->logs, ElementsAre(empty.string()));  // whose error states why
  EXPECT_EQ(latest()->skipped, "");
}

TEST_F(LogFinder, finds_the_newest_log_of_each_rank_of_the_newest_run) {
  write("output/a/rank0/profiles/tensor_profile_1.log", 900);
  const fs::path first = write("output/a/rank0/profiles/tensor_profile_2.log", 20);
  const fs::path second = write("output/a/rank1/profiles/tensor_profile_2.log", 21);
  const fs::path tenth = write("output/a/rank10/profiles/tensor_profile_2.log", 10);
  write("output/b/rank0/profiles/tensor_profile_3.log", 99);
  write("output/a/profiles/tensor_profile_3.log", 99);
  EXPECT_THAT(latest()->logs, ElementsAre(first.string(), second.string(), tenth.string()));
}

TEST_F(LogFinder, finds_ranks_inside_the_profiles_folder) {
  const fs::path first = write("out/profiles/rank0/tensor_profile_2.log", 20);
  const fs::path second = write("out/profiles/rank1/tensor_profile_2.log", 21);
  EXPECT_THAT(latest()->logs, ElementsAre(first.string(), second.string()));
}

TEST_F(LogFinder, follows_links_once) {
  write("disk/run/profiles/tensor_profile_1.log", 10);
  fs::create_directories(fs::path(folder_.path()) / "project");
  fs::create_directory_symlink("../disk/run", fs::path(folder_.path()) / "project/output");
  fs::create_directory_symlink("../..", fs::path(folder_.path()) / "disk/run/loop");
  const auto run = find_latest_run(folder_.path() + std::string("/project"));
  ASSERT_TRUE(run.ok());
  EXPECT_THAT(run->logs, ElementsAre(HasSubstr("project/output/profiles/tensor_profile_1.log")));
}

TEST_F(LogFinder, stops_at_its_limits_and_reports_it) {
  for (int i = 0; i < 20; ++i) write("images/" + std::to_string(i) + ".png", 0);
  write("a/b/c/profiles/tensor_profile_1.log", 0);
  SearchLimits limits;
  limits.entries_of_a_folder = 10;
  EXPECT_FALSE(latest(limits)->is_complete);
  limits = {};
  limits.depth = 3;
  EXPECT_THAT(latest(limits).error().message, HasSubstr("3 levels below"));
  limits = {};
  limits.time_ns = -1;
  EXPECT_THAT(latest(limits).error().message, HasSubstr("as far as searched"));
}

}  // namespace
}  // namespace plimsoll::logs

#include "plimsoll/process_rank.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "monitor/log_finder.h"
#include "plimsoll/training_monitor.h"
#include "tests/support/temporary_folder.h"

namespace plimsoll {
namespace {

using testing::HasSubstr;

// Ends as it began: without ranks.
class ProcessRankTest : public testing::Test {
 protected:
  ProcessRankTest() { forget(); }
  ~ProcessRankTest() override { forget(); }

  static void launch(const char* rank, const char* world_size) {
    ::setenv("RANK", rank, 1);
    ::setenv("WORLD_SIZE", world_size, 1);
  }

 private:
  static void forget() {
    ::unsetenv("RANK");
    ::unsetenv("LOCAL_RANK");
    ::unsetenv("WORLD_SIZE");
    ::unsetenv("PLIMSOLL_MONITOR_PRINT_RANKS");
    set_process_rank({.rank = 0, .world_size = 0});
  }
};

TEST_F(ProcessRankTest, a_single_process_has_no_rank) {
  EXPECT_EQ(process_rank(), std::nullopt);
  launch("0", "1");
  EXPECT_EQ(process_rank(), std::nullopt);
  EXPECT_EQ(rank_folder("out"), "out");
  EXPECT_EQ(with_rank("a line"), "a line");
  EXPECT_EQ(printed_by_rank("a line"), "a line");
}

TEST_F(ProcessRankTest, torchrun_gives_it_in_the_environment) {
  launch("1", "2");
  EXPECT_EQ(process_rank(), (ProcessRank{.rank = 1, .world_size = 2}));
  EXPECT_EQ(rank_folder("out"), "out/rank1");
  EXPECT_EQ(with_rank("a line"), "[rank 1] a line");
  EXPECT_EQ(with_rank("two\nlines\n"), "[rank 1] two\n[rank 1] lines\n");
  EXPECT_EQ(with_rank(""), "");
}

TEST_F(ProcessRankTest, without_a_rank_the_local_one_counts) {
  ::setenv("WORLD_SIZE", "2", 1);
  ::setenv("LOCAL_RANK", "1", 1);
  EXPECT_EQ(process_rank(), (ProcessRank{.rank = 1, .world_size = 2}));
  ::setenv("RANK", "0", 1);
  EXPECT_EQ(process_rank(), (ProcessRank{.rank = 0, .world_size = 2}));
}

TEST_F(ProcessRankTest, what_makes_no_sense_is_no_rank) {
  for (const char* const rank : {"", "one", "2", "-1", "1x"}) {
    launch(rank, "2");
    EXPECT_EQ(process_rank(), std::nullopt) << rank;
  }
}

TEST_F(ProcessRankTest, a_rank_that_is_set_goes_before_the_environment) {
  launch("1", "2");
  set_process_rank({.rank = 3, .world_size = 8});
  EXPECT_EQ(process_rank(), (ProcessRank{.rank = 3, .world_size = 8}));
  set_process_rank({.rank = 0, .world_size = 1});
  EXPECT_EQ(process_rank(), std::nullopt);
}

TEST_F(ProcessRankTest, by_option_only_the_first_prints) {
  ::setenv("PLIMSOLL_MONITOR_PRINT_RANKS", "first", 1);
  launch("1", "2");
  EXPECT_EQ(printed_by_rank("a line"), std::nullopt);
  EXPECT_EQ(with_rank("an alert"), "[rank 1] an alert");
  launch("0", "2");
  EXPECT_EQ(printed_by_rank("a line"), "[rank 0] a line");
}

TEST_F(ProcessRankTest, each_rank_has_its_own_log_and_event_file) {
  const tests::TemporaryFolder of_test;
  const std::string& folder = of_test.path();
  MonitorOptions options;
  options.output_dir = folder;
  options.tensorboard = "true";
  options.interval = 1;
  for (const char* const rank : {"0", "1"}) {
    launch(rank, "2");
    TrainingMonitor monitor(options);
    monitor.step();
    const std::string of_rank = std::string("/rank") + rank + "/";
    EXPECT_THAT(monitor.text_log_path(), HasSubstr(folder + "/profiles" + of_rank));
    EXPECT_THAT(monitor.event_file_path(), HasSubstr(folder + "/tensorboard" + of_rank));
    std::ifstream log(monitor.text_log_path());
    const std::string text(std::istreambuf_iterator<char>(log), {});
    EXPECT_THAT(text, HasSubstr(std::string("rank ") + rank + " of 2\n"));
  }
  const auto latest = monitor::find_latest_run(folder);
  ASSERT_TRUE(latest.ok()) << latest.error().message;
  EXPECT_THAT(latest->logs,
              testing::ElementsAre(HasSubstr("/profiles/rank0/"), HasSubstr("/profiles/rank1/")));
}

}  // namespace
}  // namespace plimsoll

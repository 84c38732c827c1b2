#include "monitor/snapshot_windows.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::monitor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// "5 begins at 4", "5 ends at 5", for a loop that reports iterations from .. to.
std::vector<std::string> reported(std::vector<std::int64_t> asked, std::int64_t from,
                                  std::int64_t to, std::int64_t stride = 1) {
  SnapshotWindows windows(std::move(asked));
  std::vector<std::string> all;
  const auto emit = [&](const SnapshotWindows::Change& change, const std::string& when) {
    if (change.ends) all.push_back("ends at " + when);
    if (change.begins) all.push_back(std::to_string(*change.begins) + " begins at " + when);
  };
  emit(windows.begin(), "the start");
  for (std::int64_t i = from; i <= to; i += stride) {
    emit(windows.iteration_ended(i), std::to_string(i));
  }
  if (windows.is_open()) all.emplace_back("open");
  return all;
}

TEST(SnapshotWindows, record_an_iteration_from_the_end_of_the_one_before) {
  EXPECT_THAT(reported({5, 10}, 0, 20),
              ElementsAre("5 begins at 4", "ends at 5", "10 begins at 9", "ends at 10"));
  EXPECT_THAT(reported({5, 6}, 0, 20),
              ElementsAre("5 begins at 4", "ends at 5", "6 begins at 5", "ends at 6"));
  EXPECT_THAT(reported({}, 0, 20), IsEmpty());
}

TEST(SnapshotWindows, record_the_first_iteration_from_the_start) {
  EXPECT_THAT(reported({0}, 0, 5), ElementsAre("0 begins at the start", "ends at 0"));
  EXPECT_THAT(reported({1}, 1, 5), ElementsAre("1 begins at the start", "ends at 1"));
  EXPECT_THAT(reported({0, 1}, 0, 5),
              ElementsAre("0 begins at the start", "ends at 0", "1 begins at 0", "ends at 1"));
}

TEST(SnapshotWindows, skip_iterations_before_a_resumed_run) {
  EXPECT_THAT(reported({100, 5000}, 4000, 6000),
              ElementsAre("5000 begins at 4999", "ends at 5000"));
  EXPECT_THAT(reported({5000}, 5000, 5010), ElementsAre("5000 begins at 5000", "ends at 5001"));
}

TEST(SnapshotWindows, cover_the_iteration_if_reports_are_less_frequent) {
  EXPECT_THAT(reported({1005}, 0, 2000, 10), ElementsAre("1005 begins at 1000", "ends at 1010"));
  EXPECT_THAT(
      reported({1000, 1003}, 0, 2000, 10),
      ElementsAre("1000 begins at 990", "ends at 1000", "1003 begins at 1000", "ends at 1010"));
}

TEST(SnapshotWindows, stay_open_if_the_run_ends_first) {
  EXPECT_THAT(reported({10}, 0, 9), ElementsAre("10 begins at 9", "open"));
}

}  // namespace
}  // namespace plimsoll::monitor

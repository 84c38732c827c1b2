#include "logs/rank_tags.h"

#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "logs/reader.h"

namespace plimsoll::logs {
namespace {

using testing::ElementsAre;
using testing::Pair;

std::string process_of(const std::vector<std::string>& lines) {
  RankTags tags;
  std::string process;
  for (const std::string& line : lines) process = tags.take(line).process;
  return process;
}

TEST(RankTags, of_launchers) {
  EXPECT_EQ(process_of({"[rank3]: step 1"}), "rank 3");
  EXPECT_EQ(process_of({"[default3]:step 1"}), "rank 3");
  EXPECT_EQ(process_of({"[1,3]<stdout>:step 1"}), "rank 3");
  EXPECT_EQ(process_of({"(RayTrainWorker pid=77, ip=10.0.0.1) step 1"}), "pid 77");
  EXPECT_EQ(process_of({"[2026-11-29 12:00:00] [Rank 3] step 1"}), "rank 3");
  EXPECT_EQ(process_of({"INFO rank=3 step 1"}), "rank 3");
  EXPECT_EQ(process_of({"[pod/trainer-3/main] step 1"}), "pod/trainer-3/main");
  EXPECT_EQ(process_of({"3: step 1"}), "rank 3");
  EXPECT_EQ(process_of({"worker-3: [INFO] step 1"}), "worker-3");
  EXPECT_EQ(process_of({"trainer-3  | step 1"}), "trainer-3");
  EXPECT_EQ(process_of({"3: loading", "3: Allocated: 5 MB"}), "rank 3");
}

TEST(RankTags, of_iterations_and_devices_are_none) {
  EXPECT_EQ(process_of({"0: Allocated: 4 MB", "1: Allocated: 5 MB"}), "");
  for (const char* const line :
       {"[ITERATION 50000]", "[step3]: Allocated: 5 MB", "step-3: Allocated: 5 MB", "GPU0: 5 MB",
        "[3]: Allocated: 5 MB", "2026-11-29 12:00:00 | INFO", "12:00:01: Allocated: 5 MB"}) {
    EXPECT_EQ(process_of({line, line}), "") << line;
  }
}

std::map<std::string, std::vector<std::uint64_t>> allocated_in(const std::string& text) {
  std::map<std::string, std::vector<std::uint64_t>> all;
  const auto contents = read_log_bytes(text, "a.log", [&](const auto&, const MemorySample& sample) {
    for (const DeviceMemory& device : sample.devices) {
      all[device.name].push_back(device.allocated_bytes.value_or(0) >> 20);
    }
  });
  EXPECT_TRUE(contents.ok()) << contents.error().message;
  return all;
}

TEST(RankTags, processes_that_share_a_log_are_apart) {
  for (const char* const form : {"[rank%]: ", "%: ", "[default%]:", "[1,%]<stdout>:"}) {
    std::string text;
    for (int step = 0; step < 2; ++step) {
      for (int rank = 0; rank < 2; ++rank) {
        std::string tag = form;
        tag.replace(tag.find('%'), 1, std::to_string(rank));
        text += tag + "step " + std::to_string(step) + "\n" + tag +
                "Allocated: " + std::to_string(100 * (rank + 1) + step) + " MB\n";
      }
    }
    EXPECT_THAT(allocated_in(text), ElementsAre(Pair("rank 0", ElementsAre(100, 101)),
                                                Pair("rank 1", ElementsAre(200, 201))))
        << form;
  }
  EXPECT_THAT(allocated_in("\x1b[36m(Worker pid=7)\x1b[0m Allocated: \x1b[1m5\x1b[0m MB\n"),
              ElementsAre(Pair("pid 7", ElementsAre(5))));
  EXPECT_THAT(
      allocated_in("worker-0: x MA 1 GB Max_MA 1 GB CA 1 GB Max_CA 1 GB\n"
                   "worker-0: step 1 MA 3 GB Max_MA 3 GB CA 3 GB Max_CA 3 GB\n"
                   "worker-1: step 1 MA 2 GB Max_MA 2 GB CA 2 GB Max_CA 2 GB\n")["worker-1"],
      ElementsAre(2048));
}

TEST(RankTags, devices_of_one_process_are_apart) {
  EXPECT_THAT(
      allocated_in("step 1 GPU 0: 10 MB, GPU 1: 20 MB\nstep 2 GPU 0: 11 MB, GPU 1: 21 MB\n"),
      ElementsAre(Pair("gpu:0", ElementsAre(10, 11)), Pair("gpu:1", ElementsAre(20, 21))));
  EXPECT_THAT(
      allocated_in("cuda:0 allocated: 5 MB, reserved: 9 MB\ncuda:1: 6 MB\nGPU total: 80 GB\n"),
      ElementsAre(Pair("cuda:0", ElementsAre(5)), Pair("cuda:1", ElementsAre(6))));
}

}  // namespace
}  // namespace plimsoll::logs

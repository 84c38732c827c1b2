// NVTX with a fake tool (tests/support/fake_nvtx_tool.cc). A process connects only once, so each
// question runs in a separate process: gtest's "threadsafe" death tests, whose bodies end with exit
// code 0.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "monitor/nvtx_ranges.h"
#include "plimsoll/monitor.h"
#include "plimsoll/recorder.h"
#include "plimsoll/training_monitor.h"

namespace plimsoll {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// The path is the same in both processes of a test, but differs for each test and build, because
// these run in parallel.
std::string log_path() {
  const char* test = testing::UnitTest::GetInstance()->current_test_info()->name();
  return std::filesystem::read_symlink("/proc/self/exe").string() + "." + test + ".nvtx.log";
}

// The lines of the tool's log, without the numbers of threads.
std::vector<std::string> reported() {
  std::vector<std::string> lines;
  std::ifstream log(log_path());
  for (std::string line; std::getline(log, line);) lines.push_back(line.substr(line.find(' ') + 1));
  return lines;
}
std::vector<std::string> reported_without_marks() {
  std::vector<std::string> lines = reported();
  std::erase_if(lines, [](const std::string& line) { return line.starts_with("mark"); });
  return lines;
}

class NvtxRanges : public testing::Test {
 protected:
  NvtxRanges() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    std::filesystem::remove(log_path());
  }
  static void have_tool() {
    ::setenv("NVTX_INJECTION64_PATH", FAKE_NVTX_TOOL, 1);
    ::setenv("FAKE_NVTX_LOG", log_path().c_str(), 1);
  }
};

[[noreturn]] void finish() {
  const auto* result = testing::UnitTest::GetInstance()->current_test_info()->result();
  std::_Exit(result->Failed() ? 1 : 0);
}
#define IN_A_PROCESS(...) EXPECT_EXIT(__VA_ARGS__, testing::ExitedWithCode(0), "")

TEST_F(NvtxRanges, ScopesOfAProgramNest) {
  IN_A_PROCESS({
    have_tool();
    EXPECT_TRUE(start_watching().ok());
    EXPECT_TRUE(start_nvtx().ok());
    {
      PLIMSOLL_REGION("training");
      {
        PLIMSOLL_LAYER("Net");
        PLIMSOLL_LAYER("fc1");
      }
      const OptimizerPhase phase;
      step(7);
    }
    stop_nvtx();
    EXPECT_THAT(reported_without_marks(),
                ElementsAre("initialize", "domain Plimsoll", "start 101 step first step",
                            "push region training", "push phase forward", "push layer Net",
                            "push layer Net.fc1", "pop", "pop", "pop", "push phase optimizer",
                            "end 101", "start 102 step step 8", "pop", "pop", "end 102"));
    finish();
  });
}

TEST_F(NvtxRanges, BytesAreReportedAtSteps) {
  IN_A_PROCESS({
    have_tool();
    EXPECT_TRUE(start_watching().ok());
    EXPECT_TRUE(start_nvtx().ok());
    const plimsoll_recorder_api& api = *plimsoll_recorder();
    api.alloc(api.context(), 0, 4096, 12345);
    step(0);
    EXPECT_THAT(reported(), testing::Contains("mark memory cpu allocated bytes = 12345"));
    finish();
  });
}

// The end of a range may come while an allocator holds its lock: nothing may be queried there.
TEST_F(NvtxRanges, EndsOfRangesQueryNoBytes) {
  IN_A_PROCESS({
    have_tool();
    EXPECT_TRUE(start_watching().ok());
    EXPECT_TRUE(start_nvtx().ok());
    const plimsoll_recorder_api& api = *plimsoll_recorder();
    api.alloc(api.context(), 0, 4096, 12345);
    api.settle();
    {
      PLIMSOLL_REGION("training");
    }
    EXPECT_EQ(reported(), reported_without_marks());
    EXPECT_THAT(reported(), testing::Contains("push region training"));
    finish();
  });
}

TEST_F(NvtxRanges, AllocatorsOwnFiguresAreReportedWithoutARecording) {
  IN_A_PROCESS({
    have_tool();
    EXPECT_TRUE(start_watching().ok());
    set_device_source([] {
      DeviceMemory cpu;
      cpu.name = "cpu";
      cpu.allocated_bytes = 1;
      DeviceMemory gpu;
      gpu.name = "cuda:0";
      gpu.allocated_bytes = 100;
      gpu.reserved_bytes = 200;
      return std::vector<DeviceMemory>{cpu, gpu};
    });
    EXPECT_TRUE(start_nvtx().ok());
    step(0);
    EXPECT_THAT(reported(), testing::Contains("mark memory cuda:0 allocated bytes = 100"));
    EXPECT_THAT(reported(), testing::Contains("mark memory cuda:0 reserved bytes = 200"));
    EXPECT_THAT(reported(), testing::Not(testing::Contains("mark memory cpu allocated bytes = 1")));
    finish();
  });
}

TEST_F(NvtxRanges, RangesStayPairedOnEachThreadEvenIfSomeWereMissed) {
  IN_A_PROCESS({
    have_tool();
    EXPECT_TRUE(start_watching().ok());
    const plimsoll_recorder_api& api = *plimsoll_recorder();
    const auto name = [&](const char* text) { return api.name(text, std::string(text).size()); };
    const auto mark = [&](plimsoll_mark kind, const char* text) {
      api.mark(api.context(), kind, name(text));
    };
    for (const char* text : {"before", "outer", "never ended", "inner", "more"}) name(text);
    mark(PLIMSOLL_MARK_REGION_BEGIN, "before");  // no subscriber yet
    EXPECT_TRUE(start_nvtx().ok());
    mark(PLIMSOLL_MARK_REGION_END, "before");
    mark(PLIMSOLL_MARK_REGION_BEGIN, "outer");
    mark(PLIMSOLL_MARK_REGION_BEGIN, "never ended");
    std::thread([&] {
      mark(PLIMSOLL_MARK_REGION_END, "outer");  // not from this thread
      mark(PLIMSOLL_MARK_REGION_BEGIN, "inner");
      mark(PLIMSOLL_MARK_REGION_END, "inner");
    }).join();
    mark(PLIMSOLL_MARK_REGION_END, "outer");
    EXPECT_THAT(
        reported_without_marks(),
        ElementsAre("initialize", "domain Plimsoll", StartsWith("start"), "push region outer",
                    "push region never ended", "push region inner", "pop", "pop", "pop"));
    finish();
  });
}

// A recursive layer: ranges too deep to be shown do not close those above them.
TEST_F(NvtxRanges, RangesBeyondTheDepthLimitEndNoOther) {
  IN_A_PROCESS({
    have_tool();
    EXPECT_TRUE(start_watching().ok());
    EXPECT_TRUE(start_nvtx().ok());
    const plimsoll_recorder_api& api = *plimsoll_recorder();
    const std::uint64_t again = api.name("again", 5);
    for (int i = 0; i < 300; ++i) api.mark(api.context(), PLIMSOLL_MARK_REGION_BEGIN, again);
    const auto count_of = [](const char* what) {
      const std::vector<std::string> lines = reported();
      return std::count(lines.begin(), lines.end(), what);
    };
    EXPECT_EQ(count_of("push region again"), 256);
    for (int i = 0; i < 44; ++i) api.mark(api.context(), PLIMSOLL_MARK_REGION_END, again);
    EXPECT_EQ(count_of("pop"), 0);
    for (int i = 0; i < 256; ++i) api.mark(api.context(), PLIMSOLL_MARK_REGION_END, again);
    EXPECT_EQ(count_of("pop"), 256);
    finish();
  });
}

TEST_F(NvtxRanges, WithoutAToolNothingIsReportedAndASentenceSaysSo) {
  IN_A_PROCESS({
    ::unsetenv("NVTX_INJECTION64_PATH");
    const Status started = start_nvtx();
    EXPECT_EQ(started.error().code, ErrorCode::kUnsupported);
    EXPECT_TRUE(monitor::may_print_nvtx_failure());
    EXPECT_FALSE(monitor::may_print_nvtx_failure());
    EXPECT_THAT(started.error().message, HasSubstr("plimsoll nsys"));
    EXPECT_EQ(*plimsoll_recorder()->range_listener, nullptr);
    finish();
  });
  IN_A_PROCESS({
    ::setenv("NVTX_INJECTION64_PATH", "/nowhere/tool.so", 1);
    EXPECT_THAT(start_nvtx().error().message, HasSubstr("/nowhere/tool.so"));
    finish();
  });
  IN_A_PROCESS({
    ::setenv("NVTX_INJECTION64_PATH", "libdl.so.2", 1);
    EXPECT_THAT(start_nvtx().error().message, HasSubstr("is not a tool"));
    finish();
  });
  IN_A_PROCESS({
    have_tool();
    ::setenv("FAKE_NVTX_REFUSES", "1", 1);
    EXPECT_THAT(start_nvtx().error().message, HasSubstr("does not accept"));
    EXPECT_EQ(*plimsoll_recorder()->range_listener, nullptr);
    finish();
  });
}

// Without a request there is no cost: the tool's library is not even loaded.
TEST_F(NvtxRanges, NothingIsLoadedUnlessRequested) {
  IN_A_PROCESS({
    have_tool();
    EXPECT_TRUE(start_watching().ok());
    MonitorOptions options;
    options.text_log = false;
    std::vector<std::string> said;
    const LinePrinter say = [&](const std::string& line) { said.push_back(line); };
    {
      TrainingMonitor off(options, say);
      PLIMSOLL_REGION("unseen");
      off.step();
    }
    EXPECT_FALSE(std::filesystem::exists(log_path()));
    EXPECT_EQ(*plimsoll_recorder()->range_listener, nullptr);
    options.nvtx = true;
    TrainingMonitor on(options, say);
    {
      PLIMSOLL_REGION("seen");
    }
    EXPECT_THAT(reported(), testing::Contains("push region seen"));
    on.close();
    EXPECT_EQ(*plimsoll_recorder()->range_listener, nullptr);
    EXPECT_TRUE(said.empty());
    finish();
  });
}

}  // namespace
}  // namespace plimsoll

#include "plimsoll/tensor_breakdown.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "plimsoll/recorder_c.h"

namespace plimsoll {
namespace {

std::map<std::string, double> breakdown(std::int64_t iteration, const BreakdownOptions& options) {
  std::map<std::string, double> scalars;
  const Status status = log_tensor_memory_breakdown(
      [&](const std::string& tag, double value, std::int64_t at) {
        EXPECT_EQ(at, iteration);
        scalars[tag] = value;
      },
      iteration, options);
  EXPECT_TRUE(status);
  return scalars;
}

TEST(TensorBreakdown, writes_the_tags_only_at_its_interval) {
  ASSERT_TRUE(start_watching());
  const plimsoll_recorder_api* api = plimsoll_recorder();
  const std::uint32_t tensor = api->tensor(PLIMSOLL_ROLE_PARAMETER, 0, 0, 0);
  api->adopt(api->context(), 0, 0x7000, 3 << 20, tensor);
  EXPECT_TRUE(breakdown(49, {}).empty());
  const auto scalars = breakdown(100, {.section = "Mine"});
  EXPECT_EQ(scalars.at("Mine/Tensor_Category/parameters_MB"), 3.0);
  api->free(api->context(), 0, 0x7000);
  stop_watching();
}

TEST(TensorBreakdown, rejects_an_interval_that_is_not_positive) {
  const Status status = log_tensor_memory_breakdown({}, 0, {.interval = 0});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "interval=0: it must be positive");
}

TEST(MonitorMemory, prints_a_line_for_each_call_and_passes_everything_through) {
  std::vector<std::string> lines;
  const auto print = [&](const std::string& line) { lines.push_back(line); };
  auto add = monitor_memory(
      "add", [](std::unique_ptr<int> a, int& b) -> int& { return b += *a, b; }, print);
  int sum = 1;
  EXPECT_EQ(&add(std::make_unique<int>(2), sum), &sum);
  EXPECT_EQ(sum, 3);
  auto fail = monitor_memory("fail", [] { throw std::runtime_error("theirs"); }, print);
  EXPECT_THROW(fail(), std::runtime_error);
  ASSERT_EQ(lines.size(), 4);  // one per call: how memory changed, and its peak
  EXPECT_TRUE(lines[0].starts_with("[Memory] add: ")) << lines[0];
  EXPECT_TRUE(lines[2].starts_with("[Memory] fail: ")) << lines[2];
}

}  // namespace
}  // namespace plimsoll

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/monitor_options.h"

namespace plimsoll {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Case {
  const char* name;
  const char* value;
  const char* text;  // afterwards
};

TEST(MonitorOptions, values_are_read_from_text) {
  const std::vector<Case> cases = {
      {"enabled", "No", "false"},
      {"enable_memory_monitoring", "off", "false"},
      {"text_log", " 0 ", "false"},
      {"profile_tensors", "True", "true"},
      {"verbose_batches", "0", "0"},
      {"memory_monitor_batches", "12", "12"},
      {"interval", "1", "1"},
      {"interval", "0", "0"},
      {"profile_interval", "7", "7"},
      {"tensor_profile_interval", "8", "8"},
      {"phases", "500-:100, 0-500:10", "0-500:10,500-:100"},
      {"phases", "", ""},
      {"snapshot_at", "5000, 1000,5000", "1000,5000"},
      {"snapshot_at", "", ""},
      {"output_dir", "/tmp/a b", "/tmp/a b"},
      {"tensorboard", "yes", "true"},
      {"tensorboard", "", "false"},
      {"tensorboard", "auto", "auto"},
      {"tensorboard", "runs/1", "runs/1"},
      {"large_tensor_mb", "1.5GB", "1536"},
      {"large_tensor_mb", "0.25 MB", "0.25"},
      {"fragmentation_percent", "12.5%", "12.5"},
      {"adapter", "python", "python"},
      {"record", "a.plim", "a.plim"},
  };
  for (const Case& c : cases) {
    MonitorOptions options;
    const Status status = options.set(c.name, c.value);
    ASSERT_TRUE(status.ok()) << c.name << "=" << c.value << ": " << status.error().message;
    EXPECT_EQ(options.text(c.name), c.text) << c.name;
  }
}

TEST(MonitorOptions, wrong_values_are_reported_with_valid_ones_and_change_nothing) {
  const std::vector<std::pair<Case, const char*>> cases = {
      {{"enabled", "maybe", ""}, "enabled is 'maybe'; it must be true or false"},
      {{"interval", "-3", ""}, "interval is '-3'"},
      {{"interval", "5x", ""}, "interval is '5x'"},
      {{"interval", "99999999999999999999", ""}, "interval is '99999999999999999999'"},
      {{"profile_interval", "often", ""}, "interval is 'often'; it must be a whole number"},
      {{"alert_every", "0", ""}, "alert_every is '0'; it must be a whole number of at least 1"},
      {{"snapshot_at", "1000,soon", ""}, "snapshot_at: 'soon' is not an iteration"},
      {{"snapshot_at", "-1", ""}, "snapshot_at: '-1' is not an iteration"},
      {{"verbose_batches", "-1", ""}, "verbose_batches is '-1'; it must be a whole number"},
      {{"fragmentation_percent", "101", ""}, "is '101'; it must be from 0 to 100"},
      {{"growth_percent", "nan", ""}, "is 'nan'; it must be from 0 to 100"},
      {{"large_tensor_mb", "big", ""}, "is 'big'; it must be a size in MB"},
      {{"large_tensor_mb", "1e300", ""}, "is '1e300'"},
      {{"output_dir", "", ""}, "output_dir is empty"},
      {{"adapter", "libtorhc", ""}, "did you mean libtorch?"},
      {{"phases", "10", ""}, "'10' is not FROM-TO:INTERVAL"},
      {{"phases", "a-b:c", ""}, "'a-b:c' is not FROM-TO:INTERVAL"},
      {{"phases", "-", ""}, "'-' is not FROM-TO:INTERVAL"},
      {{"phases", "5-5:1", ""}, "5-5 has no iteration"},
      {{"phases", "-5-5:1", ""}, "-5-5 begins below 0"},
      {{"phases", "0-5:0", ""}, "the interval of 0-5 is 0; it must be at least 1"},
      {{"phases", "0-10:1,9-:2", ""}, "0-10 and 9- both hold iteration 9"},
  };
  for (const auto& [c, says] : cases) {
    MonitorOptions options;
    const Status status = options.set(c.name, c.value);
    ASSERT_FALSE(status.ok()) << c.name << "=" << c.value;
    EXPECT_THAT(status.error().message, HasSubstr(says));
    EXPECT_EQ(options, MonitorOptions{});
  }
}

TEST(MonitorOptions, an_unknown_name_is_reported_with_the_closest_one) {
  MonitorOptions options;
  EXPECT_EQ(options.set("verbos_batches", "1").error().message,
            "no option 'verbos_batches': did you mean 'verbose_batches'?");
  EXPECT_EQ(options.set("memory_monitor_batchs", "1").error().message,
            "no option 'memory_monitor_batchs': did you mean 'memory_monitor_batches'?");
  EXPECT_THAT(options.set("zzz", "1").error().message, HasSubstr("docs/monitoring-reference.md"));
}

TEST(MonitorOptions, values_set_directly_are_checked_the_same_way) {
  EXPECT_TRUE(MonitorOptions{}.check().ok());
  MonitorOptions options;
  options.interval = -1;
  EXPECT_THAT(options.check().error().message, HasSubstr("interval is '-1'"));
  options = {};
  options.phases = {{.from = 0, .to = 9, .interval = 1}, {.from = 3, .to = 5, .interval = 1}};
  EXPECT_THAT(options.check().error().message, HasSubstr("both hold iteration 3"));
}

TEST(MonitorOptions, phases_have_their_own_interval) {
  MonitorOptions options;
  ASSERT_TRUE(options.set("phases", "10-20:5,100-:200").ok());
  std::vector<std::int64_t> due;
  for (std::int64_t i = 0; i <= 400; ++i) {
    if (options.is_due(i)) due.push_back(i);
  }
  EXPECT_THAT(due, ElementsAre(0, 10, 15, 50, 200, 400));
  options.enabled = false;
  EXPECT_FALSE(options.is_due(0));
}

TEST(MonitorOptions, an_interval_of_0_takes_samples_in_phases_only) {
  MonitorOptions options;
  ASSERT_TRUE(options.set("interval", "0").ok());
  ASSERT_TRUE(options.set("phases", "45000-48000:1000").ok());
  std::vector<std::int64_t> due;
  for (std::int64_t i = 0; i <= 50000; ++i) {
    if (options.is_due(i)) due.push_back(i);
  }
  EXPECT_THAT(due, ElementsAre(45000, 46000, 47000));
  EXPECT_TRUE(options.check().ok());
}

TEST(MonitorOptions, profile_tensors_writes_only_tensorboard_in_its_own_section) {
  MonitorOptions options;
  options.output_dir = "out";
  EXPECT_EQ(options.tensorboard_dir(), "");
  EXPECT_EQ(options.tensorboard_section(), "Memory");
  options.profile_tensors = true;
  EXPECT_EQ(options.tensorboard_dir(), "out/tensorboard");
  EXPECT_EQ(options.tensorboard_section(), "TensorProfiling");
  ASSERT_TRUE(options.set("tensorboard", "false").ok());
  ASSERT_TRUE(options.set("section", "Memory").ok());
  EXPECT_EQ(options.tensorboard_dir(), "");
  EXPECT_EQ(options.tensorboard_section(), "Memory");
}

TEST(MonitorOptions, the_environment_is_read_and_its_errors_are_reported) {
  ::setenv("PLIMSOLL_MONITOR_INTERVAL", "7", 1);
  ::setenv("PLIMSOLL_MONITOR_ENABLE_MEMORY_MONITORING", "no", 1);
  ::setenv("PLIMSOLL_OUT", "not ours", 1);
  MonitorOptions options;
  ASSERT_TRUE(options.set_from_environment().ok());
  EXPECT_EQ(options.interval, 7);
  EXPECT_FALSE(options.enabled);

  ::setenv("PLIMSOLL_MONITOR_TEXTLOG", "no", 1);
  options = {};
  EXPECT_EQ(options.set_from_environment().error().message,
            "the environment's PLIMSOLL_MONITOR_TEXTLOG: no option 'textlog': did you mean "
            "'text_log'?");
  EXPECT_EQ(options, MonitorOptions{});
  for (const char* name : {"INTERVAL", "ENABLE_MEMORY_MONITORING", "TEXTLOG"}) {
    ::unsetenv((std::string("PLIMSOLL_MONITOR_") + name).c_str());
  }
}

TEST(MonitorOptions, tensorboard_is_off_or_in_the_logs_or_in_a_given_folder) {
  MonitorOptions options;
  options.output_dir = "out";
  EXPECT_EQ(options.tensorboard_dir(), "");
  options.tensorboard = "true";
  EXPECT_EQ(options.tensorboard_dir(), "out/tensorboard");
  options.tensorboard = "elsewhere";
  EXPECT_EQ(options.tensorboard_dir(), "elsewhere");
}

TEST(MonitorOptions, thresholds_are_percentages_and_sizes) {
  constexpr std::uint64_t kGiB = 1ULL << 30;
  MonitorOptions options;
  ASSERT_TRUE(options.set("alert_above", "90%, 12GiB;1.5 gb,512MiB,7B").ok());
  EXPECT_EQ(options.alert_above, (std::vector<MemoryThreshold>{{.percent = 90},
                                                               {.bytes = 12 * kGiB},
                                                               {.bytes = kGiB + kGiB / 2},
                                                               {.bytes = kGiB / 2},
                                                               {.bytes = 7}}));
  EXPECT_EQ(options.text("alert_above"), "90%,12GiB,1536MiB,512MiB,7B");
  EXPECT_TRUE(options.check().ok());
  for (const char* const wrong :
       {"12", "0%", "100%", "-1GiB", "0GB", "x%", "GiB", "nanGiB", "9EB"}) {
    const Status status = options.set("alert_above", wrong);
    ASSERT_FALSE(status.ok()) << wrong;
    EXPECT_THAT(status.error().message,
                HasSubstr(std::string("'") + wrong + "' is not a threshold"));
  }
  EXPECT_EQ(options.alert_above.size(), 5U);
}

TEST(MonitorOptions, text_that_is_not_utf8_is_rejected) {
  MonitorOptions options;
  const Status status = options.set("record", "a\xff.plim");
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("record is 'a\\xff.plim'; it must be UTF-8"));
  EXPECT_TRUE(options.set("record", "é.plim").ok());
}

TEST(MonitorOptions, the_size_of_a_large_tensor_is_in_bytes) {
  EXPECT_EQ(MonitorOptions{}.large_tensor_bytes(), 100U * 1024 * 1024);
}

TEST(MonitorOptions, uses_is_one_of_four_words) {
  MonitorOptions options;
  ASSERT_TRUE(options.set("uses", "sampled").ok());
  EXPECT_EQ(options.uses, "sampled");
  const Status status = options.set("uses", "allways");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message,
            "uses is 'allways'; it must be one of auto, always, sampled, never; did you mean "
            "always?");
}

TEST(MonitorOptions, every_option_has_a_unique_name_and_a_description) {
  std::set<std::string> seen;
  for (const MonitorOptionHelp& option : monitor_options_help()) {
    EXPECT_TRUE(seen.insert(option.name).second) << option.name;
    for (const std::string& alias : option.aliases) EXPECT_TRUE(seen.insert(alias).second) << alias;
    EXPECT_TRUE(option.help.ends_with(".")) << option.name;
    EXPECT_EQ(MonitorOptions{}.text(option.name), option.default_value);
  }
}

TEST(MonitorOptions, changing_an_option_changes_only_its_text) {
  // Each option must be stored separately.
  for (const MonitorOptionHelp& option : monitor_options_help()) {
    const std::string& was = option.default_value;
    const std::string value = was == "true"                  ? "false"
                              : was == "false"               ? "true"
                              : option.name == "adapter"     ? "none"
                              : option.name == "uses"        ? "always"
                              : option.name == "phases"      ? "1-2:3"
                              : option.name == "print_ranks" ? "first"
                              : option.name == "alert_above" ? "90%"
                                                             : "3";
    MonitorOptions options;
    ASSERT_TRUE(options.set(option.name, value).ok()) << option.name;
    std::vector<std::string> changed;
    for (const MonitorOptionHelp& other : monitor_options_help()) {
      if (options.text(other.name) != other.default_value) changed.push_back(other.name);
    }
    EXPECT_THAT(changed, ElementsAre(option.name));
  }
}

}  // namespace
}  // namespace plimsoll

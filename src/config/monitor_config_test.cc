#include "plimsoll/monitor_config.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace plimsoll {
namespace {

using testing::HasSubstr;

MonitorOptions read(std::string_view yaml) {
  const auto options = parse_monitor_options(yaml, "c.yaml");
  EXPECT_TRUE(options.ok()) << (options ? "" : options.error().message);
  return options ? *options : MonitorOptions();
}

std::string problem_of(std::string_view yaml) {
  const auto options = parse_monitor_options(yaml, "c.yaml");
  EXPECT_FALSE(options.ok());
  return options ? "" : options.error().message;
}

TEST(MonitorConfig, OurBlockHasOptions) {
  const MonitorOptions options = read(
      "lr: 0.1\n"
      "plimsoll:\n"
      "  interval: 100\n"
      "  tensorboard: yes\n"
      "  section: \"yes\"\n"
      "  record:\n"
      "  phases:\n"
      "    - {from: 0, to: 500, interval: 10}\n"
      "    - 500-2000:50\n"
      "    - [2000, '', 200]\n");
  EXPECT_TRUE(options.enabled);
  EXPECT_EQ(options.interval, 100);
  EXPECT_EQ(options.tensorboard, "true");
  EXPECT_EQ(options.section, "yes");
  EXPECT_EQ(options.record, "");
  EXPECT_EQ(options.text("phases"), "0-500:10,500-2000:50,2000-:200");
}

TEST(MonitorConfig, OnlyTheRightValuesEnableIt) {
  EXPECT_FALSE(read("").enabled);
  EXPECT_FALSE(read("lr: 1\nmodel: {interval: 7}\n").enabled);
  EXPECT_TRUE(read("plimsoll:\n").enabled);
  EXPECT_FALSE(read("plimsoll: off\n").enabled);
  EXPECT_TRUE(read("interval: 3\n").enabled);  // only options
  EXPECT_TRUE(read("a: {profile_tensors: true}\n").enabled);
  const MonitorOptions theirs = read(
      "trainer_params:\n  epochs: 20\n  enable_memory_monitoring: true\n"
      "  memory_monitor_batches: 7\n");
  EXPECT_TRUE(theirs.enabled);
  EXPECT_EQ(theirs.verbose_batches, 7);
}

TEST(MonitorConfig, OursOverridesTheirsAndLaterKeysOverrideEarlierOnes) {
  EXPECT_EQ(read("plimsoll: {interval: 1}\ntrain: {profile_interval: 9}\n").interval, 1);
  EXPECT_EQ(read("plimsoll: {interval: 1, interval: 2}\n").interval, 2);
  EXPECT_EQ(read("plimsoll: {interval: 1}\nplimsoll: {alerts: no}\n").interval, 50);
}

TEST(MonitorConfig, AnchorsAndMergesAreFollowed) {
  const MonitorOptions options = read(
      "base: &base {interval: 3, alert_every: 4}\n"
      "other: &other {interval: 5, section: S}\n"
      "plimsoll:\n  <<: [*base, *other]\n  alert_every: 6\n");
  EXPECT_EQ(options.interval, 3);
  EXPECT_EQ(options.alert_every, 6);
  EXPECT_EQ(options.section, "S");
}

TEST(MonitorConfig, NamesThatWouldHaveNoEffectAreErrors) {
  EXPECT_EQ(problem_of("lr: 1\nprofile_tensor: true\n"),
            "c.yaml:2:1: no option 'profile_tensor': did you mean 'profile_tensors'?");
  EXPECT_EQ(problem_of("lr: 1\nt:\n  enable_memory_monitorng: true\n"),
            "c.yaml:3:3: t: no option 'enable_memory_monitorng': did you mean "
            "'enable_memory_monitoring'?");
  EXPECT_EQ(problem_of("a: {b: {c: {enable_mem_monitoring: true}}}\n"),
            "c.yaml:1:13: a: b: c: no option 'enable_mem_monitoring': did you mean "
            "'enable_memory_monitoring'?");
  EXPECT_EQ(problem_of("plimsol: {interval: 3}\n"),
            "c.yaml:1:1: no option 'plimsol': did you mean 'plimsoll'?");
  EXPECT_EQ(problem_of("a: {b: {plimsol: {interval: 3}}}\n"),
            "c.yaml:1:9: a: b: no option 'plimsol': did you mean 'plimsoll' at the top level?");
  EXPECT_EQ(problem_of("trainer:\n  trainer_params:\n    enable_memory_monitoring: true\n"),
            "c.yaml:3:5: trainer.trainer_params.enable_memory_monitoring has no effect so deep in "
            "the configuration: move it to the top level, or begin its Hydra file with '# @package "
            "_global_'");
  EXPECT_THAT(problem_of("trainer: {plimsoll: {interval: 3}}\n"),
              HasSubstr("trainer.plimsoll has no effect"));
  read("trainer: {trainer_params: {enable_memory_monitoring: false}}\n");
  read(
      "callbacks: {plimsoll: {_target_: plimsoll.integrations.lightning.MemoryCallback, "
      "interval: 3}}\n");
  read("profile_memory: true\nprofiler: {interval: 3, plimsoll: 1.0, plimsol: {ports: 3}}\n");
}

TEST(MonitorConfig, ValuesThatHydraMarksAsMissingAreErrors) {
  EXPECT_EQ(problem_of("plimsoll:\n  output_dir: ???\n"),
            "c.yaml:2:3: plimsoll: output_dir is ???: its value is missing");
  EXPECT_EQ(problem_of("trainer:\n  profile_tensors: ???\n"),
            "c.yaml:2:3: trainer: profile_tensors is ???: its value is missing");
  EXPECT_EQ(problem_of("plimsoll: ???\n"), "c.yaml:1:11: plimsoll is ???: its value is missing");
}

TEST(MonitorConfig, ErrorsReportThePlaceAndTheClosestName) {
  EXPECT_EQ(problem_of("plimsoll:\n  verbos_batches: 2\n"),
            "c.yaml:2:3: plimsoll: no option 'verbos_batches': did you mean 'verbose_batches'?");
  EXPECT_EQ(problem_of("t:\n  memory_monitor_batches: x\n"),
            "c.yaml:2:3: t: verbose_batches is 'x'; it must be a whole number, 0 or more");
  EXPECT_EQ(problem_of("plimsoll: {interval: {a: 1}}\n"),
            "c.yaml:1:12: plimsoll: a mapping is not a value");
  EXPECT_EQ(problem_of("plimsoll: 7\n"), "c.yaml:1:11: plimsoll is 7; it must hold options");
  EXPECT_EQ(problem_of("- 1\n"), "c.yaml:1:1: this is not a mapping of names to values");
  EXPECT_THAT(problem_of("plimsoll: {phases: [{to: 5}]}\n"), HasSubstr("needs an interval"));
  EXPECT_THAT(problem_of("plimsoll: {phases: [{interval: 5, till: 3}]}\n"), HasSubstr("'till'"));
  EXPECT_THAT(problem_of("plimsoll: {phases: [[1, 2]]}\n"), HasSubstr("this is not a phase"));
}

TEST(MonitorConfig, WhatIsNotYamlIsReported) {
  EXPECT_THAT(problem_of("a: [1, 2\nb: 3\n"), testing::StartsWith("c.yaml:2:"));
  EXPECT_THAT(problem_of("a: *nothing\n"), HasSubstr("invalid YAML"));
  EXPECT_THAT(problem_of("a: 'it''s\n"),
              HasSubstr("c.yaml:1:4: invalid YAML: the quotes are never"));
  EXPECT_THAT(problem_of("a: \"x\\\"\n"), HasSubstr("invalid YAML"));
  EXPECT_EQ(problem_of("a: 1\nb: \xFF\n"), "c.yaml:2:4: invalid YAML: this is not UTF-8");
  EXPECT_EQ(problem_of(std::string("a: \0", 4)), "c.yaml:1:4: invalid YAML: a control character");
  EXPECT_EQ(problem_of("plimsoll:\n  alerts: no\n  interval 5\n"),
            "c.yaml:3:1: invalid YAML at the end, probably a name without a colon");
  EXPECT_THAT(problem_of("a: {b: 1}\ninterval"), HasSubstr("invalid YAML"));
  EXPECT_THAT(problem_of("plimsoll: {, interval: 3}\n"), HasSubstr("line 1: a key is missing"));
  EXPECT_EQ(read("a: |+\n  x\n\n").interval, 50);
  EXPECT_EQ(read("  plimsoll:\n    interval: 3").interval, 3);
  EXPECT_THAT(problem_of("a: 1\n---\nb: 2\n"), HasSubstr("a second document"));
  EXPECT_THAT(problem_of("a: !include b.yaml\n"), HasSubstr("the tag '!include' is not supported"));
  EXPECT_THAT(problem_of("? [a]\n: 1\n"), HasSubstr("a key is a list or a mapping"));
  EXPECT_THAT(problem_of(std::string(500, '[') + std::string(500, ']')),
              HasSubstr("nested too deeply"));
  EXPECT_THAT(problem_of("plimsoll: {<<: 7}\n"), HasSubstr("<< does not merge a mapping"));
  EXPECT_THAT(problem_of(std::string(17 << 20, ' ')), HasSubstr("larger than 16 MiB"));
}

// Returns the pattern with $ replaced by the number and % by the previous number.
std::string numbered(std::string_view pattern, int number) {
  std::string text;
  for (const char c : pattern) {
    if (c == '$') {
      text += std::to_string(number);
    } else if (c == '%') {
      text += std::to_string(number - 1);
    } else {
      text += c;
    }
  }
  return text;
}

// Sixty levels of aliases, each with two of the level below: nothing may be copied.
TEST(MonitorConfig, BombsDoNotGoOff) {
  std::string lists = "a0: &a0 [x]\n";
  std::string merges = "m0: &m0 {interval: 3}\n";
  for (int i = 1; i < 60; ++i) {
    lists += numbered("a$: &a$ [*a%, *a%]\n", i);
    merges += numbered("m$: &m$ {<<: [*m%, *m%]}\n", i);
  }
  EXPECT_EQ(read(lists + "plimsoll: {interval: 3}\n").interval, 3);
  EXPECT_THAT(problem_of(lists + "plimsoll: {phases: [*a59]}\n"), HasSubstr("this is not a phase"));
  EXPECT_THAT(problem_of(merges + "plimsoll: *m59\n"), HasSubstr("<< merges too much"));
  std::string empty = "m0: &m0 {}\n";
  for (int i = 1; i < 60; ++i) empty += numbered("m$: &m$ {<<: [*m%, *m%]}\n", i);
  EXPECT_THAT(problem_of(empty + "plimsoll: *m59\n"), HasSubstr("aliases repeat too much"));
  std::string blocks = "m: &m {a: 1, b: 2}\n";
  for (int i = 0; i < 10; ++i) blocks += "k" + std::to_string(i) + ": *m\n";
  EXPECT_FALSE(read(blocks).enabled);
}

TEST(MonitorConfig, ValuesHaveNoZeroBytes) {
  MonitorOptions options;
  for (const char* name : {"output_dir", "section", "record"}) {
    const Status status = options.set(name, std::string_view("a\0b", 3));
    ASSERT_FALSE(status.ok()) << name;
    EXPECT_THAT(status.error().message, HasSubstr("zero byte"));
  }
}

TEST(MonitorConfig, ErrorsQuoteTheBeginningOfALongText) {
  const std::string longest(1 << 20, 'x');
  for (const std::string& yaml :
       {"interval: " + longest, "phases: " + longest, "snapshot_at: " + longest,
        "adapter: " + longest, "alert_above: " + longest, longest + ": 1"}) {
    const std::string problem = problem_of("plimsoll: {" + yaml + "}\n");
    EXPECT_LT(problem.size(), 400u) << problem.substr(0, 200);
  }
}

TEST(MonitorConfig, TheEnvironmentOverridesAFile) {
  const tests::TemporaryFolder of_test;
  const std::filesystem::path folder = of_test.path();
  const std::string path = (folder / "c.yaml").string();
  std::ofstream(path) << "plimsoll: {interval: 7, alert_every: 3}\n";
  ::setenv("PLIMSOLL_MONITOR_INTERVAL", "9", 1);
  const auto options = load_monitor_options(path);
  ::unsetenv("PLIMSOLL_MONITOR_INTERVAL");
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->interval, 9);
  EXPECT_EQ(options->alert_every, 3);
  EXPECT_EQ(load_monitor_options((folder / "none.yaml").string()).error().code,
            ErrorCode::kNotFound);
  EXPECT_EQ(load_monitor_options(folder.string()).error().code, ErrorCode::kIo);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace plimsoll

// The complete monitor, writing files, over a recorder that receives allocations from the tests.
#include "plimsoll/training_monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "plimsoll/process_rank.h"
#include "plimsoll/recorder_c.h"
#include "tests/support/synthetic_sample.h"
#include "tests/support/temporary_folder.h"

namespace plimsoll {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using tests::kMb;

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class TrainingMonitors : public testing::Test {
 protected:
  TrainingMonitors() {
    EXPECT_TRUE(start_watching().ok());
    options.output_dir = folder.string();
    options.interval = 2;
  }
  ~TrainingMonitors() override { stop_watching(); }

  LinePrinter printer() {
    return [this](const std::string& line) { said.push_back(line); };
  }
  void keep(std::uint64_t mb) {
    const plimsoll_recorder_api& api = *plimsoll_recorder();
    api.context()->phase = PLIMSOLL_PHASE_FORWARD;
    api.alloc(api.context(), 0, next_address_, mb * kMb);
    api.context()->phase = PLIMSOLL_PHASE_OTHER;
    kept_.push_back(next_address_++);
  }
  void drop_all() {
    for (const std::uint64_t address : kept_) {
      plimsoll_recorder()->free(plimsoll_recorder()->context(), 0, address);
    }
    kept_.clear();
  }
  void TearDown() override {
    drop_all();
    std::filesystem::remove_all(folder);
  }

  std::filesystem::path folder = std::filesystem::temp_directory_path() /
                                 ("plimsoll_training_monitor." + std::to_string(getpid()) + "." +
                                  testing::UnitTest::GetInstance()->current_test_info()->name());
  MonitorOptions options;
  std::vector<std::string> said;

 private:
  std::vector<std::uint64_t> kept_;
  std::uint64_t next_address_ = 4096;
};

TEST_F(TrainingMonitors, writes_samples_at_its_intervals_into_log_and_event_file) {
  options.tensorboard = "true";
  TrainingMonitor monitor(options, printer());
  int reads = 0;
  const Loss loss = [&]() -> std::optional<double> { return ++reads, 0.25; };
  keep(8);
  for (int i = 0; i < 5; ++i) monitor.step(loss);
  monitor.close();
  monitor.step(loss);
  EXPECT_EQ(monitor.samples(), 3);  // 0, 2, 4
  EXPECT_EQ(reads, 3);
  const std::string log = content_of(monitor.text_log_path());
  EXPECT_THAT(log, HasSubstr("Allocated: 8.000 MB"));
  EXPECT_THAT(content_of(monitor.event_file_path()),
              HasSubstr("Memory/Tensor_Category/activations_MB"));
  EXPECT_THAT(said, IsEmpty());
}

TEST_F(TrainingMonitors, states_what_no_operator_has_used_for_two_steps) {
  const plimsoll_recorder_api& api = *plimsoll_recorder();
  api.observe_uses(api.context(), 1);
  const std::uint32_t buffer = api.tensor(PLIMSOLL_ROLE_BUFFER, 0, 0, 0);
  api.alloc(api.context(), 0, 0x9000, 64 * kMb);
  api.tag(api.context(), 0, 0x9000, buffer);  // kept whether it is used or not
  api.context()->layer = api.name("unet.up", 7);
  keep(2);
  keep(3);
  api.context()->layer = 0;
  keep(8);
  const std::uint64_t used = 4096 + 2;
  options.interval = 1;
  options.tensorboard = "true";
  options.uses = "always";
  TrainingMonitor monitor(options, printer());
  std::vector<std::optional<std::uint64_t>> bytes;
  monitor.on_sample([&](const MemorySample& sample) {
    bytes.push_back(sample.devices[0].unused_bytes);
    if (bytes.size() != 3) return;
    EXPECT_THAT(sample.devices[0].unused, SizeIs(1));
    EXPECT_EQ(sample.devices[0].unused[0].name, "unet.up");
    EXPECT_EQ(sample.devices[0].unused[0].count, 2U);
  });
  for (int i = 0; i < 6; ++i) {
    if (i == 5) api.observe_uses(api.context(), 0);
    api.use(api.context(), &used, 1);
    keep(1);
    api.end_uses(api.context());
    monitor.step();
  }
  monitor.close();
  // Of the memory that each step keeps, the newest three count as used in the last two steps.
  EXPECT_THAT(bytes, testing::ElementsAre(std::nullopt, std::nullopt, 5 * kMb, 6 * kMb, 7 * kMb,
                                          std::nullopt));
  const std::string log = content_of(monitor.text_log_path());
  EXPECT_THAT(log, HasSubstr("\nUnused for two steps: 5.000 MB\n"
                             "Unused by layer: unet.up 5.000 MB in 2\n"));
  EXPECT_THAT(content_of(monitor.event_file_path()), HasSubstr("Memory/Tensor_Unused/total_MB"));
  api.free(api.context(), 0, 0x9000);
}

TEST_F(TrainingMonitors, state_nothing_about_uses_unless_it_is_asked_for) {
  const plimsoll_recorder_api& api = *plimsoll_recorder();
  api.observe_uses(api.context(), 1);
  options.interval = 1;
  options.tensorboard = "true";
  TrainingMonitor monitor(options, printer());
  for (int i = 0; i < 5; ++i) {
    keep(1);
    monitor.step();
  }
  monitor.close();
  EXPECT_THAT(content_of(monitor.text_log_path()), Not(HasSubstr("Unused")));
  EXPECT_THAT(content_of(monitor.event_file_path()), Not(HasSubstr("Unused")));
}

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    ++found;
  }
  return found;
}

TEST_F(TrainingMonitors, draws_the_timeline_at_the_end_and_if_wanted_in_between) {
  options.tensorboard = "true";
  options.interval = 1;
  options.image_every = 4;
  TrainingMonitor monitor(options, printer());
  keep(8);
  for (int i = 0; i < 10; ++i) monitor.step();  // images at 4 and 8
  EXPECT_EQ(count(content_of(monitor.event_file_path()), "Memory/timeline"), 2U);
  monitor.close();
  EXPECT_EQ(count(content_of(monitor.event_file_path()), "Memory/timeline"), 3U);
  EXPECT_EQ(count(content_of(monitor.event_file_path()), "custom_scalars__config__"), 1U);
  EXPECT_THAT(said, IsEmpty());
}

TEST_F(TrainingMonitors, draws_the_timeline_once_even_if_it_is_not_closed) {
  options.tensorboard = "true";
  std::string path;
  {
    TrainingMonitor monitor(options, printer());
    for (int i = 0; i < 10; ++i) monitor.step();
    path = monitor.event_file_path();
    EXPECT_EQ(count(content_of(path), "Memory/timeline"), 0U);
  }
  EXPECT_EQ(count(content_of(path), "Memory/timeline"), 1U);
}

TEST_F(TrainingMonitors, a_forked_child_does_not_touch_its_parents_files) {
  options.tensorboard = "true";
  options.interval = 1;
  TrainingMonitor monitor(options, printer());
  keep(8);
  monitor.step();
  const std::string log = content_of(monitor.text_log_path());
  const std::string events = content_of(monitor.event_file_path());
  const pid_t child = fork();
  if (child == 0) {
    monitor.step();
    monitor.ran_out("");
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(content_of(monitor.text_log_path()), log);
  EXPECT_EQ(content_of(monitor.event_file_path()), events);
}

TEST_F(TrainingMonitors, reports_growth_once_with_its_bytes_and_may_fail_the_run) {
  options.interval = 1;
  options.fail_on_alert = true;
  options.alert_every = 1000;
  TrainingMonitor monitor(options, printer());
  EXPECT_FALSE(monitor.should_fail());
  for (int i = 0; i < 40; ++i) {
    keep(10);
    monitor.step();
  }
  ASSERT_FALSE(said.empty());
  EXPECT_THAT(said[0], AllOf(HasSubstr("grow"), HasSubstr("MiB")));
  EXPECT_THAT(content_of(monitor.text_log_path()), HasSubstr("Growth per iteration: 10.000 MB\n"));
  EXPECT_TRUE(monitor.should_fail());
}

TEST_F(TrainingMonitors, passes_alerts_to_a_callback_if_there_is_one) {
  options.interval = 1;
  TrainingMonitor monitor(options, printer());
  std::vector<MemoryAlert> alerts;
  monitor.on_alert([&](const MemoryAlert& alert) { alerts.push_back(alert); });
  for (int i = 0; i < 40; ++i) {
    keep(10);
    monitor.step();
  }
  ASSERT_FALSE(alerts.empty());
  EXPECT_EQ(alerts[0].device, "cpu");
  EXPECT_THAT(alert_text(alerts[0]), HasSubstr(alerts[0].next_step()));
  EXPECT_EQ(monitor.alerts(), static_cast<std::int64_t>(alerts.size()));
  EXPECT_THAT(said, IsEmpty());
}

TEST_F(TrainingMonitors, states_the_size_of_a_failed_batch_only_if_it_was_reported) {
  const auto title = [&](std::int64_t of_all, bool is_reported_first) {
    options.batch_size = of_all;
    TrainingMonitor monitor(options, printer());
    std::string reported;
    monitor.on_alert([&](const MemoryAlert& alert) { reported = alert.title; });
    monitor.set_batch_size(of_all != 0 ? of_all : 32);  // as Python's step() does at its end
                                                        // Python
    monitor.step();
    if (is_reported_first) monitor.set_batch_size(48);
    monitor.ran_out("MemoryError: ");
    return reported;
  };
  EXPECT_EQ(title(0, false), "Memory of cpu ran out in iteration 1; batches had up to 32 items");
  EXPECT_EQ(title(0, true), "Memory of cpu ran out in iteration 1, whose batch has 48 items");
  EXPECT_EQ(title(16, false), "Memory of cpu ran out in iteration 1, whose batch has 16 items");
}

TEST_F(TrainingMonitors, each_unwritable_folder_is_reported_in_one_sentence) {
  std::ofstream(folder) << "a file where the folder should be";
  options.tensorboard = "true";
  TrainingMonitor monitor(options, printer());
  for (int i = 0; i < 10; ++i) monitor.step();
  EXPECT_THAT(said, SizeIs(2));
  for (const std::string& line : said) EXPECT_THAT(line, HasSubstr(folder.string()));
  EXPECT_EQ(monitor.samples(), 5);
}

TEST_F(TrainingMonitors, creates_no_file_and_takes_no_sample_when_disabled) {
  options.enabled = false;
  options.tensorboard = "true";
  TrainingMonitor monitor(options, printer());
  monitor.step([]() -> std::optional<double> {
    ADD_FAILURE() << "read";
    return {};
  });
  EXPECT_EQ(monitor.samples(), 0);
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_EQ(monitor.text_log_path(), "");
}

TEST_F(TrainingMonitors, records_the_iterations_of_snapshot_at_without_overwriting) {
  options.interval = 0;
  options.snapshot_at = {0, 3, 8};
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "memory_snapshot_iter3.pickle") << "theirs";
  {
    TrainingMonitor monitor(options, printer());
    for (int i = 0; i < 8; ++i) {
      keep(1);
      monitor.step();
      const bool is_open = std::filesystem::exists(folder / "memory_snapshot_iter8.plim");
      EXPECT_EQ(is_open, i == 7);
    }
    EXPECT_EQ(monitor.samples(), 0);
  }  // the last one ends with the monitor
  EXPECT_THAT(said, IsEmpty());
  EXPECT_EQ(content_of(folder / "memory_snapshot_iter3.pickle"), "theirs");
  for (const char* name : {"iter0.plim", "iter3.2.plim", "iter8.plim"}) {
    EXPECT_GT(std::filesystem::file_size(folder / ("memory_snapshot_" + std::string(name))), 0U);
  }
}

TEST_F(TrainingMonitors, lets_others_record_the_iterations_of_snapshot_at) {
  options.snapshot_at = {2};
  std::vector<std::string> calls;
  TrainingMonitor monitor(options, printer(),
                          {.begin = [&](const std::string& path) { calls.push_back(path); },
                           .end = [&] { calls.emplace_back("end"); }});
  for (int i = 0; i < 5; ++i) monitor.step();
  EXPECT_THAT(calls, testing::ElementsAre((folder / "memory_snapshot_iter2.plim").string(), "end"));
}

TEST_F(TrainingMonitors, reports_a_failed_snapshot_and_continues) {
  std::filesystem::create_directories(folder.parent_path());
  std::ofstream{folder} << "a file";
  options.text_log = false;
  options.snapshot_at = {1, 2};
  TrainingMonitor monitor(options, printer());
  for (int i = 0; i < 4; ++i) monitor.step();
  ASSERT_THAT(said, SizeIs(2));
  EXPECT_THAT(said[0], HasSubstr("plimsoll: snapshot: cannot create the folder"));
}

TEST_F(TrainingMonitors, each_rank_has_its_own_log_and_event_file) {
  const tests::TemporaryFolder output;
  MonitorOptions of_rank_options;
  of_rank_options.output_dir = output.path();
  of_rank_options.tensorboard = "true";
  of_rank_options.interval = 1;
  for (const std::int64_t rank : {0, 1}) {
    set_process_rank({.rank = rank, .world_size = 2});
    TrainingMonitor monitor(of_rank_options);
    monitor.step();
    const std::string of_rank = "/rank" + std::to_string(rank) + "/";
    EXPECT_THAT(monitor.text_log_path(), HasSubstr(output.path() + "/profiles" + of_rank));
    EXPECT_THAT(monitor.event_file_path(), HasSubstr(output.path() + "/tensorboard" + of_rank));
    std::stringstream text;
    text << std::ifstream(monitor.text_log_path()).rdbuf();
    EXPECT_THAT(text.str(), HasSubstr("rank " + std::to_string(rank) + " of 2\n"));
  }
  set_process_rank({.rank = 0, .world_size = 0});
}

}  // namespace
}  // namespace plimsoll

#include "logs/reader.h"

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/synthetic_sample.h"
#include "tests/support/temporary_folder.h"
#include "text_log/text_log.h"

namespace plimsoll::logs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<LogContents> read_contents(const std::string& bytes) {
  return read_log_bytes(bytes, "x.log", [](const SamplePlace&, const MemorySample&) {});
}

std::string a_log() {
  return text_log::text_log_header(0) + text_log::text_log_snapshot(tests::synthetic_sample(), {});
}

std::string sentence(const std::string& bytes) {
  const auto contents = read_contents(bytes);
  return contents.ok() ? "read" : contents.error().message;
}

TEST(LogReader, finds_a_text_log_by_its_content) {
  const auto contents =
      read_contents("joined after this line\n" + a_log() + a_log() + "=== Iteration 5 ===");
  ASSERT_TRUE(contents.ok());
  EXPECT_EQ(contents->format, LogFormat::kTextLog);
  EXPECT_EQ(contents->snapshots, 2U);
  EXPECT_EQ(contents->cut_snapshots, 1U);
  EXPECT_EQ(contents->unread_lines, 1U);
}

TEST(LogReader, reports_in_a_sentence_what_it_cannot_read) {
  EXPECT_EQ(sentence(""), "x.log is empty");
  EXPECT_THAT(sentence("step 1 loss 2\nstep 2 loss 1\n"), HasSubstr("x.log is no text log"));
  EXPECT_THAT(sentence(std::string(100'000, '\0')), HasSubstr("is no text log"));
  std::string empty_lines;
  empty_lines.resize(10'000'000, '\n');
  EXPECT_THAT(sentence(empty_lines), HasSubstr("is no text log"));
  EXPECT_THAT(sentence("Sat Jan 31 14:36:05 2026\n+---+\n| NVIDIA-SMI 580.126.09  |\n"),
              HasSubstr("tables of nvidia-smi"));
  EXPECT_THAT(sentence(text_log::text_log_header(0)),
              HasSubstr("holds no complete sample: the run has not reached"));
  EXPECT_THAT(sentence("# Plimsoll tensor profile, format 12. MB\n"), HasSubstr("format 12"));
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

TEST(LogReader, quotes_the_first_line_if_no_memory_of_a_device_can_be_read) {
  const std::string log =
      "# Plimsoll tensor profile, format 1. MB are 1024 x 1024 bytes.\n\n"
      "=== Iteration 0 ===\nDevice: cuda:0\nAllocated: 8.5 MB\n"
      "Reserved: 9.0 MB\nPeak phase: optimizer\nHost: process 3000.0 MB\n\n";
  EXPECT_EQ(sentence(log), "read");
  EXPECT_EQ(
      sentence("joined\n" + replaced(log, "5 MB", "5 GB") + replaced(log, "MB", "GB")),
      "x.log: 3 of 4 lines with figures of devices cannot be read; the first unrecognized line "
      "is 6, \"Allocated: 8.5 GB\"; figures follow a line \"Device: NAME\" and have the form "
      "\"Allocated: 8073.4 MB\"");
  EXPECT_THAT(
      sentence(replaced(log, ".", ",")),
      HasSubstr(
          "2 of 2 lines with figures of devices cannot be read; the first unrecognized line is "
          "5, \"Allocated: 8,5 MB\""));
  EXPECT_THAT(sentence(replaced(replaced(log, "MB", "GB"), "Device",
                                "\x01"
                                "Device")),
              HasSubstr("line is 4, \"\\x01Device: cuda:0\""));
  EXPECT_EQ(sentence(replaced(log, "Host", "printed by the program\nHost")), "read");
  EXPECT_EQ(sentence("=== Iteration 0 ===\nHost: process 3000.0 MB\n\n"), "read");
}

TEST(LogReader, figures_without_a_line_that_names_their_device_are_of_one_unnamed_device) {
  const std::string log = replaced(a_log(), "Device: cuda:0\n", "");
  std::vector<MemorySample> samples;
  const auto contents = read_log_bytes(
      log, "x.log",
      [&](const SamplePlace&, const MemorySample& sample) { samples.push_back(sample); });
  ASSERT_TRUE(contents.ok()) << contents.error().message;
  EXPECT_EQ(contents->unread_lines, 0U);
  ASSERT_EQ(samples.size(), 1U);
  ASSERT_EQ(samples[0].devices.size(), 2U);
  const DeviceMemory& device = samples[0].devices[1];
  EXPECT_EQ(device.name, "the device");
  EXPECT_EQ(device.reserved_bytes, 10'130 * tests::kMb);
  EXPECT_EQ(device.categories.size(), 4U);
  EXPECT_EQ(device.large_tensors.size(), 2U);
  EXPECT_EQ(samples[0].devices[0].name, "cpu");
}

TEST(LogReader, a_header_or_a_lower_iteration_begins_a_run) {
  const auto runs = [](const std::vector<int>& iterations) {
    std::string log = text_log::text_log_header(0);
    MemorySample sample = tests::synthetic_sample();
    for (const int iteration : iterations) {
      sample.iteration = iteration;
      log += iteration < 0 ? text_log::text_log_header(0) : text_log::text_log_snapshot(sample, {});
    }
    std::vector<std::uint64_t> found;
    const auto contents = read_log_bytes(
        log, "x.log",
        [&](const SamplePlace& place, const MemorySample&) { found.push_back(place.run); });
    EXPECT_EQ(contents->runs, found.back());
    return found;
  };
  EXPECT_THAT(runs({0, 10, 10, 20}), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(runs({0, 10, 5, 20}), ElementsAre(1, 1, 2, 2));
  EXPECT_THAT(runs({0, 10, -1, 20, -1, -1, 0}), ElementsAre(1, 1, 2, 3));
}

class LogReaderTest : public ::testing::Test {
 protected:
  tests::TemporaryFolder temporary_;
  std::string folder_ = temporary_.path() + "/log_reader_test";
};

TEST_F(LogReaderTest, rejects_files_that_may_never_end) {
  const auto sentence_of = [](const std::string& path) {
    return read_log(path, [](const SamplePlace&, const MemorySample&) {}).error().message;
  };
  std::filesystem::create_directories(folder_);
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(sentence_of(pipe), HasSubstr("not a regular file"));
  EXPECT_THAT(sentence_of("/dev/zero"), HasSubstr("not a regular file"));
  const std::string huge = folder_ + "/huge.log";
  std::ofstream(huge) << a_log();
  std::filesystem::resize_file(huge, std::uint64_t{1} << 40);
  EXPECT_THAT(sentence_of(huge), HasSubstr("huge.log has 1099511627776 bytes"));
  std::filesystem::resize_file(huge, 0);
  std::filesystem::resize_file(huge, std::uint64_t{4} << 30);  // zeros: no line ever ends
  EXPECT_THAT(sentence_of(huge), HasSubstr("no text log"));
}

TEST_F(LogReaderTest, reads_a_file_in_pieces) {
  std::filesystem::create_directories(folder_);
  const std::string path = folder_ + "/long.log";
  {
    std::ofstream file(path);
    for (int i = 0; i < 300; ++i)
      file << text_log::text_log_snapshot(tests::synthetic_sample(), {});
  }
  std::uint64_t seen = 0;
  const auto contents = read_log(path, [&](const SamplePlace&, const MemorySample&) { ++seen; });
  ASSERT_TRUE(contents.ok());
  EXPECT_EQ(contents->snapshots, 300U);
  EXPECT_EQ(seen, 300U);
  EXPECT_EQ(contents->bytes, std::filesystem::file_size(path));
  std::uint64_t reported = 0;
  const auto stopped = read_log(
      path, [](const SamplePlace&, const MemorySample&) {},
      [&](std::uint64_t done, std::uint64_t total) {
        EXPECT_EQ(total, contents->bytes);
        reported = done;
        return false;
      });
  EXPECT_EQ(stopped.error().code, ErrorCode::kInterrupted);
  EXPECT_GT(reported, 0U);
  EXPECT_EQ(
      read_log(folder_ + "/none", [](const SamplePlace&, const MemorySample&) {}).error().code,
      ErrorCode::kNotFound);
  EXPECT_THAT(read_log(folder_, [](const SamplePlace&, const MemorySample&) {}).error().message,
              HasSubstr("Is a directory"));
}

}  // namespace
}  // namespace plimsoll::logs

#include "logs/reader.h"

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/synthetic_sample.h"
#include "tests/support/temporary_folder.h"
#include "text_log/text_log.h"

namespace plimsoll::logs {
namespace {

using ::testing::HasSubstr;

Result<LogContents> read_contents(const std::string& bytes) {
  return read_log_bytes(bytes, "x.log", [](LogFormat, const MemorySample&) {});
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
  EXPECT_THAT(sentence("step 1 loss 2\nstep 2 loss 1\n"), HasSubstr("x.log is neither a text log"));
  EXPECT_THAT(sentence(std::string(100'000, '\0')), HasSubstr("neither"));
  std::string empty_lines;
  empty_lines.resize(10'000'000, '\n');
  EXPECT_THAT(sentence(empty_lines), HasSubstr("neither"));
  EXPECT_THAT(sentence("Sat Jan 31 14:36:05 2026\n+---+\n| NVIDIA-SMI 580.126.09  |\n"),
              HasSubstr("tables of nvidia-smi"));
  EXPECT_THAT(sentence(text_log::text_log_header(0)),
              HasSubstr("holds no complete sample: the run has not reached"));
  EXPECT_THAT(sentence("# Plimsoll tensor profile, format 12. MB\n"), HasSubstr("format 12"));
}

class LogReaderTest : public ::testing::Test {
 protected:
  tests::TemporaryFolder temporary_;
  std::string folder_ = temporary_.path() + "/log_reader_test";
};

TEST_F(LogReaderTest, rejects_files_that_may_never_end) {
  const auto sentence_of = [](const std::string& path) {
    return read_log(path, [](LogFormat, const MemorySample&) {}).error().message;
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
  EXPECT_THAT(sentence_of(huge), HasSubstr("neither a text log"));
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
  const auto contents = read_log(path, [&](LogFormat, const MemorySample&) { ++seen; });
  ASSERT_TRUE(contents.ok());
  EXPECT_EQ(contents->snapshots, 300U);
  EXPECT_EQ(seen, 300U);
  EXPECT_EQ(contents->bytes, std::filesystem::file_size(path));
  std::uint64_t reported = 0;
  const auto stopped = read_log(
      path, [](LogFormat, const MemorySample&) {},
      [&](std::uint64_t done, std::uint64_t total) {
        EXPECT_EQ(total, contents->bytes);
        reported = done;
        return false;
      });
  EXPECT_EQ(stopped.error().code, ErrorCode::kInterrupted);
  EXPECT_GT(reported, 0U);
  EXPECT_EQ(read_log(folder_ + "/none", [](LogFormat, const MemorySample&) {}).error().code,
            ErrorCode::kNotFound);
  EXPECT_THAT(read_log(folder_, [](LogFormat, const MemorySample&) {}).error().message,
              HasSubstr("Is a directory"));
}

}  // namespace
}  // namespace plimsoll::logs

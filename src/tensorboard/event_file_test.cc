#include "tensorboard/event_file.h"

#include <sys/resource.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensorboard/crc32c.h"
#include "tests/support/temporary_folder.h"

namespace plimsoll::tensorboard {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The messages of all complete records, with verified checksums.
std::vector<std::string> records_of(const std::string& bytes) {
  std::vector<std::string> records;
  std::size_t at = 0;
  while (bytes.size() - at >= 12) {
    std::uint64_t length = 0;
    std::uint32_t checksum = 0;
    std::memcpy(&length, bytes.data() + at, sizeof length);
    std::memcpy(&checksum, bytes.data() + at + 8, sizeof checksum);
    EXPECT_EQ(checksum, masked_crc32c(bytes.substr(at, 8)));
    if (bytes.size() - at < 16 + length) break;
    records.push_back(bytes.substr(at + 12, length));
    std::memcpy(&checksum, bytes.data() + at + 12 + length, sizeof checksum);
    EXPECT_EQ(checksum, masked_crc32c(records.back()));
    at += 16 + length;
  }
  EXPECT_EQ(at, bytes.size());
  return records;
}

class EventFileTest : public ::testing::Test {
 protected:
  tests::TemporaryFolder temporary_;
  std::string folder_ = temporary_.path() + "/runs";
};

TEST(Crc32c, is_castagnolis) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);  // the check value of RFC 3720's polynomial
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(""), 0U);
}

TEST_F(EventFileTest, begins_with_the_version_and_has_one_record_per_sample) {
  EventFile file;
  ASSERT_TRUE(file.create(folder_ + "/a/b").ok());
  EXPECT_THAT(std::filesystem::path(file.path()).filename().string(),
              MatchesRegex("events\\.out\\.tfevents\\.[0-9]{10}\\.[^/]+\\.[0-9]+\\.[0-9]+"));
  ASSERT_TRUE(file.write(1'500'000'000, 300, {{"a/b", 1.5}, {"c", -2.0}}).ok());
  const auto records = records_of(bytes_of(file.path()));
  ASSERT_EQ(records.size(), 2U);
  EXPECT_THAT(records[0], HasSubstr("\x1A\x0D"
                                    "brain.Event:2"));
  const std::string expected(
      "\x09\x00\x00\x00\x00\x00\x00\xF8\x3F"  // wall_time 1.5
      "\x10\xAC\x02"                          // step 300
      "\x2A\x16"                              // summary
      "\x0A\x0A\x0A\x03"
      "a/b\x15\x00\x00\xC0\x3F"  // 1.5
      "\x0A\x08\x0A\x01"
      "c\x15\x00\x00\x00\xC0",  // -2
      9 + 3 + 2 + 12 + 10);
  EXPECT_EQ(records[1], expected);
}

TEST_F(EventFileTest, two_files_in_one_second_have_two_names) {
  EventFile one;
  EventFile two;
  ASSERT_TRUE(one.create(folder_).ok());
  ASSERT_TRUE(two.create(folder_).ok());
  EXPECT_NE(one.path(), two.path());
}

TEST_F(EventFileTest, reports_in_one_sentence_that_a_folder_cannot_be_created) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ + "/file") << "x";
  EventFile file;
  const Status status = file.create(folder_ + "/file/logs");
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("/file/logs: Not a directory"));
  EXPECT_TRUE(file.write(1, 1, {{"a", 1}}).ok());
}

TEST_F(EventFileTest, a_full_disk_is_reported_once_and_leaves_whole_records) {
  EventFile file;
  ASSERT_TRUE(file.create(folder_).ok());
  const std::vector<Scalar> scalars(20, {"some/tag", 1.0});
  ASSERT_TRUE(file.write(1, 1, scalars).ok());
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit limit{std::filesystem::file_size(file.path()) + 50, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limit);
  const Status status = file.write(2, 2, scalars);
  const Status later = file.write(3, 3, scalars);
  setrlimit(RLIMIT_FSIZE, &before);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_THAT(status.error().message, HasSubstr("tfevents"));
  EXPECT_TRUE(later.ok());
  EXPECT_FALSE(file.is_open());
  EXPECT_EQ(records_of(bytes_of(file.path())).size(), 2U);
}

}  // namespace
}  // namespace plimsoll::tensorboard

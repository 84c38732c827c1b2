#include "record/output/source_lines.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <ctime>
#include <fstream>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "format/checksum.h"
#include "tests/support/temporary_folder.h"

namespace plimsoll::record {
namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000;
constexpr std::int64_t kWrittenAtS = 1'700'000'000;

class SourceLinesOfFrames : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    std::string path = folder_.path() + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    const timespec written{kWrittenAtS, 0};
    const timespec times[] = {written, written};
    EXPECT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
    return path;
  }
  void add_frames(const std::string& path, std::initializer_list<std::uint32_t> lines) {
    std::vector<format::Frame> frames;
    for (const std::uint32_t line : lines) {
      frames.push_back({definitions_.name(path), definitions_.name("step"), line});
    }
    definitions_.stack(frames);
  }
  std::vector<std::string> texts(std::int64_t before_s = kWrittenAtS + 1) {
    std::vector<std::string> all;
    for (const SourceText& line : read_source_lines(definitions_, before_s * kSecondNs)) {
      all.push_back(std::to_string(line.line) + ": " + line.text);
    }
    return all;
  }

  Definitions definitions_;

 private:
  tests::TemporaryFolder folder_;
};

TEST_F(SourceLinesOfFrames, each_line_is_read_once_with_its_white_space_folded) {
  const std::string path = write("train.py", "def step(x):\n\ty  =  x \t@ x  # two\r\n\n");
  add_frames(path, {2, 1});
  add_frames(path, {2, 3, 9, 0});
  EXPECT_THAT(texts(), testing::ElementsAre("1: def step(x):", "2: y = x @ x # two"));
  EXPECT_EQ(read_source_lines(definitions_, kSecondNs * (kWrittenAtS + 1))[0].hash,
            format::hash_of_source("def step(x):"));
}

TEST_F(SourceLinesOfFrames, a_changed_or_missing_file_has_no_text) {
  add_frames(write("train.py", "x = 1\n"), {1});
  add_frames("/nowhere/train.py", {1});
  EXPECT_THAT(texts(kWrittenAtS), testing::IsEmpty());
  EXPECT_EQ(texts().size(), 1u);
}

TEST_F(SourceLinesOfFrames, only_files_whose_lines_are_charged_are_read) {
  add_frames(write("settings.txt", "x = 1\n"), {1});
  add_frames("train.py", {1});  // not absolute
  add_frames("<string>", {1});
  EXPECT_THAT(texts(), testing::IsEmpty());
}

TEST_F(SourceLinesOfFrames, a_long_line_is_cut_but_its_hash_is_not) {
  const std::string begin(kMostSourceTextBytes - 1, 'x');
  add_frames(write("one.py", begin + "\xC3\xA4 = 1\n"), {1});
  add_frames(write("two.py", begin + "\xC3\xA4 = 2\n"), {1});
  const auto lines = read_source_lines(definitions_, kSecondNs * (kWrittenAtS + 1));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].text, begin);  // no half character
  EXPECT_EQ(lines[1].text, begin);
  EXPECT_NE(lines[0].hash, lines[1].hash);
}

}  // namespace
}  // namespace plimsoll::record

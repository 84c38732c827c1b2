#include "cli/runs/output_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace plimsoll::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class OutputFileTest : public testing::Test {
 protected:
  OutputFileTest() { fs::create_directories(folder_); }
  ~OutputFileTest() override { fs::remove_all(folder_); }

  std::string place(const char* name) const { return (folder_ / name).string(); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }
  static std::string content(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  fs::path folder_ = fs::temp_directory_path() / ("plimsoll-output-" + std::to_string(::getpid()));
};

TEST_F(OutputFileTest, appears_when_it_is_finished) {
  auto output = OutputFile::create(place("a"), Existing::kRefuse);
  ASSERT_TRUE(output.ok());
  EXPECT_TRUE(output->write("hello"));
  EXPECT_FALSE(fs::exists(place("a")));
  ASSERT_TRUE(output->finish().ok());
  EXPECT_EQ(content(place("a")), "hello");
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputFileTest, a_dangling_link_is_rejected_and_kept) {
  fs::create_symlink(place("nowhere"), place("a"));
  for (const Existing existing : {Existing::kRefuse, Existing::kReplace}) {
    const auto refused = OutputFile::create(place("a"), existing);
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.error().message, HasSubstr("leads to no file"));
  }
  EXPECT_TRUE(fs::is_symlink(place("a")));
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputFileTest, leaves_nothing_if_it_is_not_finished) {
  {
    auto output = OutputFile::create(place("a"), Existing::kRefuse);
    ASSERT_TRUE(output.ok());
    output->write("half");
  }
  EXPECT_EQ(files(), 0u);
}

TEST_F(OutputFileTest, rejects_an_existing_file_unless_it_may_replace_it) {
  std::ofstream(place("a")) << "old";
  const auto refused = OutputFile::create(place("a"), Existing::kRefuse);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("exists; replace it with --force"));
  auto output = OutputFile::create(place("a"), Existing::kReplace);
  ASSERT_TRUE(output.ok());
  output->write("new");
  ASSERT_TRUE(output->finish().ok());
  EXPECT_EQ(content(place("a")), "new");
}

TEST_F(OutputFileTest, replaces_the_target_of_a_link) {
  std::ofstream(place("a")) << "old";
  fs::create_symlink(place("a"), place("link"));
  auto output = OutputFile::create(place("link"), Existing::kReplace);
  ASSERT_TRUE(output.ok());
  output->write("new");
  ASSERT_TRUE(output->finish().ok());
  EXPECT_TRUE(fs::is_symlink(place("link")));
  EXPECT_EQ(content(place("a")), "new");
}

TEST_F(OutputFileTest, a_full_disk_is_an_error_with_its_reason) {
  auto output = OutputFile::create("/dev/full", Existing::kRefuse);
  ASSERT_TRUE(output.ok());
  output->write("x");
  const Status status = output->finish();
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("/dev/full: cannot write: No space left"));
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(OutputFileTest, a_missing_folder_is_an_error) {
  const auto output = OutputFile::create(place("no/such/file"), Existing::kRefuse);
  ASSERT_FALSE(output.ok());
  EXPECT_THAT(output.error().message, HasSubstr("cannot write: No such file"));
}

}  // namespace
}  // namespace plimsoll::cli

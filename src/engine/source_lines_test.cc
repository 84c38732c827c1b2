#include "engine/source_lines.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"
#include "tests/support/trace_maker.h"

namespace plimsoll::engine {
namespace {

constexpr const char* kProgram =
    "import torch\n"
    "class Net:\n"
    "    def forward(self, x):\n"
    "        return\tx\x1b[31m @ self.weight  \n"
    "loss = 0\n";

class SourceText : public testing::Test {
 private:
  tests::TemporaryFolder folder_;

 protected:
  std::string path_ = folder() + "/net.py";
  static constexpr std::int64_t kWrittenAtS = 1'700'000'000;
  // Seconds from the last change of the source file to the start of the recording.
  std::int64_t begins_after_s_ = 3600;

  const std::string& folder() const { return folder_.path(); }
  static void write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
    const timespec written{kWrittenAtS, 0};
    const timespec times[] = {written, written};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }

  // The source text of the only frame of a recording.
  std::string text(const std::string& file, std::uint32_t line,
                   const std::string& function = "Net.forward") {
    tests::TraceMaker maker;
    maker.at((kWrittenAtS + begins_after_s_) * 1'000'000'000);
    const model::StackId stack = maker.stack({{file, line, function}});
    maker.alloc(64, 8, stack);
    const model::Trace trace = maker.finish();
    const model::UserLines lines(trace);
    return SourceLines(trace, lines).text_of(lines.label(stack));
  }
};

TEST_F(SourceText, a_line_is_shown_without_indentation_and_control_characters) {
  write(path_, kProgram);
  EXPECT_EQ(text(path_, 4), "return x[31m @ self.weight");
  EXPECT_EQ(text(path_, 5, "<module>"), "loss = 0");
  EXPECT_EQ(text(path_, 6), "");
  EXPECT_EQ(text(path_, 0), "");
}

TEST_F(SourceText, a_file_that_changed_since_the_recording_began_has_no_text) {
  write(path_, kProgram);
  begins_after_s_ = -3600;
  EXPECT_EQ(text(path_, 4), "");
}

TEST_F(SourceText, a_file_without_the_recorded_function_above_the_line_has_no_text) {
  write(path_, kProgram);
  EXPECT_EQ(text(path_, 4, "Net.backward"), "");
  EXPECT_EQ(text(path_, 4, "Net.forwar"), "");
  EXPECT_EQ(text(path_, 2, "Net.forward"), "");
  EXPECT_EQ(text(path_, 4, "Net"), "return x[31m @ self.weight");
}

TEST_F(SourceText, only_python_files_with_an_absolute_path_are_read) {
  const std::string secret = folder() + "/id_rsa";
  write(secret, kProgram);
  EXPECT_EQ(text(secret, 5, "<module>"), "");
  EXPECT_EQ(text("net.py", 5, "<module>"), "");
  EXPECT_EQ(text("", 5, "<module>"), "");
}

TEST_F(SourceText, special_files_are_not_read_and_do_not_block) {
  const std::string fifo = folder() + "/fifo.py";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(text(fifo, 1, "<module>"), "");
  ASSERT_EQ(::mkdir((folder() + "/folder.py").c_str(), 0700), 0);
  EXPECT_EQ(text(folder() + "/folder.py", 1, "<module>"), "");
  ASSERT_EQ(::symlink("/dev/zero", (folder() + "/zero.py").c_str()), 0);
  EXPECT_EQ(text(folder() + "/zero.py", 1, "<module>"), "");
}

TEST_F(SourceText, huge_files_and_text_that_is_not_utf8_are_skipped) {
  write(path_, kProgram + std::string(5 << 20, '#'));
  EXPECT_EQ(text(path_, 4), "");
  write(path_, "a = '\xff'\nb = 1\n");
  EXPECT_EQ(text(path_, 1, "<module>"), "");
  EXPECT_EQ(text(path_, 2, "<module>"), "b = 1");
}

TEST_F(SourceText, two_files_with_the_same_label_have_no_text) {
  tests::TraceMaker maker;
  maker.at((kWrittenAtS + 3600) * 1'000'000'000);
  for (const char* const root : {"/x", "/y"}) {
    const std::string inside = folder() + root + "/a/b";
    std::filesystem::create_directories(inside);
    write(inside + "/net.py", kProgram);
    const std::string file = inside + "/net.py";
    maker.alloc(64, 8, maker.stack({{file, 5, "<module>"}})).free(64, 8);
  }
  const model::Trace trace = maker.finish();
  const model::UserLines lines(trace);
  EXPECT_EQ(SourceLines(trace, lines).text_of("a/b/net.py:5 (<module>)"), "");
}

}  // namespace
}  // namespace plimsoll::engine

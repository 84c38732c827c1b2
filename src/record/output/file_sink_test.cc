// A recording never overwrites an existing file, whatever kind of file has the wanted name.
#include "record/output/file_sink.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "format/encoder.h"
#include "tests/support/temporary_folder.h"

namespace plimsoll::record {
namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}
std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}
std::string trace_text() {
  std::string text(format::kPreludeBytes, '\0');
  format::Encoder::prelude(reinterpret_cast<std::byte*>(text.data()));
  return text + "and more";
}

class FileSinkTest : public testing::Test {
 protected:
  std::string at(const std::string& name) const { return folder_.path() + "/" + name; }
  // The name of the file that a recording opens.
  std::string opened(const std::string& name, Earlier earlier = Earlier::kKeep) {
    FileSink sink;
    const int error = sink.open(at(name), earlier);
    if (error != 0) return "error " + std::to_string(error);
    EXPECT_EQ(sink.append(bytes_of("mine")), 0);
    return sink.path().substr(folder_.path().size() + 1);
  }

 private:
  tests::TemporaryFolder folder_;
};

TEST_F(FileSinkTest, takes_a_free_name) {
  EXPECT_EQ(opened("run.plim"), "run.plim");
  EXPECT_EQ(contents(at("run.plim")), "mine");
}

TEST_F(FileSinkTest, without_a_name_appears_with_its_first_bytes) {
  FileSink sink;
  ASSERT_EQ(sink.open_unnamed(at("child.plim")), 0);
  EXPECT_FALSE(std::filesystem::exists(at("child.plim")));
  EXPECT_EQ(sink.append(bytes_of("mi")), 0);
  EXPECT_EQ(contents(at("child.plim")), "mi");
  EXPECT_EQ(sink.append(bytes_of("ne")), 0);
  EXPECT_EQ(contents(at("child.plim")), "mine");
  EXPECT_EQ(sink.path(), at("child.plim"));
}

TEST_F(FileSinkTest, without_a_name_takes_the_next_free_one) {
  FileSink sink;
  ASSERT_EQ(sink.open_unnamed(at("child.plim")), 0);
  write_text(at("child.plim"), "of another");
  EXPECT_EQ(sink.append(bytes_of("mine")), 0);
  EXPECT_EQ(contents(at("child.plim")), "of another");
  EXPECT_EQ(contents(at("child.2.plim")), "mine");
  EXPECT_EQ(sink.path(), at("child.2.plim"));
}

TEST_F(FileSinkTest, makes_new_files_private_to_the_user) {
  const mode_t before = umask(0);
  FileSink sink;
  EXPECT_EQ(sink.open(at("run.plim"), Earlier::kKeep), 0);
  EXPECT_EQ(sink.begin_replacement(), 0);
  struct stat first{}, second{};
  EXPECT_EQ(stat(at("run.plim").c_str(), &first), 0);
  EXPECT_EQ(sink.end_replacement(), 0);
  EXPECT_EQ(stat(at("run.plim").c_str(), &second), 0);
  umask(before);
  EXPECT_EQ(first.st_mode & 0777U, 0600U);
  EXPECT_EQ(second.st_mode & 0777U, 0600U);
}

TEST_F(FileSinkTest, keeps_an_existing_file_and_takes_the_next_name) {
  write_text(at("run.plim"), "a thesis");
  EXPECT_EQ(opened("run.plim"), "run.2.plim");
  EXPECT_EQ(opened("run.plim"), "run.3.plim");
  EXPECT_EQ(contents(at("run.plim")), "a thesis");
  write_text(at("trace.out"), "a thesis");
  EXPECT_EQ(opened("trace.out"), "trace.out.2");
  EXPECT_EQ(contents(at("trace.out")), "a thesis");
}

TEST_F(FileSinkTest, uses_an_empty_file) {
  write_text(at("run.plim"), "");
  EXPECT_EQ(opened("run.plim"), "run.plim");
}

TEST_F(FileSinkTest, keeps_a_file_that_is_being_written) {
  FileSink first;
  ASSERT_EQ(first.open(at("run.plim"), Earlier::kKeep), 0);
  EXPECT_EQ(opened("run.plim"), "run.2.plim");  // even though it is empty
  ASSERT_EQ(first.append(bytes_of(trace_text())), 0);
  EXPECT_EQ(opened("run.plim", Earlier::kReplace), "run.3.plim");
  EXPECT_EQ(contents(at("run.plim")), trace_text());
}

TEST_F(FileSinkTest, replaces_only_traces_and_only_on_request) {
  write_text(at("run.plim"), trace_text());
  EXPECT_EQ(opened("run.plim"), "run.2.plim");
  EXPECT_EQ(opened("run.plim", Earlier::kReplace), "run.plim");
  EXPECT_EQ(contents(at("run.plim")), "mine");
  write_text(at("train.py"), "print('hello, world')");
  EXPECT_EQ(opened("train.py", Earlier::kReplace), "train.py.2");
  EXPECT_EQ(contents(at("train.py")), "print('hello, world')");
}

TEST_F(FileSinkTest, replaces_only_the_wanted_name) {
  write_text(at("run.plim"), "notes");
  write_text(at("run.2.plim"), trace_text());
  EXPECT_EQ(opened("run.plim", Earlier::kReplace), "run.3.plim");
  EXPECT_EQ(contents(at("run.2.plim")), trace_text());
}

TEST_F(FileSinkTest, a_reader_of_a_replaced_trace_can_continue) {
  write_text(at("run.plim"), trace_text());
  std::ifstream reader(at("run.plim"), std::ios::binary);
  EXPECT_EQ(opened("run.plim", Earlier::kReplace), "run.plim");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(reader), {}), trace_text());
}

TEST_F(FileSinkTest, does_not_follow_links_to_files) {
  write_text(at("thesis"), "a thesis");
  std::filesystem::create_symlink(at("thesis"), at("run.plim"));
  std::filesystem::create_symlink(at("nothing"), at("other.plim"));
  for (const Earlier earlier : {Earlier::kKeep, Earlier::kReplace}) {
    EXPECT_NE(opened("run.plim", earlier), "run.plim");
    EXPECT_NE(opened("other.plim", earlier), "other.plim");
  }
  EXPECT_EQ(contents(at("thesis")), "a thesis");
  EXPECT_FALSE(std::filesystem::exists(at("nothing")));
}

TEST_F(FileSinkTest, writes_to_devices_even_through_a_link) {
  std::filesystem::create_symlink("/dev/null", at("null"));
  EXPECT_EQ(opened("null"), "null");
  EXPECT_TRUE(std::filesystem::is_symlink(at("null")));
}

TEST_F(FileSinkTest, creates_missing_folders) {
  EXPECT_EQ(opened("runs/of/today/run.plim"), "runs/of/today/run.plim");
  EXPECT_EQ(opened("runs/of/today/run.plim"), "runs/of/today/run.2.plim");
}

TEST_F(FileSinkTest, reports_what_cannot_be_opened) {
  write_text(at("thesis"), "text");
  EXPECT_EQ(opened("thesis/run.plim"), "error " + std::to_string(ENOTDIR));
  std::filesystem::create_directory(at("folder"));
  EXPECT_EQ(opened("folder"), "error " + std::to_string(EISDIR));
}

TEST_F(FileSinkTest, a_replacement_includes_what_was_appended_meanwhile) {
  FileSink sink;
  ASSERT_EQ(sink.open(at("run.plim"), Earlier::kKeep), 0);
  ASSERT_EQ(sink.append(bytes_of("old")), 0);
  ASSERT_EQ(sink.begin_replacement(), 0);
  ASSERT_EQ(sink.extend_replacement(bytes_of("new")), 0);
  ASSERT_EQ(sink.append(bytes_of(" and more")), 0);
  EXPECT_EQ(contents(at("run.plim")), "old and more");
  ASSERT_EQ(sink.end_replacement(), 0);
  EXPECT_EQ(contents(at("run.plim")), "new and more");
  ASSERT_EQ(sink.append(bytes_of(" and more")), 0);
  EXPECT_EQ(contents(at("run.plim")), "new and more and more");
  EXPECT_EQ(opened("run.plim", Earlier::kReplace), "run.2.plim");  // still locked
  sink.close();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(at("")), {}), 2);
}

TEST_F(FileSinkTest, a_replacement_has_a_name_that_nobody_can_take_first) {
  FileSink sink;
  ASSERT_EQ(sink.open(at("run.plim"), Earlier::kKeep), 0);
  write_text(at("run.plim.tmp." + std::to_string(getpid())), "of another");
  ASSERT_EQ(sink.begin_replacement(), 0);
  ASSERT_EQ(sink.extend_replacement(bytes_of("new")), 0);
  ASSERT_EQ(sink.end_replacement(), 0);
  EXPECT_EQ(contents(at("run.plim")), "new");
  EXPECT_EQ(contents(at("run.plim.tmp." + std::to_string(getpid()))), "of another");
}

TEST_F(FileSinkTest, a_replacement_leaves_a_file_that_took_the_name) {
  FileSink sink;
  ASSERT_EQ(sink.open(at("run.plim"), Earlier::kKeep), 0);
  std::filesystem::rename(at("run.plim"), at("moved.plim"));
  write_text(at("run.plim"), "a thesis");
  ASSERT_EQ(sink.begin_replacement(), 0);
  ASSERT_EQ(sink.end_replacement(), ECANCELED);
  ASSERT_EQ(sink.append(bytes_of("mine")), 0);
  EXPECT_EQ(contents(at("run.plim")), "a thesis");
  EXPECT_EQ(contents(at("moved.plim")), "mine");
}

TEST_F(FileSinkTest, removes_only_files_it_created) {
  FileSink sink;
  ASSERT_EQ(sink.open(at("run.plim"), Earlier::kKeep), 0);
  sink.remove();
  EXPECT_FALSE(std::filesystem::exists(at("run.plim")));
  write_text(at("run.plim"), "");
  FileSink other;
  ASSERT_EQ(other.open(at("run.plim"), Earlier::kKeep), 0);
  other.remove();
  EXPECT_TRUE(std::filesystem::exists(at("run.plim")));
}

// Both processes of each pair request the same name simultaneously.
void open_in_two_processes(const std::string& stem, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    const std::string path = stem + std::to_string(round);
    if (round % 2 == 0) write_text(path, "");
    int barrier[2];
    ASSERT_EQ(pipe(barrier), 0);
    pid_t children[2];
    for (pid_t& child : children) {
      child = fork();
      if (child != 0) continue;
      close(barrier[1]);
      char none = 0;
      if (read(barrier[0], &none, 1) != 0) _exit(9);
      FileSink sink;
      if (sink.open(path, Earlier::kKeep) != 0) _exit(9);
      if (sink.append(bytes_of(std::to_string(getpid()))) != 0) _exit(9);
      _exit(sink.path() == path ? 1 : 2);
    }
    close(barrier[0]);
    close(barrier[1]);
    int sum = 0;
    for (const pid_t child : children) {
      int status = 0;
      waitpid(child, &status, 0);
      sum += WEXITSTATUS(status);
    }
    ASSERT_EQ(sum, 3) << "round " << round;
  }
}

TEST_F(FileSinkTest, gives_two_processes_two_files) { open_in_two_processes(at("run."), 20); }

TEST_F(FileSinkTest, slow_gives_two_processes_two_files) { open_in_two_processes(at("run."), 200); }

}  // namespace
}  // namespace plimsoll::record

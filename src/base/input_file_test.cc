#include "base/input_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <thread>

#include "tests/support/temporary_folder.h"

namespace plimsoll::base {
namespace {

std::string content(const std::string& path) {
  const InputFile file = open_input(path);
  if (file == nullptr) return "error " + std::to_string(errno);
  return read_rest(file.get()).value_or("error " + std::to_string(errno));
}

TEST(InputFile, is_read_whole) {
  const tests::TemporaryFolder folder;
  std::ofstream(folder.path() + "/file") << "content";
  EXPECT_EQ(content(folder.path() + "/file"), "content");
  EXPECT_EQ(content(folder.path() + "/none"), "error " + std::to_string(ENOENT));
}

TEST(InputFile, a_folder_fails_and_a_large_file_is_cut) {
  EXPECT_EQ(content("/"), "error " + std::to_string(EISDIR));
  const InputFile zeros = open_input("/dev/zero");
  const auto text = read_rest(zeros.get(), 100'000);
  ASSERT_TRUE(text);
  EXPECT_GT(text->size(), 100'000u);
  EXPECT_LT(text->size(), 200'000u);
}

TEST(InputFile, a_kernel_file_is_not_waited_for) {
  const InputFile file = open_input("/proc/self/stat");
  ASSERT_NE(file, nullptr);
  EXPECT_NE(fcntl(fileno(file.get()), F_GETFL) & O_NONBLOCK, 0);
}

TEST(InputFile, a_pipe_is_waited_for) {
  const tests::TemporaryFolder folder;
  const std::string path = folder.path() + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(path) << "content"; });
  EXPECT_EQ(content(path), "content");
  writer.join();
}

}  // namespace
}  // namespace plimsoll::base

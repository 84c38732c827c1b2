#include "base/file_identity.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace plimsoll::base {
namespace {

TEST(FileIdentity, a_number_that_is_another_file_now_stays_open) {
  const int file = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  const FileIdentity identity = FileIdentity::of(file);
  ASSERT_EQ(::close(file), 0);
  const int other = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(other, file);
  close_if_unchanged(file, identity);
  EXPECT_GE(::fcntl(other, F_GETFD), 0);
  close_if_unchanged(other, FileIdentity::of(other));
  EXPECT_EQ(::fcntl(other, F_GETFD), -1);
}

TEST(FileIdentity, closed_descriptors_equal_nothing) {
  EXPECT_FALSE(FileIdentity::of(-1) == FileIdentity::of(-1));
  EXPECT_FALSE(FileIdentity() == FileIdentity());
}

}  // namespace
}  // namespace plimsoll::base

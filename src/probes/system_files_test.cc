#include "probes/system_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/support/fake_machine.h"

namespace plimsoll::probes {
namespace {

TEST(SystemFiles, numbers_are_digits_and_nothing_else) {
  EXPECT_EQ(to_number(" 123\n"), 123U);
  EXPECT_EQ(to_number("18446744073709551615"), UINT64_MAX);
  for (const char* text : {"", "max\n", "-1", "12x", "18446744073709551616", "1 2"}) {
    EXPECT_EQ(to_number(text), std::nullopt) << text;
  }
}

TEST(SystemFiles, a_key_is_a_whole_word_at_the_beginning_of_a_line) {
  const std::string text =
      "total_inactive_file 7\ninactive_file_x 8\ninactive_file 9\nPss:\t 2 kB\n";
  EXPECT_EQ(number_after(text, "inactive_file"), 9U);
  EXPECT_EQ(bytes_after(text, "Pss:"), 2048U);
  EXPECT_EQ(number_after(text, "Rss:"), std::nullopt);
  EXPECT_EQ(bytes_after("Pss: 99999999999999999 kB", "Pss:"), std::nullopt);
}

TEST(SystemFiles, unreadable_files_are_absent_and_never_block) {
  const tests::FakeMachine machine;
  EXPECT_EQ(read_system_file(machine.root() + "/nothing"), std::nullopt);
  EXPECT_EQ(read_system_file(machine.root()), std::nullopt);  // a folder
  ASSERT_EQ(::mkfifo((machine.root() + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(read_system_file(machine.root() + "/pipe").value_or(""), "");
}

TEST(SystemFiles, a_folder_is_listed_without_names_that_start_with_a_dot) {
  const tests::FakeMachine machine;
  machine.write("/some/a", "1");
  machine.write("/some/.b", "1");
  EXPECT_EQ(list_system_folder(machine.root() + "/some"), std::vector<std::string>{"a"});
  EXPECT_TRUE(list_system_folder(machine.root() + "/nothing").empty());
}

TEST(SystemFiles, an_endless_file_is_truncated) {
  EXPECT_EQ(read_system_file("/dev/zero").value_or("").size(), std::size_t{64} << 10);
}

}  // namespace
}  // namespace plimsoll::probes

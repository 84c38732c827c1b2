#include "cli/name_file.h"

#include <gtest/gtest.h>

namespace plimsoll::cli {
namespace {

const NameMap kNames = {{"name_1", "ZebraNet"}, {"name_12", "mango\tin \\ two\nlines"}};

TEST(NameFile, is_read_as_it_was_written) {
  const auto read = read_names(names_text(kNames), "a.names");
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, kNames);
  EXPECT_EQ(names_text(kNames).find("lines\n"), names_text(kNames).size() - 6);
}

TEST(NameFile, another_file_is_an_error_with_its_place) {
  EXPECT_EQ(read_names("name_1\tZebraNet\n", "a.names").error().message,
            "a.names is not a file of names that plimsoll export --redact wrote");
  EXPECT_EQ(read_names(names_text({}) + "cut", "a.names").error().message,
            "a.names: line 2 has no pseudonym");
}

TEST(NameFile, decodes_whole_words) {
  EXPECT_EQ(decoded("checkpoint name_1.name_3, not xname_1 or name_11 (name_1)", kNames),
            "checkpoint ZebraNet.name_3, not xname_1 or name_11 (ZebraNet)");
}

}  // namespace
}  // namespace plimsoll::cli

#include "model/program_source.h"

#include <gtest/gtest.h>

namespace plimsoll::model {
namespace {

constexpr StringId kFile{1}, kOther{2}, kFunction{3};

TEST(ProgramSource, a_line_is_found_by_its_file_and_number) {
  ProgramSource source;
  source.add(SourceLine{.file = kOther, .line = 7, .hash = 1, .text = "other"});
  source.add(SourceLine{.file = kFile, .line = 9, .hash = 2, .text = "nine"});
  source.add(SourceLine{.file = kFile, .line = 7, .hash = 3, .text = "first"});
  source.add(SourceLine{.file = kFile, .line = 7, .hash = 4, .text = "last"});
  source.sort();
  ASSERT_NE(source.line(kFile, 7), nullptr);
  EXPECT_EQ(source.line(kFile, 7)->text, "last");
  EXPECT_EQ(source.line(kOther, 7)->text, "other");
  EXPECT_EQ(source.line(kFile, 8), nullptr);
  EXPECT_EQ(source.line(StringId{}, 1), nullptr);
  source.drop_lines();
  EXPECT_EQ(source.line(kFile, 7), nullptr);
}

TEST(ProgramSource, of_functions_with_one_name_the_last_one_above_contains_the_line) {
  ProgramSource source;
  source.add(FunctionStart{kFile, kFunction, 40});
  source.add(FunctionStart{kFile, kFunction, 10});
  source.sort();
  EXPECT_EQ(source.first_line(kFile, kFunction, 9), 0u);
  EXPECT_EQ(source.first_line(kFile, kFunction, 10), 10u);
  EXPECT_EQ(source.first_line(kFile, kFunction, 39), 10u);
  EXPECT_EQ(source.first_line(kFile, kFunction, 41), 40u);
  EXPECT_EQ(source.first_line(kOther, kFunction, 41), 0u);
}

}  // namespace
}  // namespace plimsoll::model

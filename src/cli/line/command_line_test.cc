#include "cli/line/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Command command() {
  Command made;
  made.name = "look";
  made.positionals = {{"FILE", "", Count::kOneOrMore}};
  made.options = {{"--by", "", "TABLE", "", {"line", "stack"}, true},
                  {"--output", "-o", "PATH", ""},
                  {"--json", "", "", ""}};
  return made;
}

std::string error_of(const std::vector<std::string>& words) {
  const auto parsed = parse(command(), words);
  return parsed ? "" : parsed.error().message;
}

TEST(CommandLine, words_become_arguments) {
  const auto parsed =
      parse(command(), {"a", "--by=line", "--json", "b", "-o", "c", "--by", "stack,line"});
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_THAT(parsed->values("FILE"), ElementsAre("a", "b"));
  EXPECT_THAT(parsed->values("--by"), ElementsAre("line", "stack", "line"));
  EXPECT_EQ(parsed->value("--output"), "c");
  EXPECT_TRUE(parsed->has("--json"));
}

TEST(CommandLine, omitted_arguments_are_absent) {
  const auto parsed = parse(command(), {"a"});
  ASSERT_TRUE(parsed.ok());
  EXPECT_FALSE(parsed->has("--json"));
  EXPECT_FALSE(parsed->has("--by"));
  EXPECT_EQ(parsed->value("--output", "else"), "else");
}

TEST(CommandLine, a_file_may_begin_with_a_dash_after_two_dashes) {
  const auto parsed = parse(command(), {"--json", "--", "-a"});
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_THAT(parsed->values("FILE"), ElementsAre("-a"));
}

TEST(CommandLine, a_value_may_be_in_the_word_of_its_option) {
  const auto parsed = parse(command(), {"-oc", "--by=line", "-"});
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->value("--output"), "c");
  EXPECT_THAT(parsed->values("--by"), ElementsAre("line"));
  EXPECT_THAT(parsed->values("FILE"), ElementsAre("-")) << "a file";
}

TEST(CommandLine, a_value_may_begin_with_a_dash) {
  const auto parsed = parse(command(), {"a", "--output", "--json"});
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->value("--output"), "--json");
  EXPECT_FALSE(parsed->has("--json"));
}

TEST(CommandLine, positionals_are_counted) {
  Command one = command();
  one.positionals = {{"FILE", "", Count::kAtMostOne}};
  EXPECT_THAT(parse(one, {"a", "b"}).error().message, HasSubstr("takes one FILE, not more"));
  EXPECT_TRUE(parse(one, {}).ok());
  one.positionals.clear();
  EXPECT_THAT(parse(one, {"a"}).error().message, HasSubstr("\"a\" is an unexpected argument"));
}

TEST(CommandLine, mistakes_are_reported_with_suggestions) {
  EXPECT_THAT(error_of({"a", "--jsno"}), HasSubstr("no option --jsno; did you mean --json?"));
  EXPECT_THAT(error_of({"a", "--by", "lien"}),
              HasSubstr("--by lien is not one of line, stack; did you mean line?"));
  EXPECT_THAT(error_of({"a", "--json=yes"}), HasSubstr("--json takes no value"));
  EXPECT_THAT(error_of({"a", "-x"}), HasSubstr("no option -x"));
  EXPECT_THAT(error_of({"--json"}), HasSubstr("needs a FILE"));
  EXPECT_THAT(error_of({"a", "-o"}), HasSubstr("--output needs a value"));
  EXPECT_THAT(error_of({"a", "-o", ""}), HasSubstr("--output \"\" is empty: it takes a PATH"));
  EXPECT_THAT(error_of({"--by", ",", "a"}), HasSubstr("--by \",\" names no TABLE"));
  EXPECT_THAT(error_of({"--by=", "a"}), HasSubstr("--by \"\" names no TABLE"));
  EXPECT_THAT(error_of({"a", "-o", "b", "-o", "c"}), HasSubstr("--output is given more than once"));
}

}  // namespace
}  // namespace plimsoll::cli

#include "text/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/layout.h"

namespace plimsoll::text {
namespace {

using enum TextTable::Align;
using testing::HasSubstr;
using testing::Not;

TEST(TextTable, numbers_are_right_aligned_and_text_left_aligned) {
  TextTable table({{"bytes"}, {"line", kWords}});
  table.add_row({"1.0 GiB", "a.py:1"});
  table.add_row({"9 B", "b.py:2"});
  EXPECT_EQ(table.to_text(100, Color::kOff),
            "    bytes  line\n"
            "  1.0 GiB  a.py:1\n"
            "      9 B  b.py:2\n");
}

TEST(TextTable, the_last_column_is_shortened_to_the_width) {
  TextTable table({{"bytes"}, {"line", kWords}});
  table.add_row({"1.0 GiB", "somewhere/far/away/in/folders/train.py:91 (main)"});
  const std::string text = table.to_text(39, Color::kOff);
  EXPECT_NE(text.find("/train.py:91 (main)\n"), std::string::npos) << text;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    EXPECT_LE(display_width(text.substr(at, end - at)), 40u);
    at = end + 1;
  }
}

TEST(TextTable, texts_that_shortening_would_make_equal_are_printed_in_full) {
  TextTable table({{"n"}, {"line", kWords}});
  table.add_row({"1", "somewhere/left/train.py:91 (main)"});
  table.add_note("/home/someone/left/net.py:7 forward");
  table.add_row({"2", "somewhere/right/train.py:91 (main)"});
  table.add_note("/home/someone/right/net.py:7 forward");
  table.add_row({"3", "somewhere/else/main.py:91 (main)"});
  EXPECT_EQ(table.to_text(35, Color::kOff),
            "  n  line\n"
            "  1  somewhere/\u2026/train.py:91 (main)\n"
            "            somewhere/left/train.py\n"
            "            :91 (main)\n"
            "            /home/someone/left/net.\n"
            "            py:7 forward\n"
            "  2  somewhere/\u2026/train.py:91 (main)\n"
            "            somewhere/right/train.p\n"
            "            y:91 (main)\n"
            "            /home/someone/right/net\n"
            "            .py:7 forward\n"
            "  3  somewhere/e\u2026/main.py:91 (main)\n");
}

TEST(TextTable, notes_are_below_their_row) {
  TextTable table({{"n"}, {"stack", kWords}});
  table.add_row({"1", "a.py:1"});
  table.add_note("main.py:3 main");
  EXPECT_EQ(table.to_text(100, Color::kOff),
            "  n  stack\n  1  a.py:1\n            main.py:3 main\n");
}

TEST(TextTable, an_aside_follows_its_row_if_it_fits_or_is_below_it) {
  TextTable table({{"n"}, {"line", kWords}});
  table.add_row({"1", "net.py:1 (f)"});
  table.add_aside("y = x @ w");
  table.add_row({"2", "everything else"});
  EXPECT_EQ(table.to_text(60, Color::kOff),
            "  n  line\n"
            "  1  net.py:1 (f)     y = x @ w\n"
            "  2  everything else\n");
  EXPECT_EQ(table.to_text(40, Color::kOff),
            "  n  line\n"
            "  1  net.py:1 (f)\n"
            "            y = x @ w\n"
            "  2  everything else\n");
  EXPECT_EQ(table.to_text(19, Color::kOff),
            "  n  line\n"
            "  1  net.py:1 (f)\n"
            "            y = x @ w\n"
            "  2  everything else\n");
}

TEST(TextTable, numbers_are_never_shortened_but_their_headers_are) {
  TextTable table({{"", kWords}, {"a_run_with_a_long_name"}, {"difference"}});
  table.add_row({"peak", "18.6 MiB", "+12.8 MiB (+223.8%)"});
  const std::string text = table.to_text(39, Color::kOff);
  EXPECT_THAT(text, HasSubstr("  peak    18.6 MiB  +12.8 MiB (+223.8%)\n"));
  EXPECT_THAT(text, Not(HasSubstr("a_run_with_a_long_name")));
  EXPECT_THAT(table.to_text(10, Color::kOff), HasSubstr("18.6 MiB  +12.8 MiB (+223.8%)\n"));
  EXPECT_THAT(table.to_text(100, Color::kOff), HasSubstr("a_run_with_a_long_name"));
}

TEST(TextTable, a_long_aside_loses_its_end) {
  TextTable table({{"n"}});
  table.add_row({"1"});
  table.add_aside("abcdefghij abcdefghij abcdefghij abcdefghij");
  EXPECT_EQ(table.to_text(40, Color::kOff), "  n\n  1  abcdefghij abcdefghij abcdefghij a\u2026\n");
}

TEST(TextTable, color_does_not_change_the_layout) {
  TextTable table({{"n"}});
  table.add_row({"1"}, Style::kBold);
  EXPECT_EQ(table.to_text(100, Color::kOn), "\x1b[2m  n\x1b[0m\n\x1b[1m  1\x1b[0m\n");
}

}  // namespace
}  // namespace plimsoll::text

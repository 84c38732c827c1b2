#include "text/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::text {
namespace {

TEST(Printable, control_characters_and_broken_utf8_are_replaced) {
  EXPECT_EQ(printable("a\x1b[31mb\n"), "a\uFFFD[31mb\uFFFD");
  EXPECT_EQ(printable("a\xff\xc3"), "a\uFFFD\uFFFD");
  EXPECT_EQ(printable("\u202Eevil"), "\uFFFDevil");
  EXPECT_EQ(printable("a\U000E0041\u0085"), "a\uFFFD\uFFFD");
  EXPECT_EQ(printable("Müller/日本.py"), "Müller/日本.py");
}

TEST(DisplayWidth, counts_columns_not_bytes) {
  EXPECT_EQ(display_width("abc"), 3u);
  EXPECT_EQ(display_width("é…"), 2u);
  EXPECT_EQ(display_width("日本"), 4u);
  EXPECT_EQ(display_width("e\u0301"), 1u);
}

TEST(ShortenPlace, keeps_what_fits) {
  EXPECT_EQ(shorten_place("a/b.py:1 (f)", 12), "a/b.py:1 (f)");
}

TEST(ShortenPlace, omits_folders_first) {
  EXPECT_EQ(shorten_place("projects/llm/src/blocks/attention.py:57 (forward)", 36),
            "projects/…/attention.py:57 (forward)");
}

TEST(ShortenPlace, understands_windows_paths) {
  EXPECT_EQ(shorten_place("C:\\Users\\someone\\train.py:7 (f)", 20), "C:\\U…\\train.py:7 (f)");
}

TEST(ShortenPlace, then_cuts_the_function) {
  EXPECT_EQ(shorten_place("src/train.py:7 (a_very_long_function)", 18), "train.py:7 (a_ver…");
}

TEST(ShortenPlace, cuts_the_middle_of_other_words) {
  EXPECT_EQ(shorten_place("aten::convolution_backward", 11), "aten:…kward");
}

TEST(ShortenPlace, is_never_wider_than_requested) {
  for (const char* text :
       {"projects/llm/src/attention.py:57 (forward)", "日本語/日本語.py:3 (関数)", "abcdefghij"}) {
    for (std::size_t width = 0; width < 50; ++width) {
      EXPECT_LE(display_width(shorten_place(text, width)), width) << text;
    }
  }
}

TEST(Wrap, breaks_at_spaces_and_indents) {
  EXPECT_EQ(wrap("one two three four", 4, 14), "one two\n    three four");
}

TEST(Wrap, breaks_a_word_that_fits_on_no_line) {
  EXPECT_EQ(wrap("abcdefghijklmnop", 0, 10), "abcdefghij\nklmnop");
}

}  // namespace
}  // namespace plimsoll::text

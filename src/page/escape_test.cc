#include "page/escape.h"

#include <string>

#include <gtest/gtest.h>

#include "base/utf8.h"

namespace plimsoll::page {
namespace {

using namespace std::string_view_literals;

TEST(EscapeHtml, markup_becomes_text) {
  EXPECT_EQ(escape_html("</script><img onerror=\"a('b')\">&amp; ]]>"),
            "&lt;/script&gt;&lt;img onerror=&quot;a(&#39;b&#39;)&quot;&gt;&amp;amp; ]]&gt;");
}

TEST(EscapeHtml, ordinary_text_stays) {
  const std::string_view text =
      "Net.blocks.0 \xC2\xB7 \xE6\xBC\xA2\xE5\xAD\x97 \xF0\x9F\x9A\xA2\t\n";
  EXPECT_EQ(escape_html(text), text);
}

TEST(EscapeHtml, bytes_that_are_not_utf8_are_replaced_one_by_one) {
  EXPECT_EQ(escape_html("a\xFF\xC3(b\xE2\x82"),
            "a\xEF\xBF\xBD\xEF\xBF\xBD(b\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(EscapeHtml, characters_that_xml_forbids_or_that_mislead_are_replaced) {
  EXPECT_EQ(escape_html("nul\0esc\x1B\x7F"sv),
            "nul\xEF\xBF\xBD"
            "esc\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(escape_html("\xEF\xBF\xBE\xEF\xBF\xBF"), "\xEF\xBF\xBD\xEF\xBF\xBD");  // U+FFFE, U+FFFF
  EXPECT_EQ(escape_html("evil\xE2\x80\xAEyp.exe"), "evil\xEF\xBF\xBDyp.exe");      // U+202E
  EXPECT_EQ(escape_html("\xE2\x81\xA6"), "\xEF\xBF\xBD");                          // U+2066
}

TEST(EscapeHtml, a_megabyte_stays_whole) {
  const std::string text(1 << 20, '<');
  EXPECT_EQ(escape_html(text).size(), text.size() * 4);
}

TEST(Shortened, cuts_between_characters) {
  EXPECT_EQ(shortened("abcdef", 6), "abcdef");
  EXPECT_EQ(shortened("abcdef", 4), "abc\xE2\x80\xA6");
  EXPECT_EQ(shortened("\xE6\xBC\xA2\xE5\xAD\x97\xE6\xBC\xA2", 2), "\xE6\xBC\xA2\xE2\x80\xA6");
  EXPECT_EQ(shortened("abc", 1), "\xE2\x80\xA6");
  EXPECT_EQ(shortened("", 3), "");
}

TEST(Shortened, the_front_is_cut_from_paths) {
  EXPECT_EQ(shortened_front("models/llama.py:89", 12),
            "\xE2\x80\xA6"
            "llama.py:89");
  EXPECT_EQ(shortened_front("llama.py:89", 11), "llama.py:89");
  EXPECT_EQ(shortened_front("\xE6\xBC\xA2\xE5\xAD\x97\xE6\xBC\xA2", 2), "\xE2\x80\xA6\xE6\xBC\xA2");
}

TEST(Shortened, a_result_never_has_more_characters_than_allowed) {
  const std::string text = "a\xC2\xB7\xFF\xE6\xBC\xA2z\xF0\x9F\x9A\xA2";
  for (std::size_t most = 1; most < 9; ++most) {
    EXPECT_LE(character_count(shortened(text, most)), most) << most;
    EXPECT_LE(character_count(shortened_front(text, most)), most) << most;
  }
}

}  // namespace
}  // namespace plimsoll::page

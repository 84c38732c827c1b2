#include "base/text_decoder.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace plimsoll::base {
namespace {

// Passes the bytes in pieces. The text must not depend on the size of the pieces.
std::string decode(std::string_view bytes) {
  std::string first;
  for (const std::size_t piece : {1UL, 2UL, 3UL, 5UL, 100UL}) {
    std::string text;
    TextDecoder decoder;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      decoder.feed(bytes.substr(at, piece), text);
    }
    decoder.finish(text);
    if (piece == 1) first = text;
    EXPECT_EQ(text, first) << piece;
  }
  return first;
}

std::string utf16(std::u16string_view text, bool is_little) {
  std::string bytes;
  for (const char16_t unit : text) {
    const char low = static_cast<char>(unit & 0xFF);
    const char high = static_cast<char>(unit >> 8);
    bytes += is_little ? low : high;
    bytes += is_little ? high : low;
  }
  return bytes;
}

TEST(TextDecoder, utf16_is_converted) {
  const std::u16string_view text = u"ab\u00E9\u20AC\U0001F600\r\nb";
  const std::string expected = "ab\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\r\nb";
  for (const bool is_little : {false, true}) {
    EXPECT_EQ(decode(utf16(u"\uFEFF" + std::u16string(text), is_little)), expected);
    EXPECT_EQ(decode(utf16(text, is_little)), expected) << "without a byte order mark";
  }
  EXPECT_EQ(decode(utf16(u"\uFEFF\xDC00x", true)), "\xEF\xBF\xBDx");
}

TEST(TextDecoder, utf8_is_kept) {
  EXPECT_EQ(decode(""), "");
  EXPECT_EQ(decode("a"), "a");
  EXPECT_EQ(decode("\xEF\xBB\xBF\xC3\xA9t\xC3\xA9"), "\xC3\xA9t\xC3\xA9");
  EXPECT_EQ(decode("broken \xFF\x80"), "broken \xFF\x80");
  const std::string_view zeros("a\0b\0\0c", 6);
  EXPECT_EQ(decode(zeros.substr(0, 3)), zeros.substr(0, 3));
}

}  // namespace
}  // namespace plimsoll::base

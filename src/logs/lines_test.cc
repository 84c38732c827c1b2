#include "logs/lines.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::logs {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;
using Lines = std::vector<std::string>;

// Passes the bytes in pieces. The lines must not depend on the size of the pieces.
Lines lines_of(std::string_view bytes, std::size_t piece = 3) {
  Lines lines;
  LogLines reader([&](std::string_view line) { lines.emplace_back(line); });
  for (std::size_t at = 0; at < bytes.size(); at += piece) reader.feed(bytes.substr(at, piece));
  reader.finish();
  return lines;
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

TEST(LogLines, end_as_on_any_system) {
  EXPECT_THAT(lines_of("a\nb\r\nc\rd\n\ne"), ElementsAre("a", "b", "c", "d", "", "e"));
  EXPECT_THAT(lines_of("a\n"), ElementsAre("a"));
  EXPECT_THAT(lines_of("a"), ElementsAre("a"));
  EXPECT_THAT(lines_of(""), ElementsAre());
  EXPECT_THAT(lines_of("\xEF\xBB\xBF"
                       "a"),
              ElementsAre("a"));
}

TEST(LogLines, are_converted_to_utf8) {
  const std::u16string_view text = u"\uFEFFa\u00E9\u20AC\U0001F600\r\nb";
  const Lines expected = {"a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", "b"};
  for (const std::size_t piece : std::vector<std::size_t>{1, 2, 5, 100}) {
    EXPECT_EQ(lines_of(utf16(text, true), piece), expected) << piece;
    EXPECT_EQ(lines_of(utf16(text, false), piece), expected) << piece;
  }
  EXPECT_THAT(lines_of(utf16(u"\uFEFF\xDC00x", true)), ElementsAre("\xEF\xBF\xBDx"));
}

TEST(LogLines, are_truncated_if_they_do_not_end) {
  std::vector<std::size_t> sizes;
  LogLines reader([&](std::string_view line) { sizes.push_back(line.size()); });
  for (int i = 0; i < 100; ++i) reader.feed(std::string(LogLines::kLongestLine / 10, 'x'));
  reader.feed("\nshort");
  reader.finish();
  EXPECT_THAT(sizes, ElementsAre(LogLines::kLongestLine, 5));
  EXPECT_EQ(reader.long_lines(), 1U);
}

}  // namespace
}  // namespace plimsoll::logs

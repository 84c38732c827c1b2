#include "logs/lines.h"

#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::logs {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;
using Lines = std::vector<std::string>;

// Passes the bytes in pieces, which the lines must not depend on.
Lines lines_of(std::string_view bytes) {
  constexpr std::size_t piece = 3;
  Lines lines;
  LogLines reader([&](std::string_view line) { lines.emplace_back(line); });
  for (std::size_t at = 0; at < bytes.size(); at += piece) reader.feed(bytes.substr(at, piece));
  reader.finish();
  return lines;
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
  EXPECT_THAT(lines_of(std::string_view("\xFF\xFE\xE9\0\r\0\n\0b\0", 10)),
              ElementsAre("\xC3\xA9", "b"));
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

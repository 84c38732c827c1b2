#include "page/text_width.h"

#include <string>

#include <gtest/gtest.h>

namespace plimsoll::page {
namespace {

TEST(TextWidth, grows_with_size_and_weight) {
  const double width = text_width("peak 45.1 MiB", {11});
  EXPECT_GT(width, 60);
  EXPECT_LT(width, 95);
  EXPECT_DOUBLE_EQ(text_width("peak 45.1 MiB", {22}), 2 * width);
  EXPECT_GT(text_width("peak 45.1 MiB", {11, true}), width);
  EXPECT_DOUBLE_EQ(text_width("iiii", {10, false, true}), text_width("WWWW", {10, false, true}));
  EXPECT_EQ(text_width("", {11}), 0);
}

TEST(TextWidth, fitted_text_fits_and_could_not_be_longer) {
  const std::string text = "LanguageModel.blocks.0.attention";
  for (int width = 0; width < 220; width += 7) {
    const std::string shown = fitted(text, {11}, width);
    EXPECT_LE(text_width(shown, {11}), width);
    if (shown == text || shown.empty()) continue;
    const std::size_t kept = shown.size() - 3;  // without the ellipsis
    EXPECT_EQ(shown.substr(0, kept), text.substr(0, kept));
    EXPECT_GT(text_width(text.substr(0, kept + 1) + shown.substr(kept), {11}), width);
  }
  EXPECT_EQ(fitted(text, {11}, 1000), text);
  EXPECT_EQ(fitted(text, {11}, 3), "");
}

TEST(TextWidth, wrapped_lines_end_between_words_and_fit) {
  const std::string text = "live bytes by layer; a box contains those below it";
  for (const double width : {60.0, 100.0, 150.0, 1000.0}) {
    const std::vector<std::string> lines = wrapped(text, {11}, width, 20);
    std::string joined;
    for (const std::string& line : lines) {
      EXPECT_LE(text_width(line, {11}), width);
      joined += (joined.empty() ? "" : " ") + line;
    }
    EXPECT_EQ(joined, text);
  }
  EXPECT_EQ(wrapped(text, {11}, 100, 2).size(), 2u);
  EXPECT_TRUE(wrapped("", {11}, 100, 2).empty());
  EXPECT_EQ(wrapped("unbreakable", {11}, 30, 3).size(), 1u);
  std::string long_text;
  while (long_text.size() < 1 << 20) long_text += "a ";
  EXPECT_EQ(wrapped(long_text, {11}, 100, 3).size(), 3u);
}

TEST(TextWidth, a_megabyte_is_shortened) {
  const std::string text(1 << 20, 'x');
  const std::string shown = fitted(text, {11}, 100);
  EXPECT_LT(shown.size(), 40u);
  EXPECT_TRUE(fitted_front(text + "end", {11}, 100).ends_with("end"));
}

}  // namespace
}  // namespace plimsoll::page

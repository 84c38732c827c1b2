#include "page/text_width.h"

#include <string>

#include <gtest/gtest.h>

namespace plimsoll::page {
namespace {

TEST(TextWidth, grows_with_size_and_weight) {
  const double width = text_width("peak 45.1 MiB", {11});
  EXPECT_GT(width, 60);
  EXPECT_LT(width, 90);
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

TEST(TextWidth, a_megabyte_is_shortened) {
  const std::string text(1 << 20, 'x');
  const std::string shown = fitted(text, {11}, 100);
  EXPECT_LT(shown.size(), 40u);
  EXPECT_EQ(fitted_front(text + "end", {11}, 100).substr(shown.size() - 3), "end");
}

}  // namespace
}  // namespace plimsoll::page

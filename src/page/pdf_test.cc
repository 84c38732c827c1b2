#include "page/pdf.h"

#include <cstdlib>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::page {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Drawing with_every_shape() {
  Drawing drawing{96, 48};
  drawing.add(Rect{2, 3, 20, 10, {Paint::kParameter, 0.5, Paint::kInk}, {Paint::kInk}});
  drawing.add(Area{{0, 5, 10, 15}, {4, 9, 2}, {8, 9, 8}, {Paint::kGradient}});
  drawing.add(Polyline{{{0, 0}, {9, 9}}, {Paint::kInk, 2, 4, 3, 0.25}});
  drawing.add(Circle{20, 20, 5, {Paint::kBuffer}});
  drawing.add(Text{.x = 40, .y = 20, .text = "1.0 MiB, \xE2\x80\xA6", .degrees = 90});
  return drawing;
}

TEST(Pdf, every_object_is_where_the_table_says) {
  const std::string pdf = to_pdf(with_every_shape(), Theme::kPrint, "peak");
  EXPECT_THAT(pdf, StartsWith("%PDF-1.4\n"));
  EXPECT_TRUE(pdf.ends_with("\n%%EOF\n"));
  const std::size_t table = pdf.find("xref\n");
  EXPECT_THAT(pdf, HasSubstr("startxref\n" + std::to_string(table) + "\n"));
  for (std::size_t object = 1; object < 6; ++object) {
    const std::string line = pdf.substr(table + 9 + 20 * object, 20);
    EXPECT_EQ(line.substr(10), " 00000 n \n");
    const auto place = static_cast<std::size_t>(std::strtoul(line.c_str(), nullptr, 10));
    EXPECT_THAT(pdf.substr(place), StartsWith(std::to_string(object) + " 0 obj\n"));
  }
}

TEST(Pdf, a_page_has_the_size_of_the_drawing_in_points_and_its_opacities) {
  const std::string pdf = to_pdf(with_every_shape(), Theme::kPrint, "peak");
  EXPECT_THAT(pdf, HasSubstr("/MediaBox [0 0 72.00 36.00 ]"));
  EXPECT_THAT(pdf, HasSubstr("<< /ca 0.50 /CA 0.50 >>"));
  EXPECT_THAT(pdf, HasSubstr("<< /ca 0.25 /CA 0.25 >>"));
}

TEST(Pdf, titles_may_have_any_characters) {
  const std::string pdf = to_pdf({9, 9}, Theme::kPrint, ")\xF0\x9D\x84\x9E\xFF");
  EXPECT_THAT(pdf, HasSubstr("/Title <FEFF0029D834DD1EFFFD>"));
}

TEST(Pdf, only_a_background_that_is_not_white_is_painted) {
  const std::string white = to_pdf({9, 9}, Theme::kPrint, "");
  EXPECT_LT(white.size(), to_pdf({9, 9}, Theme::kDark, "").size());
}

}  // namespace
}  // namespace plimsoll::page

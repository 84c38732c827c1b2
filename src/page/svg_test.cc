#include "page/svg.h"

#include <limits>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/xml_text.h"

namespace plimsoll::page {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using tests::XmlElement;

XmlElement parsed(const std::string& svg) {
  XmlElement root;
  EXPECT_EQ(tests::XmlReader(svg).read(root), "") << svg.substr(0, 2000);
  return root;
}

// A drawing with one shape of each kind; `text` is used wherever a shape has a text.
Drawing every_shape(std::string_view text) {
  const std::string words(text);
  Drawing drawing{200, 100};
  drawing.add(Rect{1, 2, 3.456, 4, {Paint::kActivation}, {Paint::kInk}, {words, words}});
  drawing.add(Rect{1, 2, 30, 4, {Paint::kUnknown, 0.5, Paint::kBackground}, {}, {words, words}});
  drawing.add(Area{{0, 10, 20}, {5, 4}, {9, 9}, {Paint::kParameter}, {words, words}});
  drawing.add(Polyline{{{0, 0}, {10, 0}, {10, 5}, {20, 8}}, {Paint::kCritical, 1.5, 5, 4}});
  drawing.add(Circle{50, 50, 6, {Paint::kBackground}, {Paint::kCritical}, {words, words}});
  drawing.add(Text{10, 20, words, 12, Paint::kMuted, Anchor::kMiddle, true, true, -90});
  return drawing;
}

TEST(Svg, a_file_has_the_colors_of_its_theme) {
  Drawing drawing{20, 10};
  drawing.add(Rect{1, 2, 3.456, 4, {Paint::kActivation}});
  SvgOptions options;
  options.title = "Peak 1.0 GiB";
  options.description = "What it shows";
  const XmlElement root = parsed(to_svg(drawing, options));
  EXPECT_EQ(root.name, "svg");
  EXPECT_EQ(root.attribute("xmlns"), "http://www.w3.org/2000/svg");
  EXPECT_EQ(root.attribute("viewBox"), "0 0 20 10");
  EXPECT_EQ(root.attribute("role"), "img");
  EXPECT_THAT(root.texts("title"), ElementsAre("Peak 1.0 GiB"));
  EXPECT_THAT(root.texts("desc"), ElementsAre("What it shows"));
  const auto rects = root.all("rect");
  ASSERT_EQ(rects.size(), 2u);
  EXPECT_EQ(rects[0]->attribute("fill"), "#ffffff");
  EXPECT_EQ(rects[1]->attribute("fill"), "#c2850c");
  EXPECT_EQ(rects[1]->attribute("width"), "3.46");
}

TEST(Svg, a_part_of_a_page_has_classes_only) {
  SvgOptions options;
  options.colors = SvgColors::kOfStylesheet;
  const std::string svg = to_svg(every_shape("text"), options);
  const XmlElement root = parsed(svg);
  EXPECT_THAT(svg, Not(HasSubstr("#c2850c")));
  EXPECT_EQ(root.all("rect")[0]->attribute("class"), "p-activation s-ink");
  EXPECT_EQ(root.all("text")[0]->attribute("class"), "mono p-muted");
  for (const Paint paint : kPaints) {
    const std::string name(name_of(paint));
    std::string rule = ".p-";
    rule.append(name).append("{fill:var(--").append(name).append(")}");
    EXPECT_THAT(css_of_classes(), HasSubstr(rule));
    EXPECT_THAT(css_of_paints(Theme::kDark), HasSubstr("--" + name + ":#"));
  }
  EXPECT_THAT(css_of_paints(Theme::kDark), HasSubstr("--activation:#d9aa58;"));
}

TEST(Svg, neither_has_style_attributes) {
  for (const SvgColors colors : {SvgColors::kOfTheme, SvgColors::kOfStylesheet}) {
    SvgOptions options;
    options.colors = colors;
    EXPECT_THAT(to_svg(every_shape("text"), options), Not(HasSubstr("style")));
  }
}

TEST(Svg, a_hatch_is_a_pattern_with_the_prefix_of_the_page) {
  SvgOptions options;
  options.id_prefix = "chart2";
  const XmlElement root = parsed(to_svg(every_shape("text"), options));
  ASSERT_EQ(root.all("pattern").size(), 1u);
  EXPECT_EQ(root.all("pattern")[0]->attribute("id"), "chart2-background");
  const auto rects = root.all("rect");
  EXPECT_EQ(rects[2]->attribute("fill-opacity"), ".5");
  EXPECT_EQ(rects[3]->attribute("fill"), "url(#chart2-background)");
  EXPECT_EQ(rects[3]->texts("title").size(), 1u) << "the shape on top has the tooltip";
}

TEST(Svg, a_hatch_alone_is_one_element_and_falling_lines_are_another_pattern) {
  Drawing drawing{20, 20};
  drawing.add(Rect{0, 0, 9, 9, {Paint::kNone, 1, Paint::kInk}});
  drawing.add(Rect{9, 0, 9, 9, {Paint::kNone, 1, Paint::kInk, HatchSlope::kFalling}});
  SvgOptions options;
  options.colors = SvgColors::kOfStylesheet;
  options.id_prefix = "t";
  const XmlElement root = parsed(to_svg(drawing, options));
  ASSERT_EQ(root.all("rect").size(), 2u);
  EXPECT_EQ(root.all("rect")[0]->attribute("fill"), "url(#t-ink)");
  EXPECT_EQ(root.all("rect")[1]->attribute("fill"), "url(#t-ink-falling)");
  ASSERT_EQ(root.all("pattern").size(), 2u);
  EXPECT_EQ(root.all("pattern")[1]->attribute("id"), "t-ink-falling");
}

TEST(Svg, an_area_is_a_path_of_steps_without_its_empty_parts) {
  Drawing drawing{100, 100};
  drawing.add(Area{{0, 10, 20, 30, 40}, {50, 40.5, 60, 30}, {60, 60, 60, 60}, {Paint::kOther}});
  const XmlElement root = parsed(to_svg(drawing, {}));
  EXPECT_EQ(root.all("path")[0]->attribute("d"),
            "m0 60v-10h10v-9.5h10v19.5h-10h-10zm30 0v-30h10v30h-10z");
}

TEST(Svg, names_of_any_content_are_text) {
  using namespace std::string_view_literals;
  for (const std::string_view name :
       {"</script><script>alert(1)</script>"sv, "\"><img src=x onerror=alert(1)>"sv, "]]>"sv,
        "\xE2\x80\xAEgnp.exe"sv, "\xFF\xFE\xC3("sv, "nul\0\x1B[31m"sv, "&#0;&nbsp;"sv}) {
    SvgOptions options;
    options.title = name;
    options.description = name;
    options.id_prefix = name.substr(0, 20);
    const XmlElement root = parsed(to_svg(every_shape(name), options));
    EXPECT_TRUE(root.all("script").empty());
    EXPECT_TRUE(root.all("img").empty());
    EXPECT_EQ(root.all("text").size(), 1u);
    if (name.starts_with("</script>")) {
      EXPECT_EQ(root.all("text")[0]->text, name);
      EXPECT_EQ(root.all("circle")[0]->attribute("data-key"), name);
    }
  }
}

TEST(Svg, a_name_of_a_megabyte_is_text) {
  Drawing drawing{20, 20};
  drawing.add(Text{0, 10, std::string(1 << 20, '<')});
  EXPECT_EQ(parsed(to_svg(drawing, {})).all("text")[0]->text.size(), std::size_t{1} << 20);
}

TEST(Svg, numbers_that_are_no_coordinates_stay_harmless) {
  Drawing drawing{std::numeric_limits<double>::infinity(), 100};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  drawing.add(Rect{nan, 1e300, 5, -1e300, {Paint::kInk}});
  drawing.add(Rect{nan, 1e300, 1e300, 5, {Paint::kInk}});
  drawing.add(Polyline{{{nan, -1e300}, {5, 5}}, {Paint::kInk}});
  drawing.add(Text{nan, nan, "x"});
  const std::string svg = to_svg(drawing, {});
  EXPECT_EQ(tests::xml_flaw(svg), "");
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

}  // namespace
}  // namespace plimsoll::page

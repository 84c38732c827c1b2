// Parts that several sections use.

#include <algorithm>
#include <array>
#include <charconv>

#include "exporters/html/sections.h"
#include "page/escape.h"

namespace plimsoll::exporters::html {
namespace {

std::string number_text(double value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value,
                                 std::chars_format::fixed, 2)
                       .ptr;
  return {digits.data(), end};
}

}  // namespace

void write_head(Markup& html, std::string_view title, std::string_view sub) {
  html.open("div", {{"class", "head"}}).element("h2", {}, title);
  if (!sub.empty()) html.element("span", {{"class", "sub"}}, sub);
  html.close();
}

std::string swatch(page::Paint paint) {
  return "<svg class=\"sw\" viewBox=\"0 0 10 10\" aria-hidden=\"true\"><rect width=\"10\" "
         "height=\"10\" class=\"p-" +
         std::string(page::name_of(paint)) + "\"/></svg>";
}

std::string bar(double share, page::Paint paint) {
  constexpr double kLeast = 0.8;  // still visible
  const double width = std::clamp(share * 100, kLeast, 100.0);
  return "<svg class=\"bar\" viewBox=\"0 0 100 7\" preserveAspectRatio=\"none\" "
         "aria-hidden=\"true\"><rect width=\"" +
         number_text(width) + "\" height=\"7\" class=\"p-" + std::string(page::name_of(paint)) +
         "\"/></svg>";
}

void write_place(Markup& html, std::string_view label) {
  // The label ends with " (function)"; the file before it ends with ":line".
  const std::size_t open = label.rfind(" (");
  const bool is_place = open != std::string_view::npos && label.ends_with(')') && open > 0 &&
                        label[open - 1] >= '0' && label[open - 1] <= '9';
  if (!is_place) {
    html.text(label);
    return;
  }
  html.element("span", {{"class", "place"}}, label.substr(0, open));
  html.element("span", {{"class", "function"}}, label.substr(open + 2, label.size() - open - 3));
}

std::string as_chart(std::string svg, std::string_view size, std::string_view more_markup) {
  const std::string_view begin = "<svg ";
  const std::string_view end = "</svg>";
  svg.insert(svg.find(begin) + begin.size(), "class=\"" + std::string(size) + "\" ");
  svg.insert(svg.rfind(end), more_markup);
  return svg;
}

}  // namespace plimsoll::exporters::html

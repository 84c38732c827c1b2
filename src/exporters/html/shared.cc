// Parts that several sections share.

#include <algorithm>
#include <array>
#include <charconv>

#include "base/units.h"
#include "exporters/html/sections.h"
#include "exporters/labels.h"
#include "page/escape.h"
#include "page/svg.h"

namespace plimsoll::exporters::html {
std::string number_text(double value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value,
                                 std::chars_format::fixed, 2)
                       .ptr;
  std::string text(digits.data(), end);
  while (text.ends_with('0')) text.pop_back();
  if (text.ends_with('.')) text.pop_back();
  return text;
}

void write_head(Markup& html, std::string_view title, std::string_view sub) {
  html.open("div", {{"class", "head"}}).element("h2", {}, title);
  if (!sub.empty()) html.element("span", {{"class", "sub"}}, sub);
  html.close();
}

std::string spaced(std::string name) {
  std::ranges::replace(name, '_', ' ');
  return name;
}

std::string swatch(page::Paint paint) {
  std::string svg =
      "<svg class=\"sw\" viewBox=\"0 0 10 10\" aria-hidden=\"true\"><rect "
      "width=\"10\" height=\"10\" class=\"p-" +
      std::string(page::name_of(paint)) + "\"/>";
  if (page::is_hatched(paint)) {
    svg += "<path d=\"M0 5L5 0M0 10L10 0M5 10L10 5\" class=\"s-background\" fill=\"none\"/>";
  }
  return svg + "</svg>";
}

std::string bar(double share, page::Paint paint) {
  constexpr double kLeast = 0.8;  // still visible
  const double width = std::clamp(share * 100, kLeast, 100.0);
  return "<svg class=\"bar\" viewBox=\"0 0 100 7\" preserveAspectRatio=\"none\" "
         "aria-hidden=\"true\"><rect width=\"" +
         number_text(width) + "\" height=\"7\" class=\"p-" + std::string(page::name_of(paint)) +
         "\"/></svg>";
}

void write_bytes(Markup& html, std::uint64_t bytes) {
  html.element("td",
               {{"class", "n"},
                {"data-value", std::to_string(bytes)},
                {"data-exact", std::to_string(bytes)},
                {"title", base::format_count(bytes) + " bytes"}},
               bytes_text(bytes));
}

void write_breakable(Markup& html, std::string_view whole) {
  const std::string text = page::shortened(whole, kLongestName);
  // Characters between two break opportunities. A longer word, such as a hash, breaks anywhere.
  constexpr std::size_t kLeast = 6, kLongestWord = 24;
  const auto is_ascii = [](char letter) { return static_cast<unsigned char>(letter) < 0x80; };
  std::size_t begin = 0;
  std::size_t since = 0;  // the last break opportunity
  for (std::size_t at = 0; at + 1 < text.size(); ++at) {
    if (text[at] == ' ') since = at + 1;
    const std::size_t size = at + 1 - since;
    const bool is_place = std::string_view("._/(),=").find(text[at]) != std::string_view::npos;
    const bool is_long = size >= kLongestWord && is_ascii(text[at]) && is_ascii(text[at + 1]);
    if (text[at + 1] == ' ' || !(is_long || (is_place && size >= kLeast))) continue;
    html.text(std::string_view(text).substr(begin, at + 1 - begin)).empty("wbr", {});
    begin = since = at + 1;
  }
  html.text(std::string_view(text).substr(begin));
}

void write_place(Markup& html, std::string_view whole) {
  const std::string text = page::shortened(whole, kLongestName);
  const std::string_view label = text;
  // The label ends with " (function)"; the file before it ends with ":line".
  const std::size_t open = label.rfind(" (");
  const bool is_place = open != std::string_view::npos && label.ends_with(')') && open > 0 &&
                        label[open - 1] >= '0' && label[open - 1] <= '9';
  if (!is_place) {
    write_breakable(html, label);
    return;
  }
  html.open("span", {{"class", "place"}});
  write_breakable(html, label.substr(0, open));
  html.close();
  html.open("span", {{"class", "function"}});
  write_breakable(html, label.substr(open + 2, label.size() - open - 3));
  html.close();
}

std::string place_in_time(const report::PointInTime& point) {
  if (point.name == "peak") return "at the peak";
  if (point.name == "start") return "at the start";
  if (point.name == "end") return "at the end";
  if (point.name.starts_with("oom")) return "when memory ran out";
  return point.event ? "after event " + base::format_count(*point.event) : "before the first event";
}

void write_fixed_point(Markup& html, const std::string& what, const std::string& place) {
  html.element("p", {{"class", "sub"}, {"data-stays", ""}, {"hidden", ""}},
               what + " are shown " + place + ", not at the selected point.");
}

std::string chart_svg(const charts::Chart& chart, std::string_view size, std::string_view title,
                      const std::string& id, std::string_view more) {
  page::SvgOptions options;
  options.colors = page::SvgColors::kOfStylesheet;
  options.title = title;
  options.description = chart.description;
  options.id_prefix = id + std::string(size);
  std::string svg = page::to_svg(chart.drawing, options);
  const std::string_view whole = "class=\"chart";
  svg.insert(svg.find(whole) + whole.size(), " " + std::string(size));
  svg.insert(svg.rfind("</svg>"), more);
  return svg;
}

void write_chart(Markup& html, std::string_view title, const std::string& id,
                 std::initializer_list<ChartSize> sizes,
                 const std::function<charts::Chart(const charts::ChartOptions&)>& make) {
  html.open("div", {{"class", "chart"}});
  for (const ChartSize& size : sizes) {
    charts::ChartOptions options;
    options.width = size.width;
    options.height = size.height;
    html.raw(chart_svg(make(options), size.name, title, id));
  }
  html.close();
}

}  // namespace plimsoll::exporters::html

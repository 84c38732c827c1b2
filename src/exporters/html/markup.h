// Markup: HTML in which every element is closed and every text is escaped and limited in length.
// Elements are written in order; close() ends the innermost open one.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll::exporters::html {

// Names and sentences from a recording may have any length. Longer ones are cut off with "…".
inline constexpr std::size_t kLongestName = 300;  // characters
inline constexpr std::size_t kLongestText = 3000;

using Attribute = std::pair<std::string_view, std::string>;  // name, value; the value is escaped
using Attributes = std::initializer_list<Attribute>;

class Markup {
 public:
  // Attribute values are cut off like texts, except data in "src".
  Markup& open(std::string_view tag, Attributes attributes = {});
  Markup& close();
  Markup& text(std::string_view text);
  // An element that contains only a text.
  Markup& element(std::string_view tag, Attributes attributes, std::string_view text);
  // An element without an end tag, such as <meta>.
  Markup& empty(std::string_view tag, Attributes attributes);
  // Writes complete markup, such as an SVG, unchanged.
  Markup& raw(std::string_view markup);

  // The markup so far; all elements must be closed.
  std::string take();

 private:
  void tag(std::string_view name, Attributes attributes);

  std::string out_;
  std::vector<std::string> open_;
};

}  // namespace plimsoll::exporters::html

// Markup: HTML with every element closed and every text escaped. Elements are written in order;
// close() ends the innermost open one.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll::exporters::html {

using Attribute = std::pair<std::string_view, std::string>;  // name, value; the value is escaped
using Attributes = std::initializer_list<Attribute>;

class Markup {
 public:
  Markup& open(std::string_view tag, Attributes attributes = {});
  Markup& close();
  Markup& text(std::string_view text);
  // An element with a text and nothing else.
  Markup& element(std::string_view tag, Attributes attributes, std::string_view text);
  // An element that has no end tag: <meta>.
  Markup& empty(std::string_view tag, Attributes attributes);
  // Markup that is complete in itself, such as an SVG.
  Markup& raw(std::string_view markup);

  // The markup so far; all elements must be closed.
  std::string take();

 private:
  void tag(std::string_view name, Attributes attributes);

  std::string out_;
  std::vector<std::string> open_;
};

}  // namespace plimsoll::exporters::html

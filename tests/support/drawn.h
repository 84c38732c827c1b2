// Queries for drawings in tests.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "page/drawing.h"
#include "page/text_width.h"

namespace plimsoll::tests {

template <typename Kind>
std::vector<Kind> shapes(const page::Drawing& drawing) {
  std::vector<Kind> found;
  for (const page::Shape& shape : drawing.shapes) {
    if (const Kind* each = std::get_if<Kind>(&shape)) found.push_back(*each);
  }
  return found;
}

// The content of all texts, including their tails.
inline std::vector<std::string> texts(const page::Drawing& drawing) {
  std::vector<std::string> found;
  for (const page::Text& text : shapes<page::Text>(drawing)) {
    found.push_back(text.text + text.tail);
  }
  return found;
}

inline std::vector<std::string> tooltips(const page::Drawing& drawing) {
  std::vector<std::string> found;
  const auto add = [&](const page::Hint& hint) {
    if (!hint.tooltip.empty()) found.push_back(hint.tooltip);
  };
  for (const page::Shape& shape : drawing.shapes) {
    if (const auto* rect = std::get_if<page::Rect>(&shape)) add(rect->hint);
    if (const auto* area = std::get_if<page::Area>(&shape)) add(area->hint);
  }
  return found;
}

// The rectangle whose tooltip begins with this text; fails the test if there is none.
inline page::Rect rect_with(const page::Drawing& drawing, std::string_view tooltip) {
  for (const page::Rect& rect : shapes<page::Rect>(drawing)) {
    if (rect.hint.tooltip.starts_with(tooltip)) return rect;
  }
  ADD_FAILURE() << "no rectangle says " << tooltip;
  return {};
}

struct TextBox {
  double left, right, top, bottom;
};

inline TextBox box_of(const page::Text& text) {
  const double width =
      page::text_width(text.text + text.tail, {text.size, text.is_bold, text.is_mono});
  double left = text.x;
  if (text.anchor == page::Anchor::kMiddle) left -= width / 2;
  if (text.anchor == page::Anchor::kEnd) left -= width;
  return {left, left + width, text.y - text.size * 0.75, text.y};
}

// What a reader would complain about: texts that overlap or that an edge cuts off; "" if none do.
inline std::string illegible(const page::Drawing& drawing) {
  std::string out;
  const std::vector<page::Text> all = shapes<page::Text>(drawing);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const TextBox a = box_of(all[i]);
    if (a.left < 0 || a.right > drawing.width || a.top < 0 || a.bottom > drawing.height) {
      out += "cut off: " + all[i].text + "\n";
    }
    for (std::size_t k = i + 1; k < all.size(); ++k) {
      const TextBox b = box_of(all[k]);
      if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom) {
        out += "on top of each other: " + all[i].text + " and " + all[k].text + "\n";
      }
    }
  }
  return out;
}

}  // namespace plimsoll::tests

#include "page/paint.h"

namespace plimsoll::page {
namespace {

struct PaintRow {
  std::string_view name;
  std::uint32_t light;
  std::uint32_t dark;
};

constexpr std::array kPaintRows = {
#define PLIMSOLL_PAINT_ROW(enumerator, name, light, dark) PaintRow{name, light, dark},
    PLIMSOLL_PAINTS(PLIMSOLL_PAINT_ROW)
#undef PLIMSOLL_PAINT_ROW
};

constexpr std::uint32_t kWhite = 0xffffff;

const PaintRow& row_of(Paint paint) {
  return kPaintRows[paint == Paint::kNone ? 0 : static_cast<std::size_t>(paint) - 1];
}

}  // namespace

std::string_view name_of(Paint paint) {
  return paint == Paint::kNone ? std::string_view("none") : row_of(paint).name;
}

Color color_of(Paint paint, Theme theme) {
  std::uint32_t rgb = theme == Theme::kDark ? row_of(paint).dark : row_of(paint).light;
  if (theme == Theme::kPrint && paint == Paint::kBackground) rgb = kWhite;
  return {static_cast<std::uint8_t>(rgb >> 16), static_cast<std::uint8_t>(rgb >> 8 & 0xFF),
          static_cast<std::uint8_t>(rgb & 0xFF)};
}

Paint paint_of_category(std::string_view name) {
  for (std::size_t i = static_cast<std::size_t>(Paint::kParameter);
       i <= static_cast<std::size_t>(Paint::kPinnedHost); ++i) {
    if (kPaintRows[i - 1].name == name) return static_cast<Paint>(i);
  }
  return Paint::kOther;
}

bool is_hatched(Paint category) {
  return category >= Paint::kUnknown && category <= Paint::kPinnedHost;
}

Paint paint_of_series(std::size_t index) {
  return static_cast<Paint>(static_cast<std::size_t>(Paint::kSeries1) + index % 8);
}

}  // namespace plimsoll::page

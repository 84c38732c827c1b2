// A stacked chart of Unicode blocks (▁▂▃▄▅▆▇█): one character per column, filled in eighths of a
// row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "text/style.h"

namespace plimsoll::text {

struct ChartBand {
  std::uint8_t color = 0;             // one of the terminal's 256
  std::vector<std::uint64_t> values;  // by column
};

struct BlockChart {
  std::vector<std::uint64_t> totals;  // by column
  std::vector<ChartBand> bands;       // bottom up; they sum to the totals. Empty: without color
  std::size_t rows = 8;
  std::uint64_t row_value = 1;  // the value that a row represents; not 0
};

// The text in one of the terminal's 256 colors.
std::string in_color(std::string_view text, std::uint8_t number, Color color);

// The smallest round number (a quarter of a power of two) such that `rows` of them reach `largest`.
std::uint64_t round_row_value(std::uint64_t largest, std::size_t rows);

// The rows of the chart, the top row first. A column that is not 0 never looks empty. A character
// has the color of the band that fills most of it (among equals, the lowest).
std::vector<std::string> chart_rows(const BlockChart& chart, Color color);

// For each band, whether any character has its color.
std::vector<bool> visible_bands(const BlockChart& chart);

}  // namespace plimsoll::text

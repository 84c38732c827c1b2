#include "text/block_chart.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <optional>

namespace plimsoll::text {
namespace {

constexpr std::uint64_t kEighths = 8;
constexpr std::array<const char*, kEighths + 1> kBlocks = {" ", "▁", "▂", "▃", "▄",
                                                           "▅", "▆", "▇", "█"};

// How much of [begin, begin + height) lies below `value`.
std::uint64_t overlap(std::uint64_t value, std::uint64_t begin, std::uint64_t height) {
  return value <= begin ? 0 : std::min(value - begin, height);
}

std::size_t eighths_of(std::uint64_t filled, std::uint64_t height) {
  const double share = static_cast<double>(filled) / static_cast<double>(height);
  return static_cast<std::size_t>(std::lround(share * kEighths));
}

// How many eighths of a character are filled.
std::size_t eighths_at(const BlockChart& chart, std::size_t column, std::size_t row) {
  const std::uint64_t filled =
      overlap(chart.totals[column], row * chart.row_value, chart.row_value);
  const std::size_t eighths = eighths_of(filled, chart.row_value);
  return row == 0 && filled > 0 ? std::max<std::size_t>(eighths, 1) : eighths;
}

// The band that fills most of a character; null if it is empty or there are no bands.
std::optional<std::size_t> band_at(const BlockChart& chart, std::size_t column, std::size_t row) {
  if (eighths_at(chart, column, row) == 0) return std::nullopt;
  const std::uint64_t begin = row * chart.row_value;
  std::optional<std::size_t> found;
  std::uint64_t most = 0;
  std::uint64_t below = 0;
  for (std::size_t band = 0; band < chart.bands.size(); ++band) {
    const std::uint64_t top = below + chart.bands[band].values[column];
    const std::uint64_t inside =
        overlap(top, begin, chart.row_value) - overlap(below, begin, chart.row_value);
    if (inside > most) {
      most = inside;
      found = band;
    }
    below = top;
  }
  return found;
}

std::string row_text(const BlockChart& chart, std::size_t row, Color color) {
  std::string text;
  std::string run;  // characters of the same band
  std::optional<std::size_t> run_band;
  const auto end_run = [&] {
    text += run_band ? in_color(run, chart.bands[*run_band].color, color) : run;
    run.clear();
  };
  for (std::size_t column = 0; column < chart.totals.size(); ++column) {
    if (const auto band = band_at(chart, column, row); band != run_band) {
      end_run();
      run_band = band;
    }
    run += kBlocks[eighths_at(chart, column, row)];
  }
  end_run();
  return text;
}

}  // namespace

std::string in_color(std::string_view text, std::uint8_t number, Color color) {
  if (color == Color::kOff || text.empty()) return std::string(text);
  return "\x1b[38;5;" + std::to_string(number) + "m" + std::string(text) + "\x1b[0m";
}

std::uint64_t round_row_value(std::uint64_t largest, std::size_t rows) {
  const std::uint64_t least = std::max<std::uint64_t>(largest / rows + (largest % rows != 0), 1);
  const std::uint64_t quarter = std::max<std::uint64_t>(std::bit_floor(least) / 4, 1);
  return (least + quarter - 1) / quarter * quarter;
}

std::vector<std::string> chart_rows(const BlockChart& chart, Color color) {
  std::vector<std::string> rows;
  for (std::size_t row = chart.rows; row-- > 0;) rows.push_back(row_text(chart, row, color));
  return rows;
}

std::vector<bool> visible_bands(const BlockChart& chart) {
  std::vector<bool> is_visible(chart.bands.size());
  for (std::size_t row = 0; row < chart.rows; ++row) {
    for (std::size_t column = 0; column < chart.totals.size(); ++column) {
      if (const auto band = band_at(chart, column, row)) is_visible[*band] = true;
    }
  }
  return is_visible;
}

}  // namespace plimsoll::text

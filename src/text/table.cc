#include "text/table.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "text/layout.h"

namespace plimsoll::text {
namespace {

constexpr std::size_t kIndent = 2;
constexpr std::size_t kGap = 2;
constexpr std::size_t kNoteIndent = 12;
// The minimum width of the last column, even if less was requested.
constexpr std::size_t kNarrowest = 16;
constexpr std::size_t kNarrowestAside = 32;
constexpr std::size_t kNarrowestHeader = 10;

std::string without_trailing_spaces(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::size_t note_room(std::size_t width) {
  return std::max(width > kNoteIndent ? width - kNoteIndent : 0, kNarrowest);
}

std::string note_line(std::string_view text, std::size_t width, Color color) {
  return std::string(kNoteIndent, ' ') +
         styled(shorten_place(text, note_room(width)), Style::kDim, color) + "\n";
}

// The text in full, on as many lines as it needs.
std::string note_lines(std::string_view text, std::size_t width, Color color) {
  std::string out;
  const std::string wrapped = wrap(text, 0, note_room(width));
  for (std::size_t at = 0; at < wrapped.size();) {
    const std::size_t end = std::min(wrapped.find('\n', at), wrapped.size());
    out += note_line(std::string_view(wrapped).substr(at, end - at), width, color);
    at = end + 1;
  }
  return out;
}

// Shortens texts to one width, and finds those that look the same although they differ.
class Shortened {
 public:
  explicit Shortened(std::size_t width) : width_(width) {}

  void add(const std::string& text) {
    const auto [known, is_new] = texts_.try_emplace(shorten_place(text, width_), text);
    if (known->second && *known->second != text) known->second.reset();
  }
  bool is_ambiguous(const std::string& text) const {
    return !texts_.at(shorten_place(text, width_));
  }

 private:
  std::size_t width_;
  std::map<std::string, std::optional<std::string>> texts_;  // nullopt: of several texts
};

}  // namespace

void TextTable::add_row(std::vector<std::string> cells, Style style) {
  cells.resize(columns_.size());
  rows_.push_back(Row{std::move(cells), style, {}, {}});
}

void TextTable::add_note(std::string text) { rows_.back().notes.push_back(std::move(text)); }

void TextTable::add_aside(std::string text) { rows_.back().aside = std::move(text); }

// The widths of all columns. Cells of a number column are never shortened, only its header.
std::vector<std::size_t> TextTable::column_widths(std::size_t width) const {
  std::vector<std::size_t> widths;
  std::vector<std::size_t> least;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const std::size_t header = display_width(columns_[c].header);
    std::size_t cells = 0;
    for (const Row& row : rows_) cells = std::max(cells, display_width(row.cells[c]));
    widths.push_back(std::max(header, cells));
    const bool is_number = columns_[c].align == Align::kNumber;
    least.push_back(is_number ? std::max(cells, std::min(header, kNarrowestHeader))
                              : widths.back());
  }
  if (columns_.back().align == Align::kWords) {
    least.back() = std::min(widths.back(), kNarrowest);
  }
  const std::size_t gaps = kIndent + kGap * (widths.size() - 1);
  const auto total = [&] { return std::accumulate(widths.begin(), widths.end(), gaps); };
  // Text in the last column is shortened first, then the widest headers.
  if (const std::size_t wanted = total(); wanted > width) {
    widths.back() -= std::min(widths.back() - least.back(), wanted - width);
  }
  for (std::size_t excess = total(); excess > width; --excess) {
    std::size_t widest = widths.size();
    for (std::size_t c = 0; c < widths.size(); ++c) {
      if (widths[c] <= least[c]) continue;
      if (widest == widths.size() || widths[c] > widths[widest]) widest = c;
    }
    if (widest == widths.size()) break;
    --widths[widest];
  }
  return widths;
}

std::string TextTable::to_text(std::size_t width, Color color) const {
  const std::vector<std::size_t> widths = column_widths(width);
  const std::size_t used =
      std::accumulate(widths.begin(), widths.end(), kIndent + kGap * widths.size());
  const bool has_room = used + kNarrowestAside <= width;
  const auto line = [&](auto cell, Style style, std::string_view aside) {
    std::string text(kIndent, ' ');
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (c > 0) text += std::string(kGap, ' ');
      const std::string fitted = shorten_place(cell(c), widths[c]);
      text += columns_[c].align == Align::kNumber ? pad_left(fitted, widths[c])
                                                  : pad_right(fitted, widths[c]);
    }
    if (aside.empty()) return styled(without_trailing_spaces(std::move(text)), style, color) + "\n";
    text += std::string(kGap, ' ');
    return styled(text, style, color) +
           styled(shorten_end(aside, width - used), Style::kDim, color) + "\n";
  };

  Shortened last_cells(widths.back());
  Shortened notes(note_room(width));
  for (const Row& row : rows_) {
    last_cells.add(row.cells.back());
    for (const std::string& text : row.notes) notes.add(text);
  }

  std::string out = line([&](std::size_t c) -> const std::string& { return columns_[c].header; },
                         Style::kDim, "");
  for (const Row& row : rows_) {
    out += line([&](std::size_t c) -> const std::string& { return row.cells[c]; }, row.style,
                has_room ? std::string_view(row.aside) : std::string_view());
    if (last_cells.is_ambiguous(row.cells.back())) {
      out += note_lines(row.cells.back(), width, color);
    }
    if (!has_room && !row.aside.empty()) {
      out += note_line(shorten_end(row.aside, note_room(width)), width, color);
    }
    for (const std::string& text : row.notes) {
      out +=
          notes.is_ambiguous(text) ? note_lines(text, width, color) : note_line(text, width, color);
    }
  }
  return out;
}

}  // namespace plimsoll::text

// A table as text: numbers to the right, words to the left, the last column of words takes what
// room is left and is shortened to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "text/style.h"

namespace plimsoll::text {

class TextTable {
 public:
  enum class Align : std::uint8_t { kNumber, kWords };
  struct Column {
    std::string header;
    Align align = Align::kNumber;
  };

  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // One cell a column; text from files must be printable() already.
  void add_row(std::vector<std::string> cells, Style style = Style::kPlain);
  // A line of text under the last row, indented a little.
  void add_note(std::string text);
  // Text behind the last row where the width has room for all of these, else under it.
  void add_aside(std::string text);

  bool empty() const { return rows_.empty(); }
  // Each line ends in a newline and begins with two spaces.
  std::string to_text(std::size_t width, Color color) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    Style style = Style::kPlain;
    std::vector<std::string> notes;
    std::string aside;
  };
  std::vector<std::size_t> column_widths(std::size_t width) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

}  // namespace plimsoll::text

// A table as text: numbers right-aligned, text left-aligned. The last text column is shortened to
// the remaining width. Different texts never look the same: if shortening makes two texts of the
// last column, or two notes, equal, they are printed in full below.
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

  // One cell per column; text from files must already be printable().
  void add_row(std::vector<std::string> cells, Style style = Style::kPlain);
  // A line of text below the last row, slightly indented.
  void add_note(std::string text);
  // Prints text after the last row if there is space for all such texts, else below it.
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

// Table: columns of a recording in Apache Arrow's layout, so that pyarrow, polars, DuckDB and
// others can use them without a copy. Fixed-width values are contiguous; bitmaps have the first row
// in the lowest bit; lists and texts have offsets, one more than rows. Most columns point to the
// engine's own memory, of which the table shares ownership. Pass a Table by pointer: copying it
// copies its vectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

enum class ColumnType : std::uint8_t {
  kBool,  // a bitmap
  kUint8,
  kUint32,
  kUint64,
  kInt64,
  kUint32List,
};

// The distinct texts of a column; each value of the column is a row in this list. Valid UTF-8.
struct Dictionary {
  std::vector<std::int64_t> offsets{0};
  std::string text;

  std::size_t size() const { return offsets.size() - 1; }
  std::string_view operator[](std::size_t row) const {
    const auto first = static_cast<std::size_t>(offsets[row]);
    return std::string_view(text).substr(first, static_cast<std::size_t>(offsets[row + 1]) - first);
  }
};

struct Field {
  std::string name;
  std::string description;
  ColumnType type = ColumnType::kUint64;
  std::shared_ptr<const Dictionary> dictionary;  // not null for text: the values are its rows
  bool may_be_null = false;
};

struct Column {
  const void* values = nullptr;            // kUint32List: the items of all lists
  const std::uint64_t* offsets = nullptr;  // kUint32List only
  const std::uint8_t* validity = nullptr;  // bitmap of the rows that are not null; null: all
  std::size_t null_count = 0;
};

struct Batch {
  std::size_t rows = 0;
  std::vector<Column> columns;  // as Table::fields
};

struct Table {
  std::string name;
  std::vector<Field> fields;
  std::vector<Batch> batches;                       // at least one, which may have no rows
  std::vector<std::shared_ptr<const void>> owners;  // owners of the columns' memory

  std::size_t rows() const {
    std::size_t sum = 0;
    for (const Batch& batch : batches) sum += batch.rows;
    return sum;
  }
};

}  // namespace plimsoll

#include "table_values.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace nb = nanobind;

namespace plimsoll::python {
namespace {

bool bit(const void* bitmap, std::size_t row) {
  return (static_cast<const std::uint8_t*>(bitmap)[row / 8] >> (row % 8) & 1U) != 0;
}

template <typename T>
T number(const Column& column, std::size_t row) {
  return static_cast<const T*>(column.values)[row];
}

// The rows of a dictionary as str; each is created once.
std::vector<nb::object> texts_of(const Dictionary& dictionary) {
  std::vector<nb::object> texts;
  texts.reserve(dictionary.size());
  for (std::size_t row = 0; row < dictionary.size(); ++row) {
    const std::string_view text = dictionary[row];
    texts.emplace_back(nb::str(text.data(), text.size()));
  }
  return texts;
}

nb::object list_of(const Column& column, std::size_t row) {
  nb::list items;
  for (std::uint64_t i = column.offsets[row]; i < column.offsets[row + 1]; ++i) {
    items.append(number<std::uint32_t>(column, i));
  }
  return items;
}

std::uint64_t unsigned_number(ColumnType type, const Column& column, std::size_t row) {
  if (type == ColumnType::kUint8) return number<std::uint8_t>(column, row);
  if (type == ColumnType::kUint32) return number<std::uint32_t>(column, row);
  return number<std::uint64_t>(column, row);
}

nb::object value_of(ColumnType type, const Column& column, std::size_t row) {
  switch (type) {
    case ColumnType::kBool:
      return nb::bool_(bit(column.values, row));
    case ColumnType::kInt64:
      return nb::int_(number<std::int64_t>(column, row));
    case ColumnType::kUint32List:
      return list_of(column, row);
    default:
      return nb::int_(unsigned_number(type, column, row));
  }
}

}  // namespace

nb::dict values_of(const Table& table, std::size_t begin, std::size_t end) {
  nb::dict all;
  for (std::size_t i = 0; i < table.fields.size(); ++i) {
    const Field& field = table.fields[i];
    std::vector<nb::object> texts;
    if (field.dictionary != nullptr) texts = texts_of(*field.dictionary);
    nb::list values;
    std::size_t first = 0;  // row of the batch, in the table
    for (const Batch& batch : table.batches) {
      const Column& column = batch.columns[i];
      const std::size_t behind = std::min(end - std::min(end, first), batch.rows);
      for (std::size_t row = begin - std::min(begin, first); row < behind; ++row) {
        if (column.validity != nullptr && !bit(column.validity, row)) {
          values.append(nb::none());
        } else if (field.dictionary != nullptr) {
          values.append(texts[unsigned_number(field.type, column, row)]);
        } else {
          values.append(value_of(field.type, column, row));
        }
      }
      first += batch.rows;
    }
    all[field.name.c_str()] = values;
  }
  return all;
}

}  // namespace plimsoll::python

// TableBuilder builds a Table batch by batch. Columns that the model stores as arrays are borrowed;
// others are computed once and owned by the table. Bitmaps are built only if a row is null.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/trace.h"
#include "plimsoll/table.h"

namespace plimsoll::tables {

// One column of one batch under construction.
struct BatchColumn {
  ColumnType type = ColumnType::kUint64;
  Column column;
  std::shared_ptr<const Dictionary> dictionary;
  bool may_be_null = false;
};

// The distinct texts of a column so far.
struct DistinctTexts {
  std::vector<std::uint32_t> rows_by_id;
  std::shared_ptr<Dictionary> dictionary = std::make_shared<Dictionary>();
};

class TableBuilder {
 public:
  TableBuilder(std::string name, std::shared_ptr<const model::Trace> recording);

  const model::Trace& trace() const { return *trace_; }

  // The first batch defines the columns; each later one must add the same.
  void begin_batch(std::size_t rows);
  void add(std::string name, std::string description, BatchColumn cells);
  Table finish();

  template <typename T>
  BatchColumn borrow(const T* values) const {
    return BatchColumn{type_of<T>(), Column{.values = values}, nullptr};
  }
  template <typename T, typename Function>
  BatchColumn compute(Function&& value_at) {
    T* values = allocate<T>(rows_);
    for (std::size_t row = 0; row < rows_; ++row) values[row] = value_at(row);
    return borrow(values);
  }
  BatchColumn row_numbers() {
    return compute<std::uint32_t>([](std::size_t row) { return static_cast<std::uint32_t>(row); });
  }
  template <typename Function>
  BatchColumn flags(Function&& is_set) {
    BatchColumn cells{ColumnType::kBool, {}, nullptr};
    cells.column.values = bitmap(is_set);
    return cells;
  }
  // Text, with a dictionary of only the strings that occur; `id_at` returns rows of
  // trace().strings.
  template <typename Function>
  BatchColumn strings(Function&& id_at) {
    DistinctTexts texts;
    return strings(texts, id_at);
  }
  // Like strings(), for several batches that share their dictionary.
  template <typename Function>
  BatchColumn strings(DistinctTexts& texts, Function&& id_at) {
    texts.rows_by_id.resize(trace().strings.size(), model::kNone);
    BatchColumn cells = compute<std::uint32_t>([&](std::size_t row) {
      const model::StringId id = id_at(row);
      std::uint32_t& place = texts.rows_by_id[id.index()];
      if (place == model::kNone) place = append(*texts.dictionary, trace().strings[id]);
      return place;
    });
    cells.dictionary = texts.dictionary;
    return cells;
  }
  // Text that is not in trace().strings.
  template <typename Function>
  BatchColumn texts(Function&& text_at) {
    std::unordered_map<std::string, std::uint32_t> places;
    auto dictionary = std::make_shared<Dictionary>();
    BatchColumn cells = compute<std::uint32_t>([&](std::size_t row) {
      const auto [entry, is_new] = places.try_emplace(text_at(row), 0);
      if (is_new) entry->second = append(*dictionary, entry->first);
      return entry->second;
    });
    cells.dictionary = std::move(dictionary);
    return cells;
  }
  // `number_at` returns rows of trace().devices.
  template <typename Function>
  BatchColumn devices(Function&& number_at) {
    const bool is_narrow = trace().devices.size() <= 256;
    BatchColumn cells = is_narrow ? compute<std::uint8_t>([&](std::size_t row) {
      return static_cast<std::uint8_t>(number_at(row));
    })
                                  : compute<std::uint32_t>([&](std::size_t row) {
                                      return static_cast<std::uint32_t>(number_at(row));
                                    });
    cells.dictionary = device_names_;
    return cells;
  }
  template <typename Function>
  BatchColumn with_nulls(BatchColumn cells, Function&& is_null) {
    cells.may_be_null = true;
    for (std::size_t row = 0; row < rows_; ++row) cells.column.null_count += is_null(row) ? 1 : 0;
    if (cells.column.null_count > 0) {
      cells.column.validity = bitmap([&](std::size_t row) { return !is_null(row); });
    }
    return cells;
  }

  // Returns the text's row. Bytes that are not UTF-8 become U+FFFD.
  static std::uint32_t append(Dictionary& dictionary, std::string_view text);
  // The dictionary of a column of phases.
  static std::shared_ptr<const Dictionary> phase_names();

 private:
  template <typename T>
  static constexpr ColumnType type_of() {
    static_assert(std::is_trivially_copyable_v<T> && std::has_unique_object_representations_v<T>);
    if constexpr (sizeof(T) == 1) return ColumnType::kUint8;
    if constexpr (sizeof(T) == 4) return ColumnType::kUint32;
    if constexpr (sizeof(T) == 8) {
      return std::is_signed_v<T> ? ColumnType::kInt64 : ColumnType::kUint64;
    }
  }
  template <typename T>
  T* allocate(std::size_t count) {
    std::shared_ptr<T[]> memory(new T[count]);
    table_.owners.push_back(memory);
    return memory.get();
  }
  template <typename Function>
  const std::uint8_t* bitmap(Function&& is_set) {
    const std::size_t bytes = (rows_ + 7) / 8;
    auto* bits = allocate<std::uint8_t>(bytes);
    for (std::size_t at = 0; at < bytes; ++at) bits[at] = 0;
    for (std::size_t row = 0; row < rows_; ++row) {
      if (is_set(row)) bits[row / 8] = static_cast<std::uint8_t>(bits[row / 8] | 1u << row % 8);
    }
    return bits;
  }

  std::shared_ptr<const model::Trace> trace_;
  std::shared_ptr<const Dictionary> device_names_;
  Table table_;
  std::size_t rows_ = 0;
};

}  // namespace plimsoll::tables

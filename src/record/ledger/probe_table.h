// A table of rows by key: open addressing with linear probing. Erasing a row moves its followers
// up, so the table never fills with tombstones.
//
// A Row has `key()`, `bool is_empty() const`, `void make_empty()` and a static `hash(key)`; a
// default-constructed row is empty.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace plimsoll::record {

template <typename Row>
class ProbeTable {
 public:
  using Key = decltype(std::declval<const Row&>().key());

  std::size_t size() const { return size_; }

  // Returns the row with this key, or null. Valid until the next insert or erase.
  Row* find(const Key& key) { return const_cast<Row*>(std::as_const(*this).find(key)); }
  const Row* find(const Key& key) const {
    if (rows_.empty()) return nullptr;
    for (std::size_t i = home(key);; i = next(i)) {
      const Row& row = rows_[i];
      if (row.is_empty()) return nullptr;
      if (row.key() == key) return &row;
    }
  }
  // The key must not be in the table. May throw std::bad_alloc, with no effect.
  void insert(const Row& row) {
    if ((size_ + 1) * 2 > rows_.size()) grow();
    place(row);
    ++size_;
  }
  // `row` must be a result of find().
  void erase(const Row* row) {
    --size_;
    auto hole = static_cast<std::size_t>(row - rows_.data());
    for (std::size_t i = next(hole); !rows_[i].is_empty(); i = next(i)) {
      // A row may move up unless its home slot is after the hole.
      const std::size_t from_home = (i - home(rows_[i].key())) & mask();
      if (from_home < ((i - hole) & mask())) continue;
      rows_[hole] = rows_[i];
      hole = i;
    }
    rows_[hole].make_empty();
  }
  void clear() {
    rows_ = {};
    size_ = 0;
  }
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const Row& row : rows_) {
      if (!row.is_empty()) visit(row);
    }
  }

 private:
  std::size_t mask() const { return rows_.size() - 1; }
  std::size_t next(std::size_t i) const { return (i + 1) & mask(); }
  std::size_t home(const Key& key) const { return Row::hash(key) & mask(); }
  void place(const Row& row) {
    std::size_t i = home(row.key());
    while (!rows_[i].is_empty()) i = next(i);
    rows_[i] = row;
  }
  void grow() {
    std::vector<Row> old(std::max<std::size_t>(1024, rows_.size() * 2));
    old.swap(rows_);
    for (const Row& row : old) {
      if (!row.is_empty()) place(row);
    }
  }

  std::vector<Row> rows_;  // empty, or a power of two
  std::size_t size_ = 0;
};

}  // namespace plimsoll::record

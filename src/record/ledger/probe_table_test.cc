#include "record/ledger/probe_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace plimsoll::record {
namespace {

struct Row {
  std::uint64_t number = 0;  // 0: empty
  std::uint64_t value = 0;

  std::uint64_t key() const { return number; }
  bool is_empty() const { return number == 0; }
  void make_empty() { number = 0; }
  // Few home slots, so that runs are long and wrap around.
  static std::uint64_t hash(std::uint64_t key) { return key % 7 + 1020; }
};

TEST(ProbeTable, behaves_like_a_map) {
  std::mt19937_64 random(1);
  ProbeTable<Row> table;
  std::map<std::uint64_t, std::uint64_t> map;
  for (int i = 0; i < 60'000; ++i) {
    const std::uint64_t key = 1 + random() % 300;
    Row* row = table.find(key);
    const auto found = map.find(key);
    ASSERT_EQ(row != nullptr, found != map.end());
    if (row == nullptr) {
      table.insert({key, random()});
      map[key] = table.find(key)->value;
    } else {
      ASSERT_EQ(row->value, found->second);
      table.erase(row);
      map.erase(found);
    }
    ASSERT_EQ(table.size(), map.size());
  }
  std::size_t rows = 0;
  table.for_each([&](const Row& row) {
    ++rows;
    EXPECT_EQ(map.at(row.number), row.value);
  });
  EXPECT_EQ(rows, map.size());
}

TEST(ProbeTable, finds_nothing_before_the_first_insert_and_after_the_last_erase) {
  ProbeTable<Row> table;
  EXPECT_EQ(table.find(5), nullptr);
  table.insert({5, 1});
  table.clear();
  EXPECT_EQ(table.find(5), nullptr);
  EXPECT_EQ(table.size(), 0u);
}

}  // namespace
}  // namespace plimsoll::record

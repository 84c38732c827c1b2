#include "analysis/evidence/buffers.h"

#include <vector>

#include <gtest/gtest.h>

#include "model/ids.h"

namespace plimsoll::analysis::evidence {
namespace {

using model::kNone;

// Entries made at 10, 20, …; each is freed 1 event after the entry `length` later is made.
std::vector<Entry> ring(std::uint32_t count, std::uint32_t length) {
  std::vector<Entry> entries;
  for (std::uint32_t i = 1; i <= count; ++i) {
    const std::uint32_t died = (i + length) * 10 + 1;
    entries.push_back({i * 10, died < count * 10 ? died : kNone});
  }
  return entries;
}

TEST(Buffers, a_ring_that_frees_its_oldest_entry_is_bounded) {
  EXPECT_TRUE(is_bounded_buffer(ring(20, 8)));
  EXPECT_TRUE(is_bounded_buffer(ring(20, 1)));
}

TEST(Buffers, the_parts_of_an_entry_may_be_freed_in_any_order) {
  std::vector<Entry> entries = ring(20, 8), pairs;
  for (const Entry& entry : entries) {
    pairs.push_back({entry.born, entry.died == kNone ? kNone : entry.died + 1});
    pairs.push_back({entry.born + 1, entry.died == kNone ? kNone : entry.died + 2});
  }
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) std::swap(pairs[i].died, pairs[i + 1].died);
  EXPECT_TRUE(is_bounded_buffer(pairs));
}

TEST(Buffers, a_list_that_only_grows_is_not) {
  EXPECT_FALSE(is_bounded_buffer({}));
  EXPECT_FALSE(is_bounded_buffer(ring(20, 30)));
  EXPECT_FALSE(is_bounded_buffer(ring(20, 17)));  // two frees: too few to show a pattern
}

TEST(Buffers, a_list_that_is_cleared_is_not) {
  std::vector<Entry> entries;
  for (std::uint32_t i = 0; i < 20; ++i) entries.push_back({i * 10, i < 10 ? 99u : kNone});
  EXPECT_FALSE(is_bounded_buffer(entries));
}

TEST(Buffers, frees_in_another_order_are_not_those_of_a_buffer) {
  std::vector<Entry> entries = ring(20, 8);
  std::swap(entries[2].died, entries[7].died);
  EXPECT_FALSE(is_bounded_buffer(entries));
}

TEST(Buffers, a_queue_whose_producer_is_faster_is_not) {
  std::vector<Entry> entries;  // one is taken for every four that are added
  for (std::uint32_t i = 1; i <= 40; ++i) entries.push_back({i * 10, i <= 9 ? i * 40 + 5 : kNone});
  EXPECT_FALSE(is_bounded_buffer(entries));
}

TEST(Buffers, frees_at_the_programs_end_do_not_count) {
  std::vector<Entry> entries;
  for (std::uint32_t i = 0; i < 20; ++i) entries.push_back({i * 10, 1000 + i});
  EXPECT_FALSE(is_bounded_buffer(entries));
}

}  // namespace
}  // namespace plimsoll::analysis::evidence

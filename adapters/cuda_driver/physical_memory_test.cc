#include "physical_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "allocation_book.h"

namespace plimsoll::cuda_driver {
namespace {

std::vector<std::uint64_t>& reported_alive() {
  static std::vector<std::uint64_t> numbers;
  return numbers;
}

Allocation of_size(std::uint64_t size_bytes, int ordinal = 0) {
  Allocation allocation;
  allocation.size_bytes = size_bytes;
  allocation.ordinal = static_cast<std::int16_t>(ordinal);
  return allocation;
}

constexpr std::uint64_t kHandle = 7;
constexpr std::uint64_t kAddress = 0x6000'0000;

class PhysicalMemoryTest : public testing::Test {
 protected:
  PhysicalMemoryTest() {
    reported_alive().clear();
    memory_.created(kHandle, of_size(4096));
  }
  std::size_t alive() const { return reported_alive().size(); }

  PhysicalMemory memory_;
};

TEST_F(PhysicalMemoryTest, ends_with_its_last_handle_where_nothing_is_mapped) {
  EXPECT_EQ(alive(), 1u);
  EXPECT_GE(reported_alive().front(), std::uint64_t{1} << 63);
  EXPECT_NE(memory_.release(kHandle), nullptr);
  EXPECT_EQ(alive(), 0u);
  EXPECT_EQ(memory_.release(kHandle), nullptr);
}

TEST_F(PhysicalMemoryTest, ends_with_its_last_mapping_where_no_handle_is_left) {
  memory_.mapped(kHandle, kAddress, 2048);
  memory_.mapped(kHandle, kAddress + 2048, 2048);
  memory_.release(kHandle);
  EXPECT_EQ(alive(), 1u);
  EXPECT_EQ(memory_.unmap(kAddress, 2048).size(), 1u);
  EXPECT_EQ(alive(), 1u);
  EXPECT_EQ(memory_.unmap(kAddress + 2048, 2048).size(), 1u);
  EXPECT_EQ(alive(), 0u);
}

TEST_F(PhysicalMemoryTest, one_call_unmaps_neighbours) {
  memory_.mapped(kHandle, kAddress, 2048);
  memory_.mapped(kHandle, kAddress + 2048, 2048);
  memory_.mapped(kHandle, kAddress + 4096, 2048);
  memory_.release(kHandle);
  EXPECT_EQ(memory_.unmap(kAddress, 4096).size(), 2u);
  EXPECT_EQ(alive(), 1u);
}

TEST_F(PhysicalMemoryTest, a_handle_got_back_from_an_address_counts) {
  memory_.mapped(kHandle, kAddress, 4096);
  memory_.retained(kHandle, kAddress + 100);  // the same number
  memory_.retained(8, kAddress);              // another one
  memory_.retained(9, kAddress + 4096);       // no recorded memory
  memory_.unmap(kAddress, 4096);
  memory_.release(kHandle);
  memory_.release(kHandle);
  EXPECT_EQ(alive(), 1u);
  EXPECT_EQ(memory_.release(9), nullptr);
  memory_.release(8);
  EXPECT_EQ(alive(), 0u);
}

TEST_F(PhysicalMemoryTest, what_the_driver_refuses_is_undone) {
  memory_.undo_release(kHandle, memory_.release(kHandle));
  EXPECT_EQ(alive(), 1u);
  memory_.mapped(kHandle, kAddress, 4096);
  memory_.release(kHandle);
  memory_.undo_unmap(memory_.unmap(kAddress, 4096));
  EXPECT_EQ(alive(), 1u);
  memory_.unmap(kAddress, 4096);
  EXPECT_EQ(alive(), 0u);
}

TEST_F(PhysicalMemoryTest, a_handle_may_be_given_again) {
  memory_.release(kHandle);
  memory_.created(kHandle, of_size(10));
  EXPECT_EQ(alive(), 1u);
  memory_.mapped(77, kAddress, 10);  // of a handle whose creation was not seen
  EXPECT_TRUE(memory_.unmap(kAddress, 10).empty());
}

TEST(AllocationBook, gives_back_what_was_added_once) {
  AllocationBook book;
  Allocation found;
  EXPECT_FALSE(book.take(1, found));
  EXPECT_TRUE(book.add(1, of_size(10)));
  EXPECT_TRUE(book.add(1, of_size(20)));  // its free was missed
  EXPECT_TRUE(book.take(1, found));
  EXPECT_EQ(found.size_bytes, 20u);
  EXPECT_FALSE(book.take(1, found));
}

TEST(AllocationBook, a_reset_takes_what_is_of_the_device_and_of_no_pool) {
  AllocationBook book;
  Allocation pooled = of_size(3, 1);
  pooled.is_pooled = true;
  book.add(0x1000, of_size(1, 0));
  book.add(0x2000, of_size(2, 1));
  book.add(0x3000, pooled);
  const auto taken = book.take_all_of(1);
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken.front().first, 0x2000u);
  Allocation found;
  EXPECT_TRUE(book.take(0x1000, found));
  EXPECT_TRUE(book.take(0x3000, found));
}

TEST(AllocationBook, threads_do_not_lose_each_others_rows) {
  AllocationBook book;
  const auto work = [&](std::uint64_t thread) {
    for (std::uint64_t i = 0; i < 2000; ++i) {
      const std::uint64_t address = (i % 50 + 1) << 21 | thread;
      Allocation found;
      EXPECT_TRUE(book.add(address, of_size(i)));
      EXPECT_TRUE(book.take(address, found));
      EXPECT_EQ(found.size_bytes, i);
    }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 1; thread <= 4; ++thread) threads.emplace_back(work, thread);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

// Replaces the recorder's function.
void report_alloc(std::uint64_t address, const Allocation&) noexcept {
  reported_alive().push_back(address);
}
void report_free(std::uint64_t address, const Allocation&) noexcept {
  std::erase(reported_alive(), address);
}

}  // namespace plimsoll::cuda_driver

// Tests each rule with fixed values, then random runs of an allocator that shares no code with the
// shadow heap.
#include "shadow_heap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "model_allocator.h"

namespace plimsoll::libtorch_cuda {
namespace {

using testing::ElementsAre;

constexpr std::uint64_t kBase = 0x7f0000000000;
constexpr std::uint8_t kAlloc = 0, kFree = 1, kMap = 2, kUnmap = 3;

// "512 allocated(100), 1536 inactive | ..." by address, a bar between segments.
std::string text_of(const ShadowHeap& heap) {
  std::vector<std::uint64_t> ends;
  heap.for_each_segment([&](std::uint64_t address, std::uint64_t size, std::uint64_t, bool) {
    ends.push_back(address + size);
  });
  std::string text;
  heap.for_each_block([&](std::uint64_t address, std::uint64_t size, std::uint64_t requested,
                          std::uint64_t, HeapPool, BlockState state) {
    if (!text.empty()) text += text.back() == '|' ? " " : ", ";
    text += std::to_string(size);
    if (state == BlockState::kInactive) text += " free";
    if (state == BlockState::kAllocated) text += " of " + std::to_string(requested);
    if (state == BlockState::kPendingFree) text += " pending";
    if (std::ranges::find(ends, address + size) != ends.end() && address + size != ends.back()) {
      text += " |";
    }
  });
  return text;
}

class ShadowHeapTest : public testing::Test {
 protected:
  bool segment(std::uint8_t action, std::uint64_t offset, std::uint64_t size) {
    return heap.segment(action, kBase + offset, size, 0, {});
  }
  std::uint64_t alloc(std::uint64_t offset, std::uint64_t requested) {
    return heap.alloc(kBase + offset, requested, 0);
  }
  void free(std::uint64_t offset) {
    EXPECT_NE(heap.free_requested(kBase + offset), 0u);
    EXPECT_NE(heap.free_completed(kBase + offset), 0u);
  }
  ShadowHeap heap;
};

TEST_F(ShadowHeapTest, sizes_are_rounded_up_to_512_bytes) {
  segment(kAlloc, 0, 2 * kMiB);
  EXPECT_EQ(alloc(0, 1), 512u);
  EXPECT_EQ(alloc(512, 512), 512u);
  EXPECT_EQ(alloc(1024, 513), 1024u);
  EXPECT_EQ(text_of(heap), "512 of 1, 512 of 512, 1024 of 513, 2095104 free");
  EXPECT_EQ(heap.allocated_bytes(), 2048u);
  EXPECT_EQ(heap.reserved_bytes(), 2 * kMiB);
}

TEST_F(ShadowHeapTest, small_blocks_split_to_the_last_512_bytes) {
  segment(kAlloc, 0, 2 * kMiB);
  alloc(0, kMiB);
  EXPECT_EQ(alloc(kMiB, kMiB - 512), kMiB - 512);
  EXPECT_EQ(alloc(2 * kMiB - 512, 1), 512u);
  free(kMiB);
  EXPECT_EQ(alloc(kMiB, kMiB - 1024), kMiB - 1024);
  EXPECT_EQ(text_of(heap), "1048576 of 1048576, 1047552 of 1047552, 512 free, 512 of 1");
}

TEST_F(ShadowHeapTest, large_blocks_keep_a_tail_of_up_to_one_mebibyte) {
  segment(kAlloc, 0, 20 * kMiB);
  EXPECT_EQ(alloc(0, 19 * kMiB), 20 * kMiB);
  free(0);
  EXPECT_EQ(alloc(0, 19 * kMiB - 512), 19 * kMiB - 512);
  EXPECT_EQ(text_of(heap), "19922432 of 19922432, 1049088 free");
}

TEST_F(ShadowHeapTest, what_is_free_side_by_side_is_one_block) {
  segment(kAlloc, 0, 2 * kMiB);
  for (std::uint64_t i = 0; i < 4; ++i) alloc(512 * i, 512);
  free(0);
  free(1024);
  EXPECT_EQ(text_of(heap), "512 free, 512 of 512, 512 free, 512 of 512, 2095104 free");
  free(512);
  EXPECT_EQ(text_of(heap), "1536 free, 512 of 512, 2095104 free");
  free(1536);
  EXPECT_EQ(text_of(heap), "2097152 free");
}

TEST_F(ShadowHeapTest, blocks_of_two_segments_never_join) {
  segment(kAlloc, 0, 2 * kMiB);
  segment(kAlloc, 2 * kMiB, 2 * kMiB);
  EXPECT_EQ(text_of(heap), "2097152 free | 2097152 free");
  EXPECT_TRUE(segment(kFree, 0, 2 * kMiB));
  EXPECT_EQ(text_of(heap), "2097152 free");
  EXPECT_EQ(heap.reserved_bytes(), 2 * kMiB);
}

TEST_F(ShadowHeapTest, a_pending_block_is_active_and_joins_nothing) {
  segment(kAlloc, 0, 2 * kMiB);
  alloc(0, 512);
  alloc(512, 512);
  EXPECT_EQ(heap.free_requested(kBase), 512u);
  EXPECT_EQ(heap.allocated_bytes(), 512u);
  EXPECT_EQ(heap.active_bytes(), 1024u);
  free(512);
  EXPECT_EQ(text_of(heap), "512 pending, 2096640 free");
  EXPECT_EQ(heap.free_completed(kBase), 512u);
  EXPECT_EQ(text_of(heap), "2097152 free");
  EXPECT_EQ(heap.active_bytes(), 0u);
}

TEST_F(ShadowHeapTest, a_free_that_nobody_requested_is_both) {
  segment(kAlloc, 0, 2 * kMiB);
  alloc(0, 512);
  EXPECT_EQ(heap.free_completed(kBase), 512u);
  EXPECT_EQ(heap.allocated_bytes(), 0u);
}

TEST(ShadowHeapSettings, blocks_from_max_split_size_on_are_not_split) {
  ShadowHeap heap({.max_split_bytes = 64 * kMiB});
  heap.segment(kAlloc, kBase, 100 * kMiB, 0, {});
  EXPECT_EQ(heap.alloc(kBase, 64 * kMiB, 0), 100 * kMiB);
  heap.free_completed(kBase);
  EXPECT_EQ(heap.alloc(kBase, 63 * kMiB, 0), 63 * kMiB);
}

TEST(ShadowHeapSettings, divisions_between_powers_of_two) {
  HeapSettings settings;
  settings.roundup_power2_divisions.fill(4);
  ShadowHeap heap(settings);
  heap.segment(kAlloc, kBase, 200 * kMiB, 0, {});
  // 65 MiB: steps of 16 MiB from 64 MiB on.
  EXPECT_EQ(heap.alloc(kBase, 65 * kMiB, 0), 80 * kMiB);
  EXPECT_EQ(heap.alloc(kBase + 80 * kMiB, 64 * kMiB, 0), 64 * kMiB);
  heap.segment(kAlloc, kBase + 200 * kMiB, 2 * kMiB, 0, {});
  const std::uint64_t small = kBase + 200 * kMiB;
  EXPECT_EQ(heap.alloc(small, 2048, 0), 2048u);         // up to 512 times the divisions: by 512
  EXPECT_EQ(heap.alloc(small + 2048, 2049, 0), 2560u);  // steps of 512 from 2048 on
  EXPECT_EQ(heap.alloc(small + 4608, 5000, 0), 5120u);  // steps of 1024 from 4096 on
}

TEST(ShadowHeapSettings, divisions_of_each_size_are_their_own) {
  HeapSettings settings;
  settings.roundup_power2_divisions[1] = 2;  // from 2 to 4 MiB
  ShadowHeap heap(settings);
  heap.segment(kAlloc, kBase, 100 * kMiB, 0, {});
  EXPECT_EQ(heap.alloc(kBase, 2 * kMiB + 1, 0), 3 * kMiB);
  EXPECT_EQ(heap.alloc(kBase + 3 * kMiB, 4 * kMiB + 1, 0), 4 * kMiB + 512);
}

TEST(ShadowHeapSettings, expandable_segments_are_mapped_split_and_unmapped) {
  ShadowHeap heap({.has_expandable_segments = true});
  const auto segment = [&](std::uint8_t action, std::uint64_t offset, std::uint64_t size) {
    return heap.segment(action, kBase + offset, size, 9, {1, 2});
  };
  segment(kMap, 0, 20 * kMiB);
  EXPECT_EQ(heap.alloc(kBase, 15 * kMiB, 9), 15 * kMiB);  // without a tail
  segment(kMap, 20 * kMiB, 20 * kMiB);
  segment(kMap, 40 * kMiB, 20 * kMiB);
  EXPECT_EQ(text_of(heap), "15728640 of 15728640, 47185920 free");
  EXPECT_EQ(heap.alloc(kBase + 15 * kMiB, 42 * kMiB, 9), 42 * kMiB);
  heap.free_completed(kBase + 15 * kMiB);
  EXPECT_TRUE(segment(kUnmap, 20 * kMiB, 20 * kMiB));  // in the middle of the free block
  EXPECT_EQ(text_of(heap), "15728640 of 15728640, 5242880 free | 20971520 free");
  EXPECT_EQ(heap.reserved_bytes(), 40 * kMiB);
  EXPECT_EQ(heap.pool_of(kBase + 41 * kMiB), (HeapPool{1, 2}));
  EXPECT_EQ(heap.pool_of(kBase + 21 * kMiB), HeapPool{});
  EXPECT_TRUE(segment(kUnmap, 40 * kMiB, 20 * kMiB));  // a whole run
  EXPECT_TRUE(segment(kMap, 20 * kMiB, 20 * kMiB));
  EXPECT_EQ(text_of(heap), "15728640 of 15728640, 26214400 free");
  heap.free_completed(kBase);
  EXPECT_TRUE(segment(kUnmap, 0, 20 * kMiB));  // at the beginning
  EXPECT_EQ(text_of(heap), "20971520 free");
  EXPECT_EQ(heap.unexplained(), 0u);
}

TEST(ShadowHeapSettings, pages_join_what_is_mapped_on_both_sides) {
  ShadowHeap heap({.has_expandable_segments = true});
  heap.segment(kMap, kBase, 2 * kMiB, 0, {});
  heap.segment(kMap, kBase + 4 * kMiB, 2 * kMiB, 0, {});
  EXPECT_EQ(text_of(heap), "2097152 free | 2097152 free");
  heap.alloc(kBase, kMiB, 0);
  heap.segment(kMap, kBase + 2 * kMiB, 2 * kMiB, 0, {});
  EXPECT_EQ(text_of(heap), "1048576 of 1048576, 5242880 free");
  heap.segment(kMap, kBase + 6 * kMiB, 2 * kMiB, 5, {});  // another stream's
  EXPECT_EQ(text_of(heap), "1048576 of 1048576, 5242880 free | 2097152 free");
}

TEST_F(ShadowHeapTest, is_seeded_from_a_snapshot) {
  heap.add_segment(kBase + 4 * kMiB, 2 * kMiB, 3, {}, false);
  heap.add_block(kBase + 4 * kMiB, 1024, 1000, BlockState::kPendingFree);
  heap.add_block(kBase + 4 * kMiB + 1024, 2 * kMiB - 1024, 0, BlockState::kInactive);
  heap.add_segment(kBase, 20 * kMiB / 5, 3, {}, false);
  heap.add_block(kBase, 4 * kMiB, 3 * kMiB, BlockState::kAllocated);
  EXPECT_EQ(text_of(heap), "4194304 of 3145728 | 1024 pending, 2096128 free");
  EXPECT_EQ(heap.allocated_bytes(), 4 * kMiB);
  EXPECT_EQ(heap.active_bytes(), 4 * kMiB + 1024);
  EXPECT_EQ(heap.reserved_bytes(), 6 * kMiB);
  EXPECT_EQ(heap.alloc(kBase + 4 * kMiB + 1024, 700, 3), 1024u);
  heap.clear({});
  EXPECT_EQ(text_of(heap), "");
  EXPECT_EQ(heap.reserved_bytes(), 0u);
}

TEST_F(ShadowHeapTest, what_does_not_fit_is_counted_and_changes_nothing) {
  segment(kAlloc, 0, 2 * kMiB);
  alloc(0, 512);
  const std::string before = text_of(heap);
  EXPECT_EQ(alloc(0, 512), 0u);          // not free
  EXPECT_EQ(alloc(1024, 512), 0u);       // not the start of a block
  EXPECT_EQ(alloc(512, 2 * kMiB), 0u);   // too small
  EXPECT_EQ(alloc(30 * kMiB, 512), 0u);  // in no segment
  EXPECT_EQ(heap.free_completed(kBase + 512), 0u);
  EXPECT_EQ(heap.free_requested(kBase + 512), 0u);
  EXPECT_FALSE(segment(kAlloc, kMiB, 2 * kMiB));  // overlaps another segment
  EXPECT_FALSE(segment(kFree, 0, 2 * kMiB));      // in use
  EXPECT_FALSE(segment(kFree, 4 * kMiB, 2 * kMiB));
  EXPECT_FALSE(segment(kUnmap, 0, 2 * kMiB));  // has no pages
  EXPECT_FALSE(segment(kMap, 0, 0));
  EXPECT_FALSE(segment(77, 0, 1));
  EXPECT_EQ(heap.unexplained(), 12u);
  EXPECT_EQ(text_of(heap), before);
}

TEST_F(ShadowHeapTest, a_size_is_corrected_at_the_cost_of_what_is_free_behind) {
  segment(kAlloc, 0, 2 * kMiB);
  alloc(0, 512);
  EXPECT_TRUE(heap.correct(kBase, 1024));
  EXPECT_EQ(text_of(heap), "1024 of 512, 2096128 free");
  EXPECT_TRUE(heap.correct(kBase, 512));
  EXPECT_EQ(text_of(heap), "512 of 512, 2096640 free");
  EXPECT_TRUE(heap.correct(kBase, 2 * kMiB));
  EXPECT_EQ(text_of(heap), "2097152 of 512");
  EXPECT_FALSE(heap.correct(kBase, 2 * kMiB + 512));
  EXPECT_FALSE(heap.correct(kBase + 512, 512));
  EXPECT_EQ(heap.allocated_bytes(), 2 * kMiB);
}

// ---- random runs ------------------------------------------------------------------------------

class RandomRun {
 public:
  RandomRun(std::uint32_t seed, HeapSettings settings)
      : random_(seed),
        heap_(settings),
        model_(settings, [this](const ModelEvent& e) { emit(e); }) {}

  void run(int operations) {
    for (int i = 0; i < operations && !testing::Test::HasFatalFailure(); ++i) {
      operate();
      compare();
    }
    EXPECT_EQ(heap_.unexplained(), 0u);
  }

 private:
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

  void operate() {
    const std::uint64_t what = below(100);
    if (what < 50 || allocated_.empty()) {
      const std::uint64_t most = std::uint64_t{1} << (below(3) == 0 ? 26 : 10 + below(12));
      const HeapPool pool{0, below(8) == 0 ? 1u : 0u};
      allocated_.push_back(model_.alloc(1 + below(most), below(3) * 64, pool));
    } else if (what < 90) {
      const std::uint64_t address = take(allocated_);
      model_.request_free(address);
      if (below(5) == 0) {
        pending_.push_back(address);
      } else {
        model_.complete_free(address);
      }
    } else if (what < 97) {
      if (!pending_.empty()) model_.complete_free(take(pending_));
    } else {
      model_.empty_cache();
    }
  }
  std::uint64_t take(std::vector<std::uint64_t>& from) {
    std::swap(from[below(from.size())], from.back());
    const std::uint64_t taken = from.back();
    from.pop_back();
    return taken;
  }
  void emit(const ModelEvent& e) {
    switch (e.what) {
      case ModelEvent::What::kAlloc:
        heap_.alloc(e.address, e.bytes, e.stream);
        return;
      case ModelEvent::What::kFreeRequested:
        heap_.free_requested(e.address);
        return;
      case ModelEvent::What::kFreeCompleted:
        heap_.free_completed(e.address);
        return;
      case ModelEvent::What::kSegment:
        heap_.segment(e.action, e.address, e.bytes, e.stream, e.pool);
        return;
    }
  }
  void compare() {
    std::vector<ModelBlock> expected;
    std::uint64_t allocated = 0, active = 0, reserved = 0;
    auto segments = model_.segments;
    std::ranges::sort(segments, {}, &ModelSegment::address);
    for (const ModelSegment& segment : segments) {
      for (const ModelBlock& block : segment.blocks) {
        expected.push_back(block);
        reserved += block.size;
        if (block.state != BlockState::kInactive) active += block.size;
        if (block.state == BlockState::kAllocated) allocated += block.size;
      }
    }
    std::size_t next = 0;
    heap_.for_each_block([&](std::uint64_t address, std::uint64_t size, std::uint64_t requested,
                             std::uint64_t, HeapPool, BlockState state) {
      ASSERT_LT(next, expected.size());
      const ModelBlock& block = expected[next++];
      ASSERT_EQ(address, block.address);
      ASSERT_EQ(size, block.size);
      ASSERT_EQ(state, block.state);
      ASSERT_TRUE(state == BlockState::kInactive || requested == block.requested);
    });
    ASSERT_EQ(next, expected.size());
    ASSERT_EQ(heap_.allocated_bytes(), allocated);
    ASSERT_EQ(heap_.active_bytes(), active);
    ASSERT_EQ(heap_.reserved_bytes(), reserved);
  }

  std::mt19937 random_;
  ShadowHeap heap_;
  ModelAllocator model_;
  std::vector<std::uint64_t> allocated_, pending_;
};

TEST(ShadowHeapRandom, shows_the_blocks_of_an_allocator_in_every_setting) {
  HeapSettings divided;
  divided.roundup_power2_divisions = {1, 4, 8, 0, 2, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4};
  const HeapSettings all[] = {{},
                              {.max_split_bytes = 30 * kMiB},
                              {.large_segment_bytes = 64 * kMiB},
                              {.has_expandable_segments = true},
                              divided};
  for (const HeapSettings& settings : all) {
    for (std::uint32_t seed = 0; seed < 12; ++seed) RandomRun(seed, settings).run(500);
  }
}

// torch decides by the pool that serves the request: a pool with its own allocator has no
// expandable pages.
TEST(ShadowHeap, SplitsBySegmentAndPool) {
  ShadowHeap heap({.has_expandable_segments = true});
  constexpr HeapPool kOwn{.first = 0, .second = 5};
  heap.segment(kAlloc, kBase, 20 * kMiB, 0, kOwn);
  EXPECT_EQ(heap.alloc(kBase, 20 * kMiB - 4096, 0), 20 * kMiB);
  heap.segment(kAlloc, kBase + 64 * kMiB, 20 * kMiB, 0, {});  // from before the setting
  EXPECT_EQ(heap.alloc(kBase + 64 * kMiB, 20 * kMiB - 4096, 0), 20 * kMiB - 4096);
  ShadowHeap plain;
  plain.segment(kAlloc, kBase, 2 * kMiB, 0, {});  // checkpoints of graphs fill up a small segment
  EXPECT_EQ(plain.alloc(kBase, kMiB + 512, 0), kMiB + 512);
}

}  // namespace
}  // namespace plimsoll::libtorch_cuda

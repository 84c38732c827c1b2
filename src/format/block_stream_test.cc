#include "format/block_stream.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "format/checksum.h"
#include "format/wire.h"
#include "tests/support/random_events.h"
#include "tests/support/trace_file.h"

namespace plimsoll::format {
namespace {

using tests::encode;
using tests::RandomEvents;
using tests::read_file;
using tests::TraceFile;
using Bytes = std::vector<std::byte>;

// Six blocks of ten events each, and the end block.
TraceFile small_file() {
  TraceFile file;
  Encoder encoder(file);
  RandomEvents random(7);
  encoder.process({1, 2, 3});
  for (int block = 0; block < 6; ++block) {
    for (int event = 0; event < 10; ++event) encode(encoder, random.wild_event());
    encoder.flush();
  }
  encoder.finish(9);
  return file;
}

bool is_subsequence(const std::vector<std::string>& some, const std::vector<std::string>& all) {
  auto at = all.begin();
  for (const std::string& text : some) {
    at = std::find(at, all.end(), text);
    if (at == all.end()) return false;
    ++at;
  }
  return true;
}

TEST(BlockStream, accepts_pieces_of_any_size) {
  const TraceFile file = small_file();
  const auto whole = read_file(file.bytes());
  EXPECT_EQ(whole.read.events.size(), 60u);
  for (std::size_t piece = 1; piece < 100; ++piece) {
    const auto read = read_file(file.bytes(), piece);
    EXPECT_EQ(read.read.events, whole.read.events);
    EXPECT_EQ(read.read.definitions, whole.read.definitions);
    EXPECT_EQ(read.damage.blocks, 0u);
    EXPECT_TRUE(read.is_ended);
  }
}

TEST(BlockStream, reads_every_prefix_through_its_last_whole_block) {
  const TraceFile file = small_file();
  const auto whole = read_file(file.bytes());
  for (std::size_t size = 0; size < file.bytes().size(); ++size) {
    const std::span<const std::byte> prefix(file.bytes().data(), size);
    const auto read = read_file(prefix, 1 + size % 64);
    if (size < kMagic.size()) {
      EXPECT_EQ(read.kind, BlockStream::Kind::kNoTrace);
      continue;
    }
    EXPECT_EQ(read.kind, BlockStream::Kind::kTrace);
    const auto blocks = std::count_if(file.blocks().begin(), file.blocks().end(), [&](auto place) {
      const auto head = read_block_head(file.bytes().data() + place.offset);
      return place.kind == BlockKind::kEvents &&
             place.offset + kBlockHeadBytes + head->payload_bytes <= size;
    });
    EXPECT_EQ(read.read.events.size(), static_cast<std::size_t>(blocks) * 10);
    EXPECT_TRUE(is_subsequence(read.read.events, whole.read.events));
    EXPECT_FALSE(read.is_ended);
    EXPECT_EQ(read.damage.blocks, 0u);
    const bool at_block =
        std::ranges::any_of(file.blocks(), [&](const auto& place) { return place.offset == size; });
    EXPECT_EQ(read.damage.cut_bytes == 0, at_block) << size;
  }
}

TEST(BlockStream, loses_only_the_block_with_the_flipped_bit) {
  const TraceFile file = small_file();
  const auto whole = read_file(file.bytes());
  for (std::size_t bit = 0; bit < file.bytes().size() * 8; ++bit) {
    Bytes bytes = file.bytes();
    bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    const auto read = read_file(bytes, 1 + bit % 1000);
    if (bit / 8 < kMagic.size()) {
      EXPECT_EQ(read.kind, BlockStream::Kind::kNoTrace);
      continue;
    }
    ASSERT_TRUE(is_subsequence(read.read.events, whole.read.events)) << bit;
    if (bit / 8 < kPreludeBytes) {
      EXPECT_TRUE(read.damage.is_prelude_damaged) << bit;
      EXPECT_EQ(read.read.events, whole.read.events);
      continue;
    }
    EXPECT_GE(read.read.events.size(), 50u) << bit;
    EXPECT_EQ(read.damage.blocks, 1u) << bit;
  }
}

TEST(BlockStream, finds_the_next_block_after_missing_and_foreign_bytes) {
  const TraceFile file = small_file();
  const std::size_t third = file.blocks()[3].offset;
  Bytes missing = file.bytes();
  missing.erase(missing.begin() + static_cast<std::ptrdiff_t>(third + 3),
                missing.begin() + static_cast<std::ptrdiff_t>(third + 40));
  auto read = read_file(missing, 13);
  EXPECT_EQ(read.read.events.size(), 50u);
  EXPECT_EQ(read.damage.blocks, 1u);
  EXPECT_TRUE(read.is_ended);

  Bytes foreign = file.bytes();
  const Bytes rubbish(5'000, static_cast<std::byte>(kMarker[0]));
  foreign.insert(foreign.begin() + static_cast<std::ptrdiff_t>(third), rubbish.begin(),
                 rubbish.end());
  read = read_file(foreign, 17);
  EXPECT_EQ(read.read.events.size(), 60u);
  EXPECT_EQ(read.damage.blocks, 1u);
  EXPECT_EQ(read.damage.first_offset, third);
}

TEST(BlockStream, rejects_a_file_that_requires_a_later_version) {
  Bytes bytes = small_file().bytes();
  store(bytes.data() + 10, std::uint16_t{kVersion + 1});
  store(bytes.data() + 12, checksum({bytes.data(), 12}));
  const auto read = read_file(bytes);
  EXPECT_EQ(read.kind, BlockStream::Kind::kTooNew);
  EXPECT_TRUE(read.read.events.empty());
}

// Appends a block with this payload to a file.
Bytes with_block(unsigned kind, const Bytes& payload) {
  const TraceFile file = small_file();
  Bytes block(kBlockHeadBytes);
  block.insert(block.end(), payload.begin(), payload.end());
  BlockHead head;
  head.kind = static_cast<BlockKind>(kind);
  head.payload_bytes = static_cast<std::uint32_t>(payload.size());
  head.events = 1;
  write_block_head(block.data(), head);
  Bytes bytes = file.bytes();
  const std::size_t third = file.blocks()[3].offset;
  bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(third), block.begin(), block.end());
  return bytes;
}

TEST(BlockStream, skips_what_later_versions_add) {
  auto read = read_file(with_block(200, Bytes(100)));
  EXPECT_EQ(read.damage.unknown_kinds, 1u);
  EXPECT_EQ(read.damage.blocks, 0u);
  EXPECT_EQ(read.read.events.size(), 60u);

  // Four bases, then a record of event kind 40 with three bytes, then evicted 5.
  const auto byte = [](unsigned value) { return static_cast<std::byte>(value); };
  const unsigned later = 40 << 2 | 3, evicted = 8 << 2 | 3;
  read = read_file(with_block(2, {byte(0), byte(0), byte(0), byte(0), byte(later), byte(3), byte(9),
                                  byte(9), byte(9), byte(evicted), byte(5)}));
  EXPECT_EQ(read.unknown_records, 1u);
  EXPECT_EQ(read.damage.blocks, 0u);
  EXPECT_THAT(read.read.events, testing::Contains("evicted 5"));

  // A definition of kind 99, and a device with one extra field.
  read = read_file(with_block(1, {byte(99), byte(2), byte(1), byte(1), byte(7), byte(4), byte(1),
                                  byte(1), byte(0), byte(77)}));
  EXPECT_EQ(read.unknown_records, 1u);
  EXPECT_EQ(read.damage.blocks, 0u);
  EXPECT_THAT(read.read.definitions, testing::Contains("device 1 1 0"));
}

// Any payload with a valid checksum causes no crash and no read past its end.
TEST(BlockStream, survives_any_payload) {
  RandomEvents random(3);
  for (int round = 0; round < 3'000; ++round) {
    Bytes payload(random.below(round % 10 == 0 ? 2'000 : 60));
    for (std::byte& value : payload) value = static_cast<std::byte>(random.wild());
    const auto read = read_file(with_block(1 + static_cast<unsigned>(round % 2), payload));
    EXPECT_GE(read.read.events.size(), 60u);
  }
}

}  // namespace
}  // namespace plimsoll::format

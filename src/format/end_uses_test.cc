// Last uses of freed memory, through the encoder and the decoder.
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "format/decoder.h"
#include "format/encoder.h"
#include "tests/support/trace_file.h"

namespace plimsoll::format {
namespace {

// Collects the uses of the frees that are not in their operator, as a reader does.
struct Reading : NoRecords {
  void on_free(const Free& free) {
    if (free.serial != kNoSerial && !free.in_op) frees.push_back({});
  }
  void on_free_requested(const FreeRequested& free) {
    if (!free.in_op) frees.push_back({});
  }
  void on_uses(const EndUses& uses) {
    ASSERT_LE(uses.count, frees.size());
    for (std::size_t i = 0; i < uses.count; ++i) {
      frees[frees.size() - uses.count + i] = uses.entries[i];
    }
  }
  std::vector<EndUse> frees;
};

std::vector<EndUse> read(std::span<const std::byte> bytes) {
  Reading reading;
  Decoder<Reading> decoder(reading);
  decoder.push(bytes);
  decoder.finish();
  EXPECT_EQ(decoder.unknown_records(), 0u);
  return reading.frees;
}

// Allocations and frees in a rhythm, some of them with a use.
struct Program {
  explicit Program(std::uint32_t seed) : random(seed), encoder(file) { encoder.define_site(1, {}); }
  std::uint32_t below(std::uint32_t n) { return number() % n; }
  std::uint32_t number() { return static_cast<std::uint32_t>(random()); }
  void alloc() {
    encoder.alloc({++now, 1, 1, serial, 64 * (serial + 1), 100, false});
    live.push_back(serial++);
  }
  void free(const EndUse& use) {
    const std::size_t at = below(static_cast<std::uint32_t>(live.size()));
    const std::uint64_t freed = live[at];
    live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
    const bool is_in_op = below(4) == 0;
    if (below(5) == 0) {
      encoder.free_requested({++now, 1, freed, is_in_op}, use);
      if (!is_in_op) expected.push_back(use);
      encoder.free({++now, 1, freed, 0, false});
      expected.push_back({});
    } else {
      encoder.free({++now, 1, freed, 0, is_in_op}, use);
      if (!is_in_op) expected.push_back(use);
    }
    if (below(20) == 0) encoder.free({++now, 1, kNoSerial, 4096, false});
    if (below(50) == 0) encoder.flush();
  }

  std::mt19937 random;
  tests::TraceFile file;
  Encoder encoder;
  std::int64_t now = 0;
  std::uint64_t serial = 0;
  std::vector<std::uint64_t> live;
  std::vector<EndUse> expected;
};

TEST(EndUses, come_back_as_they_were_written) {
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    Program program(seed);
    for (int i = 0; i < 3'000; ++i) {
      program.alloc();
      if (program.below(3) == 0) continue;
      EndUse use;
      if (i > 500 && program.below(5) != 0) {  // the first frees have none
        use.age_plus_one = program.below(4) == 0 ? program.number() | 1u : 1 + program.below(3);
        use.gap = static_cast<std::uint8_t>(program.below(256));
      }
      program.free(use);
    }
    program.encoder.finish(program.now);
    ASSERT_EQ(read(program.file.bytes()), program.expected) << "seed " << seed;
  }
}

TEST(EndUses, files_without_uses_have_no_such_records) {
  Program program(1);
  for (int i = 0; i < 100; ++i) {
    program.alloc();
    program.free({});
  }
  program.encoder.finish(program.now);
  for (const EndUse& use : read(program.file.bytes())) EXPECT_EQ(use, EndUse{});
}

TEST(EndUses, that_repeat_take_two_bits_each) {
  const auto bytes_of = [](const EndUse& use) {
    tests::TraceFile file;
    Encoder encoder(file);
    encoder.define_site(1, {});
    for (std::uint64_t serial = 0; serial < 5'000; ++serial) {
      encoder.alloc({0, 1, 1, serial, 64, 100, false});
      encoder.free({0, 1, serial, 0, false}, use);
    }
    encoder.finish(0);
    return file.bytes().size();
  };
  const std::size_t without = bytes_of({});
  const std::size_t with = bytes_of({.age_plus_one = 3, .gap = 2});
  EXPECT_LT(with - without, 5'000u * 3 / 8);
}

}  // namespace
}  // namespace plimsoll::format

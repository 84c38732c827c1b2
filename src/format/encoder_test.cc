#include "format/encoder.h"

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/random_events.h"
#include "tests/support/trace_file.h"

namespace plimsoll::format {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using tests::AnyEvent;
using tests::encode;
using tests::RandomEvents;
using tests::read_file;
using tests::ReadBack;
using tests::texts_of;
using tests::TraceFile;

TEST(Encoder, round_trips_definitions) {
  TraceFile file;
  Encoder encoder(file);
  encoder.process({4711, -1, 1'700'000'000'000'000'000});
  encoder.meta("adapter", "libtorch");
  encoder.meta("", "");
  encoder.define_name(1, "model.fc1");
  encoder.define_name(UINT32_MAX, "");
  encoder.define_site(3, {1, 2, 3, 4, 5, 6, 7});
  encoder.define_site(8, {1, 2, 3, 4, 5, 6, 7, ~std::uint64_t{0}, UINT32_MAX});
  encoder.define_site(9, {.autograd = 1});
  encoder.define_site(4, {UINT32_MAX, 0, UINT32_MAX, 0, UINT32_MAX, 255, 255});
  encoder.define_tensor(9, {1, 2, 3, UINT32_MAX});
  encoder.define_device(255, {1, -2});
  encoder.function({1, 2, 30});
  encoder.module({3, 4, ~std::uint64_t{0}});
  encoder.source_line({1, UINT32_MAX, ~std::uint64_t{0}, "x = f(y)"});
  encoder.source_line({1, 32, 5, ""});
  encoder.finish(5);
  const auto read = read_file(file.bytes());
  EXPECT_THAT(
      read.read.definitions,
      ElementsAre(
          "process 4711 -1 1700000000000000000", "meta adapter=libtorch",
          "meta =", "name 1 model.fc1", "name 4294967295 ", "site 3 1 2 3 4 5 6 7",
          "site 8 1 2 3 4 5 6 7 18446744073709551615 4294967295 0", "site 9 0 0 0 0 0 0 0 0 0 1",
          "site 4 4294967295 0 4294967295 0 4294967295 255 255", "tensor 9 1 2 3 4294967295",
          "device 255 1 -2", "function 1 2 30", "module 3 4 18446744073709551615",
          "source_line 1 4294967295 18446744073709551615 x = f(y)", "source_line 1 32 5 "));
  EXPECT_THAT(read.read.ends, ElementsAre(" 5 0"));
  EXPECT_TRUE(read.is_ended);
  EXPECT_EQ(read.damage.blocks, 0u);
}

TEST(Encoder, writes_stacks_that_share_outer_frames) {
  std::vector<std::vector<Frame>> stacks = {
      {},
      {{1, 2, 3}},
      {{1, 2, 4}, {5, 6, 7}, {8, 9, 10}},
      {{1, 2, 5}, {UINT32_MAX, 0, UINT32_MAX}, {5, 6, 7}, {8, 9, 10}},
      {{5, 6, 7}, {8, 9, 10}},
      {},
      std::vector<Frame>(300, Frame{1, 1, 1}),
      std::vector<Frame>(299, Frame{1, 1, 1}),
      std::vector<Frame>(kMaxFrames, Frame{7, 7, 7}),
      {{8, 9, 10}},
  };
  TraceFile file;
  Encoder encoder(file);
  std::vector<std::string> expected;
  for (std::uint32_t id = 0; id < stacks.size(); ++id) {
    encoder.define_stack(id, stacks[id]);
    expected.push_back(ReadBack::stack_text(id, stacks[id]));
  }
  encoder.flush();
  EXPECT_EQ(read_file(file.bytes()).read.definitions, expected);
}

TEST(Encoder, truncates_what_exceeds_the_limits_of_readers) {
  TraceFile file;
  Encoder encoder(file);
  const std::string text(kMaxTextBytes + 1, 'x');
  encoder.define_name(1, text);
  encoder.meta(text, text);
  encoder.define_stack(2, std::vector<Frame>(kMaxFrames + 1, Frame{UINT32_MAX, UINT32_MAX, 1}));
  encoder.finish(0);
  const auto read = read_file(file.bytes());
  ASSERT_EQ(read.read.definitions.size(), 3u);
  EXPECT_EQ(read.read.definitions[0].size(), std::string_view("name 1 ").size() + kMaxTextBytes);
  EXPECT_EQ(read.damage.blocks, 0u);
}

TEST(Encoder, round_trips_any_event) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    RandomEvents random(seed);
    std::vector<AnyEvent> events(2'000);
    TraceFile file;
    Encoder encoder(file);
    for (AnyEvent& event : events) {
      event = random.wild_event();
      encode(encoder, event);
      if (random.below(200) == 0) encoder.flush();
    }
    encoder.finish(0);
    EXPECT_EQ(encoder.events(), events.size());
    EXPECT_EQ(encoder.lost(), 0u);
    const auto read = read_file(file.bytes());
    ASSERT_EQ(read.read.events, texts_of(events)) << "seed " << seed;
    EXPECT_EQ(read.damage.blocks, 0u);
  }
}

// Readers that do not know the figures skip them and still read what follows.
TEST(Encoder, writes_figures_without_affecting_other_events) {
  TraceFile without;
  TraceFile with;
  Encoder encoder(without);
  Encoder other(with);
  for (std::uint64_t i = 0; i < 100; ++i) {
    const Alloc alloc{static_cast<std::int64_t>(i), 1, 1, i, i * 64, i, false};
    encoder.alloc(alloc);
    other.alloc(alloc);
    other.device_figure({static_cast<std::int64_t>(i) + 1'000'000, 1, 2, i << 30, 7, 8});
  }
  encoder.finish(0);
  other.finish(0);
  auto events = read_file(with.bytes()).read.events;
  EXPECT_EQ(std::erase_if(events, [](const auto& text) { return text.starts_with("device"); }),
            100u);
  EXPECT_EQ(events, read_file(without.bytes()).read.events);
}

TEST(Encoder, closes_full_blocks_and_counts_their_events) {
  TraceFile file;
  Encoder encoder(file);
  for (std::uint64_t i = 0; i < 50'000; ++i) encoder.alloc({0, 0, 1, i, i * 64, i, false});
  encoder.flush();
  encoder.flush();
  EXPECT_EQ(encoder.pending_bytes(), 0u);
  std::uint64_t events = 0;
  for (const auto& place : file.blocks()) {
    const auto head = read_block_head(file.bytes().data() + place.offset);
    ASSERT_TRUE(head.has_value());
    EXPECT_LT(head->payload_bytes, kPayloadBytes + kMaxEventBytes);
    events += head->events;
  }
  EXPECT_EQ(events, 50'000u);
  EXPECT_GT(file.blocks().size(), 2u);
}

TEST(Encoder, writes_definitions_before_the_events_that_use_them) {
  TraceFile file;
  Encoder encoder(file);
  encoder.alloc({1, 1, 1, 0, 64, 64, false});
  encoder.define_site(1, {});
  encoder.flush();
  ASSERT_EQ(file.blocks().size(), 2u);
  EXPECT_EQ(file.blocks()[0].kind, BlockKind::kDefinitions);
  EXPECT_EQ(file.blocks()[1].kind, BlockKind::kEvents);
}

TEST(Encoder, writes_nothing_without_records) {
  TraceFile file;
  Encoder encoder(file);
  encoder.flush();
  EXPECT_THAT(file.blocks(), IsEmpty());
}

// A training loop: an allocation at a site usually resembles the previous one there.
TEST(Encoder, is_compact_for_repetitive_programs) {
  TraceFile file;
  Encoder encoder(file);
  std::uint64_t serial = 0;
  std::int64_t now = 1'700'000'000'000'000'000;
  constexpr std::uint64_t kSites = 500;
  for (int step = 0; step < 20; ++step) {
    for (std::uint64_t site = 1; site <= kSites; ++site) {
      const std::uint64_t address = 0x7f0000000000 + site * site * 4096;
      encoder.alloc({now += 5'000, 1, static_cast<std::uint32_t>(site), serial++, address,
                     site * 1'000, false});
    }
    for (std::uint64_t back = 1; back <= kSites; ++back) {
      encoder.free({now += 5'000, 1, serial - back, 0, false});
    }
  }
  encoder.flush();
  EXPECT_LT(file.bytes().size(), encoder.events() * 9 / 2);
}

}  // namespace
}  // namespace plimsoll::format

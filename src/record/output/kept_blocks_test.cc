#include "record/output/kept_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "plimsoll/recorder.h"
#include "tests/support/recorded.h"

namespace plimsoll::record {
namespace {

using testing::IsEmpty;
using testing::SizeIs;
using tests::api;
using tests::name;
using tests::Recorded;
using tests::TraceReplay;

// Compares what two traces of one run say about the memory live at their end.
void expect_same_end(const TraceReplay& some, const TraceReplay& all) {
  EXPECT_EQ(some.live_bytes, all.live_bytes);
  ASSERT_EQ(some.live.size(), all.live.size());
  for (const auto& [serial, alloc] : all.live) {
    ASSERT_TRUE(some.live.contains(serial));
    const format::Alloc& other = some.live.at(serial);
    EXPECT_EQ(other.address, alloc.address);
    EXPECT_EQ(other.size_bytes, alloc.size_bytes);
    EXPECT_EQ(other.site, alloc.site);
    EXPECT_EQ(other.time_ns, alloc.time_ns);
    EXPECT_EQ(other.thread, alloc.thread);
    EXPECT_EQ(other.is_adopted, alloc.is_adopted);
  }
  EXPECT_EQ(some.tags, all.tags);
}

std::map<std::uint64_t, std::uint8_t> live_phases(const TraceReplay& replay) {
  std::map<std::uint64_t, std::uint8_t> phases;
  for (const format::SetPhase& event : replay.phases) {
    if (replay.live.contains(event.serial)) phases[event.serial] = event.phase;
  }
  return phases;
}

void expect_newest(const TraceReplay& some, const TraceReplay& all, std::uint64_t max_events) {
  const std::uint64_t events = all.allocs.size() + all.frees.size();
  if (some.evicted == 0) {
    EXPECT_EQ(some.allocs.size(), all.allocs.size());
    EXPECT_EQ(some.frees.size(), all.frees.size());
    return;
  }
  // At least the requested number of the newest events, and not many more.
  const std::uint64_t kept = some.frees.size();
  EXPECT_LE(kept, max_events + max_events / 8 + 128);
  EXPECT_LE(some.evicted, events * 3);
  ASSERT_LE(kept, all.frees.size());
  for (std::size_t i = 0; i < kept; ++i) {
    const format::Free& mine = some.frees[kept - 1 - i];
    const format::Free& other = all.frees[all.frees.size() - 1 - i];
    ASSERT_EQ(mine.serial, other.serial);
    ASSERT_EQ(mine.time_ns, other.time_ns);
    ASSERT_EQ(mine.in_op, other.in_op);
  }
}

TEST(KeptBlocks, eviction_is_exact) {
  std::mt19937_64 random(11);
  const std::uint32_t tensors[] = {api().tensor(PLIMSOLL_ROLE_PARAMETER, name("kept.p"), 0, 0),
                                   api().tensor(PLIMSOLL_ROLE_KNOWN, name("kept.k"), 0, 0)};
  for (const std::uint64_t max_events : {1u, 100u, 1'000u, 10'000u}) {
    const Recorded all = Recorded::in_memory();
    const Recorded newest = Recorded::in_memory(max_events);
    plimsoll_context* context = api().context();
    std::vector<std::uint64_t> live;
    for (std::uint64_t i = 1; i <= 20'000; ++i) {
      context->op_instance = static_cast<std::uint32_t>(i / 8 + 1);
      context->layer = name("kept." + std::to_string(random() % 50));
      if (live.empty() || random() % 20 < 11) {
        live.push_back(64 * i);
        api().alloc(context, 0, 64 * i, 1 + random() % 10'000);
      } else {
        const std::size_t which = random() % live.size();
        api().free(context, 0, live[which]);
        live[which] = live.back();
        live.pop_back();
      }
      if (!live.empty() && random() % 20 == 0)
        api().tag(context, 0, live[random() % live.size()], tensors[random() % 2]);
      if (random() % 30 == 0) api().set_phase(context, PLIMSOLL_PHASE_FORWARD);
      if (i % 5'000 == 0) {
        const TraceReplay some = newest.replay();
        const TraceReplay whole = all.replay();
        EXPECT_THAT(some.violations, IsEmpty());
        EXPECT_EQ(some.damaged_blocks, 0u);
        EXPECT_EQ(some.unmatched, 0u);
        expect_same_end(some, whole);
        EXPECT_EQ(live_phases(some), live_phases(whole));
        expect_newest(some, whole, max_events);
      }
    }
    *context = {};
    const plimsoll_recording_state state = newest.state();
    EXPECT_EQ(newest.replay().evicted, state.evicted);
    if (max_events <= 1'000) {
      EXPECT_GT(state.evicted, 10'000u);
    }
  }
}

TEST(KeptBlocks, memory_stays_bounded) {
  const Recorded newest = Recorded::in_memory(1'000);
  plimsoll_context* context = api().context();
  std::size_t first_bytes = 0;
  for (int round = 0; round < 40; ++round) {
    for (std::uint64_t i = 1; i <= 5'000; ++i) {
      api().alloc(context, 0, 64 * i, i);
      api().free(context, 0, 64 * i);
    }
    std::size_t size_bytes = 0;
    std::free(plimsoll_recording_copy(newest.get(), &size_bytes));
    if (round == 4) first_bytes = size_bytes;
    if (round > 4) {
      EXPECT_LE(size_bytes, first_bytes * 3 / 2);
    }
  }
}

TEST(KeptBlocks, a_limited_file_is_complete_after_every_flush) {
  const tests::TemporaryPath path("kept_file");
  Recorded recording = Recorded::into_file(path.str(), 500);
  EXPECT_EQ(TraceReplay::of_file(path.str()).live_bytes, 0u);
  plimsoll_context* context = api().context();
  for (std::uint64_t round = 1; round <= 10; ++round) {
    for (std::uint64_t i = 1; i <= 1'000; ++i) api().alloc(context, 0, (round * 1'000 + i) * 64, 2);
    recording.flush();
    const TraceReplay replay = TraceReplay::of_file(path.str());
    EXPECT_EQ(replay.live_bytes, round * 2'000);
    EXPECT_THAT(replay.violations, IsEmpty());
    EXPECT_FALSE(replay.is_ended);
  }
  EXPECT_GT(recording.stop().evicted, 5'000u);
  const TraceReplay replay = TraceReplay::of_file(path.str());
  EXPECT_TRUE(replay.is_ended);
  EXPECT_EQ(replay.live_bytes, 20'000u);
}

TEST(KeptBlocks, a_file_that_cannot_be_shortened_has_all_events_and_this_is_said_once) {
  const tests::TemporaryPath path("kept_grows");
  const tests::TemporaryPath moved("kept_moved");
  testing::internal::CaptureStderr();
  Recorded recording = Recorded::into_file(path.str(), 500);
  recording.flush();
  std::filesystem::rename(path.str(), moved.str());
  for (std::uint64_t i = 1; i <= 200'000; ++i) {
    api().alloc(api().context(), 0, i * 64, 2);
    if (i % 20'000 == 0) recording.flush();
  }
  EXPECT_EQ(recording.stop().evicted, 0u);
  EXPECT_EQ(TraceReplay::of_file(moved.str()).live_bytes, 400'000u);
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_EQ(printed, "plimsoll: " + path.str() +
                         ": earlier events cannot be removed (it was renamed or removed), so the "
                         "file grows beyond max_events\n");
}

TEST(KeptBlocks, keeps_the_last_attachment_of_each_format) {
  struct Pieces : format::NoRecords {
    void on_attachment(const format::AttachmentPiece& piece) {
      reported += std::string(piece.name) + std::to_string(piece.bytes.size()) + " ";
    }
    std::string reported;
  };
  const tests::TemporaryPath path("kept_attachments");
  Recorded recording = Recorded::into_file(path.str(), 500);
  const std::string bytes(100, 'x');
  for (const auto& [format, size] : {std::pair{"one", 7}, {"two", 20}, {"one", 50}}) {
    EXPECT_EQ(plimsoll_recording_attach(recording.get(), format, bytes.data(),
                                        static_cast<std::size_t>(size)),
              0);
  }
  const auto read = [&] {
    Pieces pieces;
    format::Decoder<Pieces> decoder(pieces);
    const auto file = TraceReplay::bytes_of(path.str());
    decoder.push(file);
    decoder.finish();
    return pieces.reported;
  };
  EXPECT_EQ(read(), "one7 two20 one50 ");  // the last one of each format counts
  recording.stop();
  EXPECT_EQ(read(), "one50 two20 ");
}

TEST(KeptBlocks, take_ends_the_recording_and_returns_it_whole) {
  for (const std::uint64_t max_events : {0u, 100u}) {
    plimsoll::Recording recording =
        std::move(plimsoll::Recording::start({.max_events = max_events})).value();
    plimsoll_context* const context = api().context();
    for (std::uint64_t at = 1; at <= 1'000; ++at) api().alloc(context, 0, at * 64, 8);
    for (std::uint64_t at = 1; at < 1'000; ++at) api().free(context, 0, at * 64);
    const TraceReplay before = TraceReplay::of_bytes(recording.copy());
    EXPECT_FALSE(before.is_ended);
    const TraceReplay replay = TraceReplay::of_bytes(recording.take());
    EXPECT_TRUE(replay.is_ended);
    EXPECT_EQ(replay.damaged_blocks, 0u);
    EXPECT_EQ(replay.live_bytes, 8u);
    EXPECT_FALSE(recording.is_running());
    EXPECT_EQ(recording.state().live_count, 1u);
    EXPECT_TRUE(recording.take().empty());
  }
}

}  // namespace
}  // namespace plimsoll::record

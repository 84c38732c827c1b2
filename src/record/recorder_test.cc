// The recorder through its C interface, in one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "plimsoll/last_use_c.h"
#include "plimsoll/recorder_c.h"
#include "record/recorder.h"
#include "tests/support/recorded.h"
#include "tests/support/wait_until.h"

namespace plimsoll::record {
namespace {

using testing::ElementsAre;
using testing::Ge;
using testing::IsEmpty;
using testing::SizeIs;
using tests::api;
using tests::here;
using tests::name;
using tests::options_for;
using tests::Recorded;
using tests::TemporaryPath;
using tests::TraceReplay;
using tests::wait_until;

void alloc(std::uint64_t address, std::uint64_t size) { api().alloc(here(), 0, address, size); }
void free_at(std::uint64_t address) { api().free(here(), 0, address); }

TEST(Recorder, records_nothing_while_no_recording_runs) {
  EXPECT_EQ(api().is_recording(), 0);
  alloc(64, 1);
  Recorded recording = Recorded::in_memory();
  EXPECT_EQ(api().is_recording(), 1);
  EXPECT_THAT(recording.replay().allocs, IsEmpty());
  recording.stop();
  EXPECT_EQ(api().is_recording(), 0);
}

TEST(Recorder, reports_where_memory_was_allocated) {
  const Recorded recording = Recorded::in_memory();
  plimsoll_context* context = here();
  *context = {};
  context->layer = name("model.fc1");
  context->outer_op = name("aten::linear");
  context->inner_op = name("aten::addmm");
  const plimsoll_frame frame{name("train.py"), name("step"), 42};
  context->stack = api().stack(&frame, 1);
  context->phase = PLIMSOLL_PHASE_FORWARD;
  context->autograd = PLIMSOLL_AUTOGRAD_BUILT;
  alloc(4096, 1000);
  *context = {};

  TraceReplay replay = recording.replay();
  ASSERT_THAT(replay.allocs, SizeIs(1));
  EXPECT_EQ(replay.allocs[0].address, 4096u);
  EXPECT_EQ(replay.allocs[0].size_bytes, 1000u);
  const format::Site& site = replay.sites.at(replay.allocs[0].site);
  EXPECT_EQ(replay.names.at(site.layer), "model.fc1");
  EXPECT_EQ(replay.names.at(site.outer_op), "aten::linear");
  EXPECT_EQ(replay.names.at(site.inner_op), "aten::addmm");
  EXPECT_EQ(site.phase, PLIMSOLL_PHASE_FORWARD);
  EXPECT_EQ(site.autograd, PLIMSOLL_AUTOGRAD_BUILT);
  ASSERT_THAT(replay.stacks.at(site.stack), SizeIs(1));
  EXPECT_EQ(replay.names.at(replay.stacks.at(site.stack)[0].file), "train.py");
  EXPECT_THAT(replay.violations, IsEmpty());
}

TEST(Recorder, reports_last_uses_when_memory_is_freed_and_at_the_end) {
  Recorded recording = Recorded::in_memory();
  alloc(64, 1);  // before uses are observed
  api().observe_uses(here(), 1);
  alloc(128, 1);
  const std::uint64_t input = 128;
  api().use(here(), &input, 1);
  alloc(192, 1);
  api().end_uses(here());
  alloc(256, 1);
  api().escape(256);
  free_at(64);
  free_at(128);
  free_at(256);
  EXPECT_EQ(api().use_clock(), 3u);
  const TraceReplay replay = recording.replay();
  // The file states uses from the first known one on.
  EXPECT_THAT(replay.end_uses, ElementsAre(format::EndUse{1 + 1, 0}, format::EndUse{}));
  Recorded second = Recorded::in_memory();  // its file begins with what is observed
  EXPECT_EQ(second.replay().marks.at(0).kind, PLIMSOLL_MARK_USES);
  second.stop();
  recording.stop();
  EXPECT_EQ(api().use_clock(), 0u) << "uses are observed anew in each recording";
}

TEST(Recorder, what_an_operator_allocates_is_in_use_until_it_ends) {
  Recorded recording = Recorded::in_memory();
  api().observe_uses(here(), 1);
  here()->op_instance = 7;
  alloc(64, 1);
  alloc(128, 1);
  api().end_uses(here());
  here()->op_instance = 0;
  alloc(192, 1);
  free_at(64);
  api().observe_uses(here(), 0);
  here()->op_instance = 8;  // no operator is observed to end
  alloc(256, 1);
  here()->op_instance = 0;
  alloc(320, 1);
  free_at(256);
  const TraceReplay replay = recording.replay();
  const auto never = format::kNeverUsed;
  EXPECT_THAT(replay.end_uses,
              ElementsAre(format::EndUse{1 + 1, never}, format::EndUse{1 + 1, never}));
}

TEST(Recorder, reports_what_holds_the_live_memory) {
  const Recorded recording = Recorded::in_memory();
  alloc(64, 1);
  alloc(128, 1);
  free_at(128);
  std::vector<plimsoll_holder_link> links(2);
  links[0].kind = PLIMSOLL_LINK_MODULE;
  links[1].parent = 1;
  links[1].kind = PLIMSOLL_LINK_ATTRIBUTE;
  links[1].name = name("losses");
  links[1].limit = 20;
  std::vector<plimsoll_held> held(2);
  held[0].address = 64;
  held[1].address = 128;
  held[0].link = held[1].link = 2;
  plimsoll_holder_cut cut{};
  cut.link = 2;
  cut.freed_bytes = 1;
  plimsoll_holders found{};
  found.size_bytes = sizeof(plimsoll_holders);
  found.objects = 1000;
  found.links = links.data();
  found.link_count = links.size();
  found.held = held.data();
  found.held_count = held.size();
  found.cuts = &cut;
  found.cut_count = 1;
  api().holders(here(), &found);
  api().holders(here(), nullptr);
  const TraceReplay replay = recording.replay();
  ASSERT_THAT(replay.walks, SizeIs(1));
  EXPECT_EQ(replay.walks[0].objects, 1000u);
  ASSERT_THAT(replay.links, SizeIs(2));
  EXPECT_EQ(replay.names.at(replay.links[1].name), "losses");
  EXPECT_EQ(replay.links[1].parent, 1u);
  EXPECT_EQ(replay.links[1].limit, 20u);
  ASSERT_THAT(replay.held_memory, SizeIs(1)) << "what is not live is left out";
  EXPECT_EQ(replay.held_memory[0].serial, replay.allocs[0].serial);
  ASSERT_THAT(replay.cuts, SizeIs(1));
  EXPECT_EQ(replay.cuts[0].freed_bytes, 1u);
  EXPECT_THAT(replay.violations, IsEmpty());
}

TEST(Recorder, wants_holders_when_somebody_asks_and_when_memory_runs_out) {
  const Recorded recording = Recorded::in_memory();
  EXPECT_EQ(api().wants_holders(), PLIMSOLL_HOLDERS_NOT_WANTED);
  const std::uint64_t before = plimsoll_holder_walks(1);
  EXPECT_EQ(api().wants_holders(), PLIMSOLL_HOLDERS_NOW);
  EXPECT_EQ(api().wants_holders(), PLIMSOLL_HOLDERS_NOT_WANTED);
  plimsoll_holders found{};
  found.size_bytes = sizeof(plimsoll_holders);
  api().holders(here(), &found);
  EXPECT_EQ(plimsoll_holder_walks(0), before + 1);
  plimsoll_block wanted{};
  wanted.size_bytes = 9000;
  api().out_of_memory(here(), 0, &wanted, 55, 66, 77);
  EXPECT_EQ(api().wants_holders(), PLIMSOLL_HOLDERS_OF_GROWTH);
}

std::vector<std::uint64_t> unused(const Recorded& recording, const plimsoll_use_point& since) {
  std::vector<plimsoll_live> rows(16);
  rows.resize(plimsoll_recording_unused(recording.get(), since, rows.data(), rows.size()));
  std::vector<std::uint64_t> sizes;
  for (const plimsoll_live& row : rows) sizes.push_back(row.size_bytes);
  std::ranges::sort(sizes);
  return sizes;
}

void use(std::uint64_t address) {
  api().use(here(), &address, 1);
  api().end_uses(here());
}

TEST(Recorder, lists_live_memory_that_no_operator_has_used_since_a_point) {
  const Recorded recording = Recorded::in_memory();
  alloc(64, 1);  // before uses are observed
  api().observe_uses(here(), 1);
  api().adopt(here(), 0, 128, 2, 0);
  for (std::uint64_t i = 0; i < 6; ++i) alloc(1024 * (i + 1), 10 + i);
  api().escape(1024);
  free_at(2048);
  const plimsoll_use_point middle = plimsoll_use_point_now();
  EXPECT_NE(middle.span, 0u);
  use(3072);  // no allocation since the point
  EXPECT_THAT(unused(recording, middle), ElementsAre(13, 14)) << "the newest counts as used later";
  alloc(8192, 20);
  const plimsoll_use_point later = plimsoll_use_point_now();
  EXPECT_THAT(unused(recording, later), ElementsAre(12, 13, 14, 15));
  use(4096);
  const std::uint64_t running = 5120;
  api().use(here(), &running, 1);
  EXPECT_THAT(unused(recording, later), ElementsAre(12, 15));
  api().end_uses(here());
  api().mark(here(), PLIMSOLL_MARK_FORK, 0);
  EXPECT_THAT(unused(recording, later), IsEmpty()) << "a child may use it";
}

TEST(Recorder, unused_memory_is_unknown_unless_uses_were_observed_all_the_time) {
  const Recorded recording = Recorded::in_memory();
  const auto count = [&](const plimsoll_use_point& since) {
    return plimsoll_recording_unused(recording.get(), since, nullptr, 0);
  };
  EXPECT_EQ(count(plimsoll_use_point_now()), SIZE_MAX);
  api().observe_uses(here(), 1);
  alloc(64, 1);
  alloc(128, 1);
  const plimsoll_use_point since = plimsoll_use_point_now();
  EXPECT_EQ(count(since), 1u);
  api().observe_uses(here(), 1);  // another recording asks for it
  EXPECT_EQ(count(since), 1u);
  api().observe_uses(here(), 0);
  EXPECT_EQ(count(since), SIZE_MAX);
  api().observe_uses(here(), 1);
  EXPECT_EQ(count(since), SIZE_MAX);
  EXPECT_EQ(count(plimsoll_use_point_now()), 1u);
}

TEST(Recorder, times_are_those_of_the_wall_clock) {
  const Recorded recording = Recorded::in_memory();
  const auto now_ns = [] {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  };
  // Finds a wrong unit or epoch. The test of TickClock measures the accuracy with a fake clock.
  constexpr std::int64_t kHourNs = 3'600'000'000'000;
  const std::int64_t before = now_ns();
  alloc(64, 1);
  const std::int64_t after = now_ns();
  const TraceReplay replay = recording.replay();
  ASSERT_THAT(replay.allocs, SizeIs(1));
  EXPECT_GE(replay.allocs[0].time_ns, before - kHourNs);
  EXPECT_LE(replay.allocs[0].time_ns, after + kHourNs);
}

TEST(Recorder, the_peak_is_exact_at_the_call) {
  const Recorded recording = Recorded::in_memory();
  alloc(64, 100);
  alloc(128, 50);
  free_at(64);
  EXPECT_EQ(recording.peak_bytes(1), 150u);
  EXPECT_EQ(recording.peak_bytes(), 50u);
  alloc(256, 7);
  EXPECT_EQ(recording.peak_bytes(), 57u);
  EXPECT_EQ(recording.state().live_bytes, 57u);
  EXPECT_EQ(recording.state().live_count, 2u);
}

std::vector<plimsoll_live> live_of(const Recorded& recording) {
  std::vector<plimsoll_live> rows(64);
  const std::size_t count = plimsoll_recording_live(recording.get(), rows.data(), rows.size());
  EXPECT_LE(count, rows.size());
  rows.resize(count);
  std::ranges::sort(rows, {}, &plimsoll_live::serial);
  return rows;
}

std::string text_of(std::uint32_t name) {
  std::size_t size_bytes = 0;
  const char* text = plimsoll_name_text(name, &size_bytes);
  return {text, size_bytes};
}

TEST(Recorder, reports_live_allocations_with_their_attribution) {
  const Recorded recording(options_for(PLIMSOLL_SINK_NULL));
  const std::uint32_t weight =
      api().tensor(PLIMSOLL_ROLE_PARAMETER, name("fc.weight"), name("float32"), name("[4, 5]"));
  api().adopt(here(), 0, 64, 80, weight);
  alloc(128, 50);
  here()->layer = name("Net.fc");
  here()->phase = PLIMSOLL_PHASE_FORWARD;
  alloc(256, 7);
  here()->layer = 0;
  here()->phase = PLIMSOLL_PHASE_OTHER;
  free_at(128);

  const std::vector<plimsoll_live> rows = live_of(recording);
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].size_bytes, 80u);
  EXPECT_EQ(rows[0].role, PLIMSOLL_ROLE_PARAMETER);
  EXPECT_EQ(rows[0].is_adopted, 1);
  EXPECT_EQ(text_of(rows[0].name), "fc.weight");
  EXPECT_EQ(text_of(rows[0].dtype), "float32");
  EXPECT_EQ(text_of(rows[0].shape), "[4, 5]");
  EXPECT_EQ(rows[1].size_bytes, 7u);
  EXPECT_EQ(rows[1].phase, PLIMSOLL_PHASE_FORWARD);
  EXPECT_EQ(rows[1].is_adopted, 0);
  EXPECT_EQ(text_of(rows[1].layer), "Net.fc");
  EXPECT_EQ(text_of(rows[1].name), "");
  EXPECT_EQ(text_of(4'000'000'000), "");
  plimsoll_live one{};
  EXPECT_EQ(plimsoll_recording_live(recording.get(), &one, 1), 2u);
  EXPECT_EQ(plimsoll_recording_live(recording.get(), nullptr, 9), 2u);
}

TEST(Recorder, reports_the_peak_of_each_device_since_a_span_began) {
  const Recorded recording(options_for(PLIMSOLL_SINK_NULL));
  const std::uint8_t gpu = api().device(PLIMSOLL_DEVICE_CUDA, 3);
  const auto usage = [&](std::uint64_t span) {
    std::vector<plimsoll_usage> rows(8);
    rows.resize(plimsoll_recording_usage(recording.get(), span, rows.data(), rows.size()));
    return rows;
  };
  alloc(64, 100);
  const std::uint64_t outer = plimsoll_recording_begin_span(recording.get());
  free_at(64);
  alloc(128, 40);
  api().alloc(here(), gpu, 64, 1000);
  const std::uint64_t inner = plimsoll_recording_begin_span(recording.get());
  api().free(here(), gpu, 64);
  alloc(256, 30);
  free_at(256);

  const auto outside = usage(outer);
  ASSERT_EQ(outside.size(), gpu + 1u);
  EXPECT_EQ(outside[0].live_bytes, 40u);
  EXPECT_EQ(outside[0].live_count, 1u);
  EXPECT_EQ(outside[0].peak_bytes, 100u);  // memory live when it begins counts
  EXPECT_EQ(outside[gpu].live_bytes, 0u);
  EXPECT_EQ(outside[gpu].peak_bytes, 1000u);
  EXPECT_EQ(outside[gpu].device_type, PLIMSOLL_DEVICE_CUDA);
  EXPECT_EQ(outside[gpu].ordinal, 3);
  EXPECT_EQ(usage(inner)[0].peak_bytes, 70u);
  EXPECT_EQ(usage(inner)[gpu].peak_bytes, 1000u);
  plimsoll_recording_end_span(recording.get(), outer);
  EXPECT_EQ(usage(inner)[0].peak_bytes, 70u);
  EXPECT_EQ(usage(outer)[0].peak_bytes, 40u);  // the span has ended: what is live now
}

TEST(Recorder, a_recording_that_starts_midway_begins_with_live_memory) {
  const Recorded first = Recorded::in_memory();
  const std::uint32_t weight =
      api().tensor(PLIMSOLL_ROLE_PARAMETER, name("weight"), name("float32"), 0);
  alloc(64, 100);
  alloc(128, 50);
  api().tag(here(), 0, 128, weight);
  free_at(64);
  const Recorded second = Recorded::in_memory();
  alloc(256, 7);
  free_at(128);

  const TraceReplay replay = second.replay();
  EXPECT_EQ(replay.adopted, 1u);
  ASSERT_THAT(replay.allocs, SizeIs(2));
  EXPECT_EQ(replay.allocs[0].address, 128u);
  EXPECT_EQ(replay.live_bytes, 7u);
  EXPECT_EQ(replay.peak_bytes, 57u);
  EXPECT_THAT(replay.violations, IsEmpty());
  EXPECT_EQ(first.replay().live_bytes, 7u);
}

TEST(Recorder, starts_again_without_earlier_state) {
  for (int round = 0; round < 5; ++round) {
    Recorded recording = Recorded::in_memory();
    alloc(64, 100);
    const TraceReplay replay = recording.replay();
    EXPECT_THAT(replay.allocs, SizeIs(1));
    EXPECT_EQ(replay.live_bytes, 100u);
    EXPECT_EQ(recording.stop().replaced, 0u);
  }
}

TEST(Recorder, a_stopped_recording_is_marked_in_its_file) {
  const TemporaryPath path("recorder_end");
  Recorded recording = Recorded::into_file(path.str());
  alloc(64, 100);
  recording.flush();
  TraceReplay replay = TraceReplay::of_file(path.str());
  EXPECT_FALSE(replay.is_ended);
  EXPECT_EQ(replay.live_bytes, 100u);
  free_at(64);
  const plimsoll_recording_state state = recording.stop();
  replay = TraceReplay::of_file(path.str());
  EXPECT_TRUE(replay.is_ended);
  EXPECT_EQ(replay.live_bytes, 0u);
  EXPECT_EQ(state.written_bytes, TraceReplay::bytes_of(path.str()).size());
  EXPECT_EQ(state.error, 0);
}

TEST(Recorder, metadata_is_in_the_file) {
  const char* const meta[] = {"adapter", "test", "lonely", nullptr};
  plimsoll_recording_options options = options_for(PLIMSOLL_SINK_MEMORY);
  options.meta = meta;
  const Recorded recording(options);
  EXPECT_EQ(recording.replay().meta.at("adapter"), "test");
}

TEST(Recorder, explains_in_a_sentence_why_it_does_not_start) {
  plimsoll_recording_options options = options_for(PLIMSOLL_SINK_FILE);
  const char* error = nullptr;
  EXPECT_EQ(plimsoll_recording_start(&options, &error), nullptr);
  EXPECT_STREQ(error, "A recording into a file needs the file's path.");
  options.path = "/dev/null/x";
  EXPECT_EQ(plimsoll_recording_start(&options, &error), nullptr);
  EXPECT_STREQ(error, "Cannot open '/dev/null/x': Not a directory.");
  options.sink = 9;
  EXPECT_EQ(plimsoll_recording_start(&options, &error), nullptr);
  EXPECT_NE(error, nullptr);
  EXPECT_EQ(plimsoll_recording_start(nullptr, nullptr), nullptr);
  EXPECT_EQ(api().is_recording(), 0);
}

TEST(Recorder, two_recordings_into_one_file_get_two) {
  const TemporaryPath path("recorder_same_file");
  Recorded first = Recorded::into_file(path.str());
  Recorded second = Recorded::into_file(path.str(), 1000);
  const std::string other = path.str() + ".2";
  EXPECT_STREQ(plimsoll_recording_path(first.get()), path.c_str());
  EXPECT_STREQ(plimsoll_recording_path(second.get()), other.c_str());
  alloc(64, 1);
  first.stop();
  second.stop();
  EXPECT_EQ(TraceReplay::of_file(path.str()).live_bytes, 1u);
  EXPECT_EQ(TraceReplay::of_file(other).live_bytes, 1u);
  unlink(other.c_str());
}

TEST(Recorder, rejects_a_device_that_another_recording_writes) {
  const Recorded recording = Recorded::into_file("/dev/null");
  plimsoll_recording_options options = options_for(PLIMSOLL_SINK_FILE);
  options.path = "/dev/null";
  const char* error = nullptr;
  EXPECT_EQ(plimsoll_recording_start(&options, &error), nullptr);
  EXPECT_STREQ(error, "Another recording writes to this file.");
}

struct Stream {
  std::vector<std::byte> bytes;
  int calls_left = 1'000'000;
  static int take(void* user, const void* data, std::size_t size_bytes) {
    auto& stream = *static_cast<Stream*>(user);
    const auto* begin = static_cast<const std::byte*>(data);
    stream.bytes.insert(stream.bytes.end(), begin, begin + size_bytes);
    return stream.calls_left-- > 0 ? 1 : 0;
  }
};

TEST(Recorder, a_stream_receives_what_a_file_would) {
  Stream stream;
  plimsoll_recording_options options = options_for(PLIMSOLL_SINK_STREAM);
  options.write = Stream::take;
  options.user = &stream;
  Recorded recording(options);
  alloc(64, 100);
  recording.flush();
  alloc(128, 5);
  recording.stop();
  const TraceReplay replay = TraceReplay::of_bytes(stream.bytes);
  EXPECT_TRUE(replay.is_ended);
  EXPECT_EQ(replay.live_bytes, 105u);
}

// How many steps had ended at each reading of the process.
std::vector<std::size_t> readings_after_steps(std::size_t steps, std::size_t own_from = SIZE_MAX,
                                              std::size_t calls = 0) {
  const TemporaryPath path("readings.plim");
  Recorded recording = Recorded::into_file(path.str());
  for (; calls > 0; --calls) api().mark(here(), PLIMSOLL_MARK_CALL_END, 0);
  for (std::size_t step = 0; step < steps; ++step) {
    if (step == own_from) api().mark(here(), PLIMSOLL_MARK_OWN_STEPS, 0);
    api().mark(here(), PLIMSOLL_MARK_STEP, step);
  }
  recording.stop();
  const TraceReplay replay = TraceReplay::of_file(path.str());
  std::vector<std::size_t> after;
  for (const format::DeviceFigure& figure : replay.figures) {
    if (figure.figure != PLIMSOLL_FIGURE_HIGHEST) continue;
    EXPECT_GT(figure.value, 1u << 20);
    EXPECT_EQ(figure.device, 0u);
    after.push_back(
        static_cast<std::size_t>(std::ranges::count_if(replay.marks, [&](const format::Mark& each) {
          return each.kind == PLIMSOLL_MARK_STEP && each.time_ns <= figure.time_ns;
        })));
  }
  return after;
}

TEST(Recorder, reads_the_memory_of_the_process_at_the_start_after_some_steps_and_at_the_end) {
  EXPECT_THAT(readings_after_steps(0), ElementsAre(0, 0));
  EXPECT_THAT(readings_after_steps(14), ElementsAre(0, 3, 6, 12, 14));
  EXPECT_THAT(readings_after_steps(9, 4), ElementsAre(0, 3, 7, 9));
  EXPECT_THAT(readings_after_steps(0, SIZE_MAX, 7), ElementsAre(0, 0, 0, 0))
      << "after 3 and 6 calls";
  EXPECT_THAT(readings_after_steps(9, SIZE_MAX, 5), ElementsAre(0, 0, 3, 6, 9))
      << "calls before the first step do not count";
}

TEST(Recorder, a_process_that_was_read_for_the_end_is_not_read_again) {
  const TemporaryPath path("readings.plim");
  Recorded recording = Recorded::into_file(path.str());
  plimsoll_recording_read_process(recording.get());
  recording.stop();
  const TraceReplay replay = TraceReplay::of_file(path.str());
  EXPECT_EQ(
      std::ranges::count(replay.figures, PLIMSOLL_FIGURE_HIGHEST, &format::DeviceFigure::figure),
      2);
}

TEST(Recorder, a_failing_sink_does_not_affect_others) {
  Stream stream;
  stream.calls_left = 3;
  plimsoll_recording_options options = options_for(PLIMSOLL_SINK_STREAM);
  options.write = Stream::take;
  options.user = &stream;
  Recorded broken(options);
  const Recorded whole = Recorded::in_memory();
  for (std::uint64_t i = 1; i <= 10; ++i) {
    alloc(i * 64, 1);
    broken.flush();
  }
  EXPECT_EQ(whole.replay().live_bytes, 10u);
  const plimsoll_recording_state state = broken.stop();
  EXPECT_EQ(state.error, EPIPE);
  EXPECT_EQ(state.live_bytes, 10u);
}

// The number of this thread's events that the drain has not read.
std::uint64_t unread_events() {
  const Ring& ring = ThreadRegistry::of(here())->ring;
  return ring.head() - ring.tail();
}

// A sink that blocks the writing thread until it is opened.
struct BlockingSink {
  static int take(void* user, const void*, std::size_t) {
    auto& sink = *static_cast<BlockingSink*>(user);
    if (sink.is_open) return 1;
    sink.is_blocking = true;
    sink.is_open.wait(false);
    return 1;
  }
  void open() {
    is_open = true;
    is_open.notify_all();
  }
  std::atomic<bool> is_open{true};
  std::atomic<bool> is_blocking{false};
};

TEST(Recorder, a_slow_sink_does_not_let_the_rings_fill_up) {
  BlockingSink sink;
  plimsoll_recording_options options = options_for(PLIMSOLL_SINK_STREAM);
  options.user = &sink;
  options.write = BlockingSink::take;
  Recorded recording(options);
  sink.is_open = false;
  alloc(128, 1);
  EXPECT_TRUE(wait_until([&] { return sink.is_blocking.load(); }));
  constexpr std::uint64_t kPairs = 100'000;  // enough events to fill three rings
  bool is_drained = true;
  for (std::uint64_t i = 1; i <= kPairs && is_drained; ++i) {
    alloc(64, i);
    free_at(64);
    if (i % 10'000 == 0) is_drained = wait_until([] { return unread_events() == 0; });
  }
  EXPECT_TRUE(is_drained);
  EXPECT_EQ(recording.state().events, 2 * kPairs + 1);
  sink.open();
  EXPECT_EQ(recording.stop().dropped, 0u);
}

TEST(Recorder, a_full_disk_is_reported_at_the_start) {
  plimsoll_recording_options options = options_for(PLIMSOLL_SINK_FILE);
  options.path = "/dev/full";
  const char* error = nullptr;
  EXPECT_EQ(plimsoll_recording_start(&options, &error), nullptr);
  EXPECT_STREQ(error, "Cannot write to '/dev/full': No space left on device.");
}

// ---- many threads -----------------------------------------------------------------------------

// Waits for the drain so that this thread's ring never fills up.
void let_the_drain_catch_up() {
  constexpr std::uint64_t kFew = 1'000;
  EXPECT_TRUE(wait_until([] { return unread_events() < kFew || api().is_recording() == 0; }));
}

// Allocates and frees at its own addresses and occasionally frees another thread's memory.
struct Hammer {
  explicit Hammer(std::uint64_t seed) : random(seed), base((seed + 1) << 32) {}

  void run(int events) {
    plimsoll_context* context = api().context();
    for (int i = 0; i < events; ++i) {
      if (live.empty() || random() % 5 < 3) {
        const std::uint64_t address = base + 64 * (random() % 4096);
        if (at[(address - base) / 64]) continue;
        const std::uint64_t size = 1 + random() % 1000;
        at[(address - base) / 64] = true;
        live.push_back({address, size});
        bytes += size;
        ++allocs;
        api().alloc(context, 0, address, size);
      } else {
        const std::size_t which = random() % live.size();
        const auto [address, size] = live[which];
        live[which] = live.back();
        live.pop_back();
        api().free(context, 0, address);
        at[(address - base) / 64] = false;
        bytes -= size;
        ++frees;
      }
      if (i % 100 == 99) let_the_drain_catch_up();
    }
  }

  std::mt19937_64 random;
  std::uint64_t base;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> live;
  std::vector<bool> at = std::vector<bool>(4096);
  std::uint64_t bytes = 0;
  std::uint64_t allocs = 0;
  std::uint64_t frees = 0;
};

TEST(RecorderThreads, totals_match_a_reference) {
  constexpr int kThreads = 8;
  constexpr int kEvents = 10'000;
  const TemporaryPath path("recorder_totals");
  Recorded recording = Recorded::into_file(path.str());
  std::atomic<bool> has_midway{false};
  std::vector<std::unique_ptr<Hammer>> hammers;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    hammers.push_back(std::make_unique<Hammer>(i));
    threads.emplace_back([&, &hammer = *hammers.back()] {
      hammer.run(kEvents / 2);
      has_midway.wait(false);
      hammer.run(kEvents / 2);
    });
  }
  EXPECT_TRUE(wait_until([&] { return recording.state().events >= kEvents; }));
  const auto midway = std::make_unique<Recorded>(Recorded::in_memory());
  has_midway = true;
  has_midway.notify_all();
  for (std::thread& thread : threads) thread.join();

  std::uint64_t bytes = 0, allocs = 0, frees = 0, count = 0;
  for (const auto& hammer : hammers) {
    bytes += hammer->bytes;
    allocs += hammer->allocs;
    frees += hammer->frees;
    count += hammer->live.size();
  }
  const TraceReplay second = midway->replay();
  const plimsoll_recording_state state = recording.stop();
  const TraceReplay replay = TraceReplay::of_file(path.str());
  ASSERT_EQ(state.dropped, 0u);
  EXPECT_EQ(state.live_bytes, bytes);
  EXPECT_EQ(state.replaced, 0u);
  EXPECT_EQ(state.unmatched, 0u);
  EXPECT_EQ(replay.allocs.size(), allocs);
  EXPECT_EQ(replay.frees.size(), frees);
  EXPECT_EQ(replay.live_bytes, bytes);
  EXPECT_EQ(replay.live.size(), count);
  EXPECT_THAT(replay.violations, IsEmpty());
  EXPECT_EQ(second.live_bytes, bytes);
  EXPECT_EQ(second.live.size(), count);
  EXPECT_EQ(second.unmatched, 0u);
  EXPECT_THAT(second.violations, IsEmpty());
}

// Memory moves from thread to thread: the next thread reuses it immediately after a free. Only one
// order of the events is right; any other shows as a replaced or unmatched allocation.
void pass_memory_on(int rounds) {
  constexpr int kThreads = 4;
  const Recorded recording = Recorded::in_memory();
  std::atomic<int> turn{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      plimsoll_context* context = api().context();
      for (int round = 0; round < rounds; ++round) {
        int now = 0;
        while ((now = turn.load(std::memory_order_acquire)) % kThreads != i) turn.wait(now);
        if (turn.load(std::memory_order_relaxed) > 0) api().free(context, 0, 4096);
        api().alloc(context, 0, 4096, 64);
        turn.fetch_add(1, std::memory_order_release);
        turn.notify_all();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const plimsoll_recording_state state = recording.state();
  EXPECT_EQ(state.replaced, 0u);
  EXPECT_EQ(state.unmatched, 0u);
  EXPECT_EQ(state.live_bytes, 64u);
}

TEST(RecorderThreads, a_free_comes_before_the_allocation_that_reuses_its_memory) {
  pass_memory_on(250);
}

TEST(RecorderThreads, slow_a_free_comes_before_the_allocation_that_reuses_its_memory) {
  pass_memory_on(20'000);
}

thread_local struct AtTheEnd {
  ~AtTheEnd() {
    if (address != 0) api().free(api().context(), 0, address);
  }
  std::uint64_t address = 0;
} at_the_end;

TEST(RecorderThreads, frees_of_an_exiting_thread_are_recorded) {
  const Recorded recording = Recorded::in_memory();
  for (std::uint64_t i = 1; i <= 100; ++i) {
    std::thread([i] {
      at_the_end.address = i * 64;
      alloc(i * 64, 10);
    }).join();
  }
  const TraceReplay replay = recording.replay();
  EXPECT_THAT(replay.allocs, SizeIs(100));
  EXPECT_THAT(replay.frees, SizeIs(100));
  EXPECT_EQ(replay.live_bytes, 0u);
}

pthread_key_t late_key;

TEST(RecorderThreads, frees_in_the_last_round_of_destructors_are_recorded) {
  const Recorded recording = Recorded::in_memory();
  // Created after the recorder's key, so its destructor runs after the recorder's in each round. It
  // reruns as often as the system allows.
  ASSERT_EQ(pthread_key_create(&late_key,
                               [](void* rounds) {
                                 free_at(64);
                                 alloc(64, 10);
                                 int& left = *static_cast<int*>(rounds);
                                 if (--left > 0) pthread_setspecific(late_key, &left);
                               }),
            0);
  int rounds = 10;
  std::thread([&rounds] {
    alloc(64, 10);
    pthread_setspecific(late_key, &rounds);
  }).join();
  pthread_key_delete(late_key);
  const TraceReplay replay = recording.replay();
  EXPECT_THAT(replay.allocs, SizeIs(1 + PTHREAD_DESTRUCTOR_ITERATIONS));
  EXPECT_THAT(replay.violations, IsEmpty());
}

TEST(RecorderThreads, recordings_can_start_and_stop_while_others_allocate) {
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      Hammer hammer(static_cast<std::uint64_t>(i));
      while (!is_over.load(std::memory_order_relaxed)) hammer.run(1'000);
    });
  }
  for (int round = 0; round < 10; ++round) {
    const TemporaryPath path("recorder_restart");
    Recorded outer = Recorded::into_file(path.str());
    Recorded inner = Recorded::in_memory(1'000);
    const std::uint64_t before = inner.state().events;
    EXPECT_TRUE(wait_until([&] { return inner.state().events >= before + 2'000; }));
    const TraceReplay replay = inner.replay();
    EXPECT_THAT(replay.violations, IsEmpty());
    inner.stop();
    const plimsoll_recording_state state = outer.stop();
    const TraceReplay whole = TraceReplay::of_file(path.str());
    EXPECT_THAT(whole.violations, IsEmpty());
    EXPECT_EQ(whole.live_bytes, state.live_bytes);
    EXPECT_TRUE(whole.is_ended);
  }
  is_over = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(RecorderThreads, names_are_interned_across_threads) {
  const Recorded recording = Recorded::in_memory();
  std::vector<std::vector<std::uint32_t>> ids(4);
  std::vector<std::thread> threads;
  for (auto& mine : ids) {
    threads.emplace_back([&mine] {
      for (int i = 0; i < 2'000; ++i) mine.push_back(name("shared." + std::to_string(i)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& mine : ids) EXPECT_EQ(mine, ids[0]);
  EXPECT_EQ(recording.replay().names.at(ids[0][7]), "shared.7");
}

TEST(RecorderThreads, a_full_ring_drops_and_counts) {
  Recorded recording = Recorded::in_memory();
  constexpr std::uint64_t kAllocs = 3'000'000;
  plimsoll_context* context = here();
  std::uint64_t i = 0;
  {
    const auto paused = Recorder::get().pause_drain();
    while (i < kRingEvents) api().alloc(context, 0, ++i * 64, 1);
  }
  EXPECT_EQ(recording.state().dropped, kRingEvents / 8);  // slots reserved for other events
  while (i < kAllocs) api().alloc(context, 0, ++i * 64, 1);
  const TraceReplay replay = recording.replay();
  const plimsoll_recording_state state = recording.state();
  EXPECT_EQ(replay.allocs.size() + replay.dropped, kAllocs);
  EXPECT_EQ(state.dropped, replay.dropped);
  EXPECT_EQ(state.live_bytes, replay.allocs.size());
}

TEST(Recorder, attaches_what_another_tool_recorded) {
  const tests::TemporaryPath path("attached");
  Recorded recording = Recorded::into_file(path.str());
  const std::vector<char> large((64 << 20) + 1);
  EXPECT_EQ(plimsoll_recording_attach(recording.get(), "torch_snapshot", large.data(), 3), 0);
  EXPECT_EQ(
      plimsoll_recording_attach(recording.get(), "torch_snapshot", large.data(), large.size()),
      EFBIG);
  EXPECT_EQ(plimsoll_recording_attach(recording.get(), nullptr, large.data(), 3), EINVAL);
  EXPECT_EQ(plimsoll_recording_attach(recording.get(), "torch_snapshot", nullptr, 3), EINVAL);
  EXPECT_EQ(plimsoll_recording_attach(nullptr, "torch_snapshot", large.data(), 3), ECANCELED);
  api().alloc(api().context(), 0, 64, 7);
  recording.stop();
  const TraceReplay replay = TraceReplay::of_file(path.str());
  EXPECT_TRUE(replay.is_ended);
  EXPECT_EQ(replay.damaged_blocks, 0u);
  EXPECT_EQ(replay.live_bytes, 7u);
}

// The listener must get every range so that ranges stay paired.
TEST(RecorderThreads, a_full_ring_does_not_hide_ranges_from_the_listener) {
  static std::uint64_t reported;
  reported = 0;
  static constexpr plimsoll_range_listener kListener = {
      [](std::uint8_t, std::uint32_t) { ++reported; }, [](std::uint8_t, std::uint32_t) {},
      [](std::uint64_t) {}};
  const Recorded recording = Recorded::in_memory();
  plimsoll_listen_to_ranges(&kListener);
  plimsoll_context* context = here();
  const std::uint32_t region = name("region");
  constexpr std::uint64_t kDropped = 1'000;
  {
    const auto paused = Recorder::get().pause_drain();
    for (std::uint64_t i = 0; i < kRingEvents + kDropped; ++i)
      api().mark(context, PLIMSOLL_MARK_REGION_BEGIN, region);
  }
  plimsoll_listen_to_ranges(nullptr);
  EXPECT_EQ(recording.state().dropped, kDropped);
  EXPECT_EQ(reported, kRingEvents + kDropped);
}

}  // namespace
}  // namespace plimsoll::record

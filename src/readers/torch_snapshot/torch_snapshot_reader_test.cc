// Tests the reader with snapshots of each layout, in pieces of each size, and with pickles that
// PyTorch never writes. The pickles of full snapshots are the fuzzer's seeds, created by Python.
#include "readers/torch_snapshot/torch_snapshot_reader.h"

#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/diagnostics.h"
#include "readers/torch_snapshot/diagnostics.h"

namespace plimsoll::readers::torch_snapshot {
namespace {

using ::testing::HasSubstr;
using namespace std::string_view_literals;

struct Outcome {
  base::Diagnostics diagnostics;
  Result<model::Trace> trace = make_error(ErrorCode::kInternal, "not run");
};

Outcome read(std::string_view bytes, std::size_t piece = SIZE_MAX) {
  Outcome outcome;
  base::Progress progress;
  model::TraceBuilder builder(outcome.diagnostics);
  ReadContext context{builder, outcome.diagnostics, progress, Limits{}};
  auto source = view_memory(std::as_bytes(std::span(bytes)), piece);
  if (Status status = make()->read(*source, context); !status) {
    outcome.trace = std::move(status).error();
  } else {
    outcome.trace = builder.finish("torch_snapshot", progress);
  }
  return outcome;
}

std::string seed(const std::string& name) {
  std::ifstream file(PLIMSOLL_SOURCE_DIR "/tests/fuzz/corpus/" + name, std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

// The observable result of reading, as text.
std::string picture(const model::Trace& trace) {
  std::string text;
  auto say = [&](auto value) { text += std::to_string(value) + " "; };
  for (std::size_t row = 0; row < trace.event_count(); ++row) {
    const model::Event event = trace.event(trace.devices.at(0), row);
    text += std::string(to_string(event.action)) + " ";
    say(event.address), say(event.size_bytes), say(event.time_ns), say(event.pool.value);
    for (model::FrameId id : trace.stacks.frames(event.stack)) {
      text += trace.strings[trace.stacks.frame(id).file];
      say(trace.stacks.frame(id).line);
    }
    text += "\n";
  }
  for (const model::Block& block : trace.blocks) {
    say(block.address), say(block.size), say(block.requested_size),
        say(static_cast<int>(block.state));
    say(trace.stacks.frames(block.stack).size());
    text += "\n";
  }
  for (const model::Setting& setting : trace.settings) text += setting.name + "\n";
  for (const model::Annotation& note : trace.annotations) say(note.begin_ns), say(note.end_ns);
  return text;
}

std::string error_of(std::string_view bytes) {
  const Outcome outcome = read(bytes);
  return outcome.trace.ok() ? "no error" : outcome.trace.error().message;
}

TEST(TorchSnapshotReader, any_protocol_and_any_chunking_gives_the_same_trace) {
  const Outcome whole = read(seed("snapshot/python_4.pickle"));
  ASSERT_TRUE(whole.trace.ok()) << whole.trace.error().message;
  EXPECT_EQ(whole.trace->event_count(), 7U);
  const std::string expected = picture(*whole.trace);
  for (const char* name :
       {"snapshot/python_2.pickle", "snapshot/python_3.pickle", "snapshot/python_4.pickle",
        "snapshot/python_5.pickle", "snapshot/page.html"}) {
    const std::string bytes = seed(name);
    for (std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{4096}}) {
      const Outcome outcome = read(bytes, piece);
      ASSERT_TRUE(outcome.trace.ok()) << name << ": " << outcome.trace.error().message;
      EXPECT_EQ(picture(*outcome.trace), expected) << name << " in pieces of " << piece;
    }
  }
}

TEST(TorchSnapshotReader, every_truncation_is_one_clear_error) {
  for (const char* name :
       {"snapshot/python_2.pickle", "snapshot/python_4.pickle", "snapshot/page.html"}) {
    const std::string bytes = seed(name);
    const std::size_t end =
        std::string_view(name).ends_with("html") ? bytes.find("\"}]") : bytes.size();
    for (std::size_t len = 2; len < end; ++len) {
      const Outcome outcome = read(std::string_view(bytes).substr(0, len));
      ASSERT_FALSE(outcome.trace.ok()) << name << " cut at " << len;
      ASSERT_FALSE(outcome.trace.error().message.empty());
    }
  }
}

TEST(TorchSnapshotReader,
     blocks_of_torch_2_0_follow_each_other_and_take_size_and_stack_from_history) {
  const Outcome outcome = read(seed("snapshot/python_2_0.pickle"));
  ASSERT_TRUE(outcome.trace.ok()) << outcome.trace.error().message;
  const model::Trace& trace = *outcome.trace;
  ASSERT_EQ(trace.blocks.size(), 2U);
  EXPECT_EQ(trace.blocks[0].address, 4096U);
  EXPECT_EQ(trace.blocks[0].requested_size, 500U);
  EXPECT_EQ(trace.stacks.frames(trace.blocks[0].stack).size(), 2U);
  EXPECT_EQ(trace.blocks[1].address, 4096U + 512U);
  EXPECT_EQ(trace.devices[0].history, model::History::kNoEvents);
}

TEST(TorchSnapshotReader, a_bare_list_of_segments_is_a_snapshot) {
  const Outcome outcome = read(seed("snapshot/segments_only.pickle"));
  ASSERT_TRUE(outcome.trace.ok()) << outcome.trace.error().message;
  EXPECT_EQ(outcome.trace->segments.size(), 1U);
  EXPECT_FALSE(outcome.trace->has_settings);
}

TEST(TorchSnapshotReader, code_is_rejected_by_name) {
  const Outcome outcome = read(seed("pickle/os_system_4.pickle"));
  ASSERT_FALSE(outcome.trace.ok());
  EXPECT_EQ(outcome.trace.error().code, ErrorCode::kUnsafe);
  EXPECT_THAT(outcome.trace.error().message, HasSubstr("posix.system"));
  EXPECT_THAT(error_of(seed("pickle/os_system_2.pickle")), HasSubstr("os.system"));
}

TEST(TorchSnapshotReader, false_sizes_are_rejected_before_memory_is_allocated) {
  EXPECT_THAT(error_of(seed("pickle/lying_length.pickle")),
              HasSubstr("a string of 9223372036854775807 bytes"));
  EXPECT_THAT(error_of("\x80\x04X\xff\xff\xff\x03short"), HasSubstr("truncated"));
  EXPECT_THAT(error_of(seed("pickle/far_memo.pickle")), HasSubstr("memo number 4294967295"));
  EXPECT_THAT(error_of("\x80\x04" + std::string(1'100'000, ']')),
              HasSubstr("containers are open simultaneously"));
  EXPECT_THAT(error_of("\x80\x04" + std::string(1'100'000, '(')), HasSubstr("MARK"));
}

TEST(TorchSnapshotReader, a_container_that_contains_itself_is_rejected) {
  EXPECT_THAT(error_of(seed("pickle/recursive.pickle")), HasSubstr("contains itself"));
}

TEST(TorchSnapshotReader, plain_data_of_another_kind_is_reported_as_such) {
  EXPECT_THAT(error_of(seed("pickle/values_4.pickle")),
              HasSubstr("a list, but not of a memory snapshot's segments"));
  EXPECT_THAT(error_of("\x80\x04K\x01."), HasSubstr("neither a dict nor a list"));
  EXPECT_THAT(error_of("\x80\x04}."), HasSubstr("has no memory snapshot"));
  EXPECT_THAT(error_of("\x80\x06K\x01."), HasSubstr("protocol 6"));
}

// {'device_traces': [[e, e]]}, where e was filled key by key and is in the list twice.
constexpr std::string_view kSharedEvent =
    "\x80\x02}q\x00X\x0d\x00\x00\x00"
    "device_traces"
    "]]"
    "}q\x01X\x06\x00\x00\x00"
    "action"
    "X\x05\x00\x00\x00"
    "alloc"
    "s"
    "X\x04\x00\x00\x00"
    "addr"
    "M\x00\x02"
    "s"
    "X\x04\x00\x00\x00"
    "size"
    "K\x08"
    "s"
    "ah\x01"
    "a"
    "as."sv;

TEST(TorchSnapshotReader, an_event_listed_twice_is_two_events) {
  const Outcome outcome = read(kSharedEvent);
  ASSERT_TRUE(outcome.trace.ok()) << outcome.trace.error().message;
  EXPECT_EQ(outcome.trace->devices[0].events.size(), 2U);
  EXPECT_EQ(outcome.diagnostics.count(model::kAllocOverLive), 1U);
  EXPECT_EQ(outcome.diagnostics.count(kMissingKey), 1U);  // 'segments'
}

// {'device_traces': [[event]], 'allocator_settings': {'trace_alloc_overflowed': True}}
constexpr std::string_view kOverflowed =
    "\x80\x02}X\x0d\x00\x00\x00"
    "device_traces"
    "]]}X\x06\x00\x00\x00"
    "action"
    "X\x05\x00\x00\x00"
    "alloc"
    "saasX\x12\x00\x00\x00"
    "allocator_settings"
    "}X\x16\x00\x00\x00"
    "trace_alloc_overflowed"
    "\x88ss."sv;

TEST(TorchSnapshotReader, an_overflowed_ring_is_a_truncated_history) {
  const Outcome outcome = read(kOverflowed);
  ASSERT_TRUE(outcome.trace.ok()) << outcome.trace.error().message;
  EXPECT_EQ(outcome.trace->devices.at(0).history, model::History::kTruncated);
}

}  // namespace
}  // namespace plimsoll::readers::torch_snapshot

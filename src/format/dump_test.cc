#include "format/dump.h"

#include <bit>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "format/encoder.h"
#include "tests/support/random_events.h"
#include "tests/support/trace_file.h"

namespace plimsoll::format {
namespace {

using tests::TraceFile;

std::string dumped(std::span<const std::byte> bytes, std::size_t piece = SIZE_MAX) {
  std::string text;
  Dump dump([&](std::string_view lines) { text += lines; });
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(piece, bytes.size()));
    if (!dump.push(part)) return "error: " + dump.error();
    bytes = bytes.subspan(part.size());
  }
  return dump.finish() ? text : "error: " + dump.error();
}

// The example in docs/format.md.
TraceFile example() {
  TraceFile file;
  const auto state = encode_file_state({.state = RecordingState::kEnded,
                                        .time_ns = 1'000'003'000,
                                        .written_until_ns = 1'000'003'000,
                                        .events = 10,
                                        .longest_wait_ns = 104'000'000});
  file.write({.kind = BlockKind::kFileState, .events = 0, .bytes = state});
  Encoder encoder(file);
  encoder.process({.pid = 4711, .rank = 0, .started_ns = 1'000'000'000});
  encoder.meta("adapter", "libtorch");
  encoder.define_device(0, {.type = 0, .ordinal = 0});
  encoder.define_name(1, "Net.fc");
  encoder.define_name(2, "aten::linear");
  encoder.define_name(3, "train.py");
  encoder.define_name(4, "step");
  encoder.define_stack(1, std::vector<Frame>{{.file = 3, .function = 4, .line = 12}});
  encoder.define_site(
      1, {.layer = 1, .outer_op = 2, .inner_op = 2, .forward_op = 0, .stack = 1, .phase = 1});
  encoder.define_device(1, {.type = 1, .ordinal = 0});
  encoder.define_site(2, {.layer = 1, .outer_op = 2, .device = 1, .stream = 7});
  encoder.define_name(5, "max_split_size");
  encoder.setting({.name = 5, .type = 1, .value = ~std::uint64_t{0}});
  encoder.alloc({1'000'000'500, 1, 1, 7, 0x7f0000001000, 4096, false});
  encoder.alloc({1'000'000'900, 1, 1, 8, 0x7f0000002040, 4096, false});
  encoder.free({1'000'001'000, 1, 8, 0, true});
  encoder.mark({1'000'001'050, 1, 0, 1});
  encoder.free({1'000'002'000, 2, 7, 0, false});
  encoder.segment({1'000'002'100, 2, 2, 0, 1, 0x7f1000000000, 2 << 20});
  encoder.alloc({1'000'002'200, 2, 2, 9, 0x7f1000000000, 4000, false, 96});
  encoder.free_requested({1'000'002'300, 2, 9, false});
  encoder.free({1'000'002'900, 2, 9, 0, false});
  encoder.out_of_memory({1'000'002'950, 2, 2, 1u << 30, 1 << 20, 1u << 31, 1u << 31});
  encoder.finish(1'000'003'000);
  return file;
}

std::string hex_of(std::span<const std::byte> bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    constexpr std::string_view kHex = "0123456789abcdef";
    const auto byte = std::to_integer<unsigned>(bytes[i]);
    text += kHex[byte >> 4];
    text += kHex[byte & 0xF];
    text += i % 16 == 15 || i + 1 == bytes.size() ? '\n' : ' ';
  }
  return text;
}

// The text between ```LANGUAGE and ``` in docs/format.md.
std::string documented(const std::string& language) {
  std::ifstream file(PLIMSOLL_SOURCE_DIR "/docs/format.md");
  std::stringstream stream;
  stream << file.rdbuf();
  const std::string text = stream.str();
  const std::string fence = "```" + language + "\n";
  const std::size_t begin = text.find(fence);
  if (begin == std::string::npos) return "docs/format.md has no " + fence;
  const std::size_t first = begin + fence.size();
  return text.substr(first, text.find("```", first) - first);
}

TEST(Dump, the_documented_example_matches_the_encoder_and_the_dump) {
  const TraceFile file = example();
  EXPECT_EQ(documented("hex"), hex_of(file.bytes()));
  EXPECT_EQ(documented("dump"), dumped(file.bytes()));
}

TEST(Dump, reports_every_kind_of_record) {
  TraceFile file;
  Encoder encoder(file);
  encoder.meta("a\nb", "\"\xff\\");
  encoder.define_tensor(5, {1, 2, 3, 4});
  encoder.define_tensor(6, {77, 0, 0, 0});
  encoder.define_device(1, {1, 3});
  encoder.define_stack(2, {});
  encoder.alloc({-5, 1, 0, 3, 0, 0, true});
  encoder.free({10, 2, kNoSerial, 0xabc, false});
  encoder.tag({3, 5});
  encoder.set_phase({3, 2});
  encoder.set_phase({3, 9});
  encoder.mark({4, 2, 3, 0});
  encoder.mark({4, 2, 99, 0});
  encoder.dropped({4, 2, 17});
  encoder.evicted({18});
  encoder.define_site(3, {.device = 1, .stream = 5, .pool = 6});
  encoder.define_site(4, {.phase = 1, .autograd = 3});
  encoder.alloc({4, 2, 3, 4, 0x200, 500, false, 12});
  encoder.alloc({4, 2, 3, 5, 0x400, 500, false, ~std::uint64_t{0}});
  encoder.free_requested({4, 2, 4, true});
  encoder.segment({4, 2, 3, 3, 1, 0xab, 77});
  encoder.segment({4, 2, 3, 9, 1, 0xab, 77});
  encoder.out_of_memory({4, 2, 3, 1, 2, 3, 4});
  encoder.device_figure({5, 1, 6, 1 << 30, 77, 2});
  encoder.device_figure({6, 1, 1, 100});
  encoder.holder_walk({7, 1, 1000, 20, 5});
  encoder.holder_link({0, 5, 2, 3, 4, 12, 30, 0});
  encoder.held({3, 1});
  encoder.holder_cut({1, 0, 2, 500, 1, 100, 1});
  encoder.setting({7, 0, 1});
  encoder.setting({8, 2, std::bit_cast<std::uint64_t>(0.8)});
  encoder.setting({9, 3, 5});
  encoder.setting({9, 99, 5});
  encoder.notice({1, 2, 300, 4});
  encoder.notice({77, 0, 0, 0});
  encoder.function({1, 2, 30});
  encoder.module({3, 4, 500});
  encoder.source_line({1, 32, 0xabc, "x = \"\xff\""});
  encoder.flush();
  EXPECT_EQ(dumped(file.bytes()),
            "plimsoll trace version=3 readable_from=2\n"
            "block at=16 kind=definitions events=0 bytes=153\n"
            "meta key=\"a\\x0ab\" value=\"\\x22\\xff\\x5c\"\n"
            "tensor id=5 role=parameter name=2 dtype=3 shape=4\n"
            "tensor id=6 role=77 name=0 dtype=0 shape=0\n"
            "device id=1 type=cuda ordinal=3\n"
            "stack id=2 frames=\n"
            "site id=3 layer=0 outer_op=0 inner_op=0 forward_op=0 stack=0 phase=other device=1 "
            "stream=5 pool=6\n"
            "site id=4 layer=0 outer_op=0 inner_op=0 forward_op=0 stack=0 phase=forward device=0 "
            "autograd=built\n"
            "setting name=7 type=boolean value=1\n"
            "setting name=8 type=number value=0.8\n"
            "setting name=9 type=text value=5\n"
            "setting name=9 type=99 value=5\n"
            "notice what=sizes_corrected device=2 count=300 text=4\n"
            "notice what=77 device=0 count=0 text=0\n"
            "function file=1 name=2 first_line=30\n"
            "module path=3 type=4 parameter_bytes=500\n"
            "source_line file=1 line=32 hash=0xabc text=\"x = \\x22\\xff\\x22\"\n"
            "block at=169 kind=events events=21 bytes=149\n"
            "adopt serial=3 time=-5 thread=1 site=0 address=0x0 size=0\n"
            "free time=10 thread=2 address=0xabc\n"
            "tag serial=3 tensor=5\n"
            "set_phase serial=3 phase=backward\n"
            "set_phase serial=3 phase=9\n"
            "mark time=4 thread=2 kind=backward_begin value=0\n"
            "mark time=4 thread=2 kind=99 value=0\n"
            "dropped time=4 thread=2 count=17\n"
            "evicted count=18\n"
            "alloc serial=4 time=4 thread=2 site=3 address=0x200 size=500 padding=12\n"
            "alloc serial=5 time=4 thread=2 site=3 address=0x400 size=500 padding=-1\n"
            "free_requested serial=4 time=4 thread=2 in_op\n"
            "segment time=4 thread=2 site=3 action=unmap device=1 address=0xab size=77\n"
            "segment time=4 thread=2 site=3 action=9 device=1 address=0xab size=77\n"
            "out_of_memory time=4 thread=2 site=3 size=1 device_free=2 limit=3 device_total=4\n"
            "device_figure time=5 device=1 figure=process value=1073741824 pid=77 name=2\n"
            "device_figure time=6 device=1 figure=free value=100\n"
            "holder_walk time=7 end=objects objects=1000 nodes=20 duration=5\n"
            "holder_link parent=0 kind=attribute name=2 type=3 file=4 line=12 length=30 limit=0\n"
            "held serial=3 link=1\n"
            "holder_cut link=1 other=0 freed_count=2 freed_bytes=500 left_count=1 left_bytes=100 "
            "is_native=1\n"
            "cut bytes=0 events=0\n");
}

TEST(Dump, does_not_depend_on_how_the_file_is_split) {
  const TraceFile file = tests::RandomRecording(4, 1'000).file();
  const std::string whole = dumped(file.bytes());
  for (const std::size_t piece : {1U, 5U, 100U}) EXPECT_EQ(dumped(file.bytes(), piece), whole);
}

TEST(Dump, reports_damage_and_rejects_files_that_are_not_traces) {
  const TraceFile file = example();
  std::vector<std::byte> bytes = file.bytes();
  bytes[bytes.size() / 2] ^= std::byte{4};
  EXPECT_NE(dumped(bytes).find("damaged blocks=1"), std::string::npos);
  EXPECT_NE(dumped(std::span(bytes).first(bytes.size() - 1)).find("cut bytes="), std::string::npos);
  EXPECT_EQ(dumped(std::vector<std::byte>(100)), "error: this is not a trace file of Plimsoll");
  EXPECT_EQ(dumped({}), "error: this is not a trace file of Plimsoll");
}

}  // namespace
}  // namespace plimsoll::format

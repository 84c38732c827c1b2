// The bytes of every kind of record, frozen by a checksum: a change to the record spec or the
// encoder that changes files fails here, even if the result still round-trips.
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "format/checksum.h"
#include "format/encoder.h"
#include "format/file_state.h"
#include "tests/support/trace_file.h"

namespace plimsoll::format {
namespace {

// A random generator for this test alone, because its sequence is part of what is frozen.
class Numbers {
 public:
  std::uint64_t next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return state_ >> 11;
  }
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  // Small and extreme values are as likely as those in between.
  std::uint64_t u64() {
    const std::uint64_t high = next();
    const std::uint64_t number = high << 40 ^ next();
    const std::uint64_t choice = below(5);
    if (choice == 0) return number % 4;
    if (choice == 1) return ~(number % 4);
    return number >> below(64);
  }
  std::uint32_t u32() { return static_cast<std::uint32_t>(u64()); }
  std::uint8_t u8() { return static_cast<std::uint8_t>(u64()); }
  std::int64_t i64() { return static_cast<std::int64_t>(u64()); }

 private:
  std::uint64_t state_ = 14;
};

void define_any(Encoder& encoder, Numbers& any) {
  encoder.process({.pid = any.u64(), .rank = any.i64(), .started_ns = any.i64()});
  encoder.meta("key", "value");
  encoder.define_name(any.u32(), "name");
  std::vector<Frame> frames(any.below(4));
  for (Frame& frame : frames) {
    frame.file = any.u32();
    frame.line = any.u32();
  }
  encoder.define_stack(any.u32(), frames);
  Site site{.layer = any.u32(), .outer_op = any.u32(), .inner_op = any.u32()};
  site.forward_op = any.u32();
  site.stack = any.u32();
  site.phase = any.u8();
  site.device = any.u8();
  if (any.below(2) == 0) site.stream = any.u64();
  if (any.below(2) == 0) site.pool = any.u32();
  encoder.define_site(any.u32(), site);
  Tensor tensor{.role = any.u8(), .name = any.u32()};
  tensor.dtype = any.u32();
  tensor.shape = any.u32();
  encoder.define_tensor(any.u32(), tensor);
  Device device{.type = any.u8()};
  device.ordinal = static_cast<std::int32_t>(any.u32());
  encoder.define_device(any.u8(), device);
  for (std::uint8_t type = 0; type < 5; ++type) {
    Setting setting{.name = any.u32(), .type = type};
    setting.value = any.u64();
    encoder.setting(setting);
  }
  Notice notice{.notice = any.u8(), .device = any.u8()};
  notice.count = any.u64();
  notice.text = any.u32();
  encoder.notice(notice);
}

void write_memory_event(Encoder& encoder, Numbers& any, std::int64_t time_ns,
                        std::uint32_t thread) {
  if (any.below(2) == 0) {
    Alloc alloc{.time_ns = time_ns, .thread = thread};
    alloc.site = static_cast<std::uint32_t>(any.below(50));
    alloc.serial = any.u64();
    alloc.address = any.below(2) == 0 ? 64 * any.below(1000) : any.u64();
    alloc.size_bytes = any.below(2) == 0 ? 4096 : any.u64();
    alloc.is_adopted = any.below(2) == 0;
    alloc.padding_bytes = any.below(2) == 0 ? 0 : any.u64();
    return encoder.alloc(alloc);
  }
  const bool is_request = any.below(3) == 0;
  const std::uint64_t serial = any.u64();
  const bool in_op = any.below(2) == 0;
  if (is_request) return encoder.free_requested({time_ns, thread, serial, in_op});
  encoder.free({time_ns, thread, serial, any.u64(), in_op});
}

void write_other_event(Encoder& encoder, Numbers& any, std::int64_t time_ns, std::uint32_t thread) {
  switch (any.below(8)) {
    case 0: {
      Segment segment{.time_ns = time_ns, .thread = thread, .site = any.u32()};
      segment.action = any.u8();
      segment.device = any.u8();
      segment.address = any.u64();
      segment.size_bytes = any.u64();
      return encoder.segment(segment);
    }
    case 1: {
      OutOfMemory failed{.time_ns = time_ns, .thread = thread, .site = any.u32()};
      failed.size_bytes = any.u64();
      failed.device_free_bytes = any.u64();
      failed.limit_bytes = any.u64();
      failed.device_total_bytes = any.u64();
      return encoder.out_of_memory(failed);
    }
    case 2: {
      DeviceFigure figure{.time_ns = time_ns, .device = any.u8()};
      figure.figure = any.u8();
      figure.value = any.u64();
      figure.pid = any.u32();
      figure.name = any.u32();
      return encoder.device_figure(figure);
    }
    case 3: {
      Tag tag{.serial = any.u64()};
      tag.tensor = any.u32();
      return encoder.tag(tag);
    }
    case 4: {
      SetPhase set{.serial = any.u64()};
      set.phase = any.u8();
      return encoder.set_phase(set);
    }
    case 5: {
      Mark mark{.time_ns = time_ns, .thread = thread, .kind = any.u8()};
      mark.value = any.u64();
      return encoder.mark(mark);
    }
    case 6:
      return encoder.dropped({time_ns, thread, any.u64()});
    default:
      return encoder.evicted({any.u64()});
  }
}

// Times advance as in a program, and sometimes go backwards or to any time.
std::int64_t time_after(std::int64_t time_ns, Numbers& any) {
  const std::uint64_t choice = any.below(20);
  if (choice == 0) return any.i64();
  const std::uint64_t step = choice == 1 ? ~any.below(1000) : any.below(1000);
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(time_ns) + step);
}

TEST(FrozenBytes, of_all_definitions_and_events_are_unchanged) {
  tests::TraceFile file;
  Encoder encoder(file);
  Numbers any;
  std::int64_t time_ns = 1'700'000'000'000'000'000;
  for (int round = 0; round < 2'000; ++round) {
    if (round % 10 == 0) define_any(encoder, any);
    time_ns = time_after(time_ns, any);
    const std::uint32_t thread = any.below(4) == 0 ? any.u32() : 1;
    write_memory_event(encoder, any, time_ns, thread);
    write_other_event(encoder, any, time_ns, thread);
    if (any.below(300) == 0) encoder.flush();
  }
  encoder.attachment("torch_snapshot", std::vector<std::byte>(300'000, std::byte{0x5A}));
  encoder.finish(time_ns);
  EXPECT_EQ(file.bytes().size(), 394'707u);
  EXPECT_EQ(checksum(file.bytes()), 2'347'187'907u);
}

TEST(FrozenBytes, of_the_programs_source_and_modules_are_unchanged) {
  tests::TraceFile file;
  Encoder encoder(file);
  Numbers any;
  for (int round = 0; round < 100; ++round) {
    const Function function{.file = any.u32(), .name = any.u32(), .first_line = any.u32()};
    encoder.function(function);
    const Module module{.path = any.u32(), .type = any.u32(), .parameter_bytes = any.u64()};
    encoder.module(module);
    const std::uint64_t hash = any.u64();
    encoder.source_line({any.u32(), 7, hash, any.below(2) == 0 ? "" : "x = f(y)"});
  }
  encoder.finish(5);
  EXPECT_EQ(checksum(file.bytes()), 1'678'741'095u);
}

TEST(FrozenBytes, of_the_recording_state_are_unchanged) {
  std::vector<std::byte> bytes;
  Numbers any;
  for (std::uint8_t state = 1; state <= 3; ++state) {
    FileState reported{.state = static_cast<RecordingState>(state), .error = any.u32()};
    reported.time_ns = any.i64();
    reported.written_until_ns = any.i64();
    reported.events = any.u64();
    reported.missing = any.u64();
    reported.evicted = any.u64();
    reported.evicted_until_ns = any.i64();
    reported.longest_wait_ns = any.u64();
    const auto block = encode_file_state(reported);
    bytes.insert(bytes.end(), block.begin(), block.end());
  }
  EXPECT_EQ(checksum(bytes), 2'573'364'377u);
}

}  // namespace
}  // namespace plimsoll::format

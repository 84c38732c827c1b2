// Recordings with attachments, intact and hostile, through the engine's public interface.
#include "engine/attachments.h"

#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "engine/load.h"
#include "format/encoder.h"
#include "tests/support/trace_difference.h"
#include "tests/support/trace_file.h"

namespace plimsoll::engine {
namespace {

using tests::TraceFile;

using Bytes = std::vector<std::byte>;

// Values from plimsoll/recorder_c.h.
constexpr std::uint8_t kTypeCuda = 1, kPhaseForward = 1, kRoleBuffer = 4;

Bytes snapshot() {
  std::ifstream file(PLIMSOLL_SOURCE_DIR "/tests/fuzz/corpus/snapshot/python_4.pickle",
                     std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Bytes text_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// A gzip file that compresses nothing.
Bytes gzipped(const Bytes& bytes) {
  std::uint32_t crc = ~0u;
  for (const std::byte byte : bytes) {
    crc ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (0xEDB88320u & (0u - (crc & 1)));
  }
  const auto size = static_cast<std::uint32_t>(bytes.size());
  Bytes packed = text_bytes(std::string_view("\x1f\x8b\x08\0\0\0\0\0\0\xff\x01", 11));
  const auto put = [&](std::uint32_t value, int count) {
    for (; count > 0; --count, value >>= 8) packed.push_back(static_cast<std::byte>(value));
  };
  put(size, 2);
  put(~size, 2);
  packed.insert(packed.end(), bytes.begin(), bytes.end());
  put(~crc, 4);
  put(size, 4);
  return packed;
}

// One allocation on the CPU, one tensor on cuda:0, and the attachments.
Bytes recording(const std::vector<std::pair<std::string, Bytes>>& attachments) {
  TraceFile file;
  format::Encoder encoder(file);
  encoder.define_device(1, {.type = kTypeCuda, .ordinal = 0});
  encoder.define_name(1, "Net");
  encoder.define_site(1, {.layer = 1, .phase = kPhaseForward});
  encoder.define_site(2, {.layer = 1, .phase = kPhaseForward, .device = 1});
  encoder.define_tensor(1, {.role = kRoleBuffer});
  encoder.alloc({1'000, 1, 1, 0, 64, 100, false});
  encoder.alloc({4'500, 1, 2, 1, 139637976728576, 3000, false});
  encoder.tag({1, 1});
  for (const auto& [format, bytes] : attachments) encoder.attachment(format, bytes);
  encoder.finish(10'000);
  return file.bytes();
}

Loaded loaded(const Bytes& bytes) {
  base::Progress progress;
  auto result = load(bytes, "test", progress);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  return result.ok() ? std::move(*result) : Loaded{};
}

std::string first(const Loaded& loaded, std::string_view name) {
  for (const base::Diagnostic& each : loaded.diagnostics.all()) {
    if (name == each.kind->name) return "said " + each.first_example;
  }
  return {};
}

TEST(Attachments, history_replaces_the_tensors_of_its_device) {
  for (const Bytes& attached : {snapshot(), gzipped(snapshot())}) {
    const Loaded read = loaded(recording({{"torch_snapshot", attached}}));
    EXPECT_EQ(read.trace.format, "plimsoll");
    ASSERT_EQ(read.trace.devices.size(), 2u);
    const model::DeviceTrace& cuda = read.trace.devices[0];
    EXPECT_EQ(to_string(cuda.device), "cuda:0");
    ASSERT_EQ(cuda.events.size(), 7u);  // torch's own events
    EXPECT_TRUE(cuda.has_final_state);
    const model::Event buffer = read.trace.event(cuda, 2);
    EXPECT_EQ(read.trace.strings[read.trace.category(cuda, cuda.lifetimes.born_at(2))], "buffer");
    EXPECT_EQ(read.trace.strings[buffer.layer], "Net");
    EXPECT_EQ(read.trace.devices[1].events.size(), 1u);
    EXPECT_FALSE(read.trace.devices[1].has_final_state);
    EXPECT_TRUE(read.trace.has_settings);
    EXPECT_EQ(read.trace.annotations.size(), 1u);
    EXPECT_NE(first(read, "torch_history"), "");
  }
}

TEST(Attachments, the_last_one_counts) {
  const Loaded read = loaded(
      recording({{"torch_snapshot", text_bytes("\x80\x04}.")}, {"torch_snapshot", snapshot()}}));
  EXPECT_NE(first(read, "torch_history"), "");
  EXPECT_EQ(first(read, "attachment_unreadable"), "");
}

TEST(Attachments, one_that_cannot_be_read_leaves_the_recording_unchanged) {
  const Loaded without = loaded(recording({}));
  Bytes cut = snapshot();
  cut.resize(cut.size() / 2);
  // {'a': os.system} is rejected by name, as in every pickle.
  const Bytes hostile = text_bytes(
      "\x80\x02}X\x01\x00\x00\x00"
      "acos\nsystem\ns.");
  for (const Bytes& attached :
       {cut, hostile, gzipped(cut), Bytes{}, text_bytes("no pickle"), recording({}),
        recording({{"torch_snapshot", snapshot()}}), text_bytes("{\"traceEvents\": []}")}) {
    const Loaded read = loaded(recording({{"torch_snapshot", attached}}));
    EXPECT_NE(first(read, "attachment_unreadable"), "");
    EXPECT_EQ(first(read, "torch_history"), "");
    EXPECT_EQ(tests::TraceDifference::of(without.trace, read.trace), "");
  }
}

TEST(Attachments, of_an_unknown_format_are_skipped) {
  const Loaded read = loaded(recording({{"other", snapshot()}}));
  EXPECT_EQ(first(read, "attachment_of_unknown_format"), "said other");
  EXPECT_EQ(read.trace.devices[0].events.size(), 1u);
}

TEST(Attachments, a_truncated_one_is_reported) {
  Bytes bytes = recording({{"torch_snapshot", Bytes(format::kAttachmentPieceBytes * 2)}});
  bytes.resize(bytes.size() - format::kAttachmentPieceBytes);
  const Loaded read = loaded(bytes);
  EXPECT_EQ(first(read, "attachment_cut"), "said torch_snapshot");
  EXPECT_EQ(read.trace.event_count(), 2u);
}

}  // namespace
}  // namespace plimsoll::engine

#include "format/file_state.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "format/decoder.h"

namespace plimsoll::format {
namespace {

const FileState kFailed{.state = RecordingState::kFailed,
                        .error = 28,
                        .time_ns = -5,
                        .written_until_ns = 1'700'000'000'000'000'000,
                        .events = 622'599,
                        .missing = 622'586,
                        .evicted = 7,
                        .evicted_until_ns = 3,
                        .longest_wait_ns = 139'000'000};

TEST(FileState, round_trips) {
  const auto block = encode_file_state(kFailed);
  const auto head = read_block_head(block.data());
  ASSERT_TRUE(head.has_value());
  EXPECT_EQ(head->kind, BlockKind::kFileState);
  EXPECT_EQ(kBlockHeadBytes + head->payload_bytes, kFileStateBytes);
  EXPECT_EQ(read_file_state(std::span(block).subspan(kBlockHeadBytes)), kFailed);
}

TEST(FileState, of_a_later_version_is_read_as_far_as_known) {
  const auto block = encode_file_state(kFailed);
  std::vector<std::byte> payload(block.begin() + kBlockHeadBytes, block.end());
  payload.push_back(std::byte{9});
  EXPECT_EQ(read_file_state(payload), kFailed);
  payload[0] = std::byte{17};
  EXPECT_FALSE(read_file_state(payload).has_value());
  payload[0] = std::byte{0};
  EXPECT_FALSE(read_file_state(payload).has_value());
}

TEST(FileState, is_rejected_when_truncated) {
  const auto block = encode_file_state(kFailed);
  const auto payload = std::span(block).subspan(kBlockHeadBytes);
  for (std::size_t size = 0; size < payload.size(); ++size) {
    EXPECT_FALSE(read_file_state(payload.first(size)).has_value());
  }
}

}  // namespace
}  // namespace plimsoll::format

#include "format/file_state.h"

#include "format/wire.h"

namespace plimsoll::format {

std::array<std::byte, kFileStateBytes> encode_file_state(const FileState& state) noexcept {
  std::array<std::byte, kFileStateBytes> block{};
  std::byte* at = block.data() + kBlockHeadBytes;
  at = store(at, std::uint32_t{static_cast<std::uint8_t>(state.state)});
  at = store(at, state.error);
  at = store(at, static_cast<std::uint64_t>(state.time_ns));
  at = store(at, static_cast<std::uint64_t>(state.written_until_ns));
  at = store(at, state.events);
  at = store(at, state.missing);
  at = store(at, state.evicted);
  at = store(at, static_cast<std::uint64_t>(state.evicted_until_ns));
  store(at, state.longest_wait_ns);
  BlockHead head;
  head.kind = BlockKind::kFileState;
  head.payload_bytes = kFileStateBytes - kBlockHeadBytes;
  write_block_head(block.data(), head);
  return block;
}

std::optional<FileState> read_file_state(std::span<const std::byte> payload) noexcept {
  if (payload.size() < kFileStateBytes - kBlockHeadBytes) return {};
  const std::byte* const at = payload.data();
  const std::uint32_t state = load_u32(at);
  if (state < static_cast<unsigned>(RecordingState::kRunning) ||
      state > static_cast<unsigned>(RecordingState::kFailed)) {
    return {};
  }
  return FileState{.state = static_cast<RecordingState>(state),
                   .error = load_u32(at + 4),
                   .time_ns = static_cast<std::int64_t>(load_u64(at + 8)),
                   .written_until_ns = static_cast<std::int64_t>(load_u64(at + 16)),
                   .events = load_u64(at + 24),
                   .missing = load_u64(at + 32),
                   .evicted = load_u64(at + 40),
                   .evicted_until_ns = static_cast<std::int64_t>(load_u64(at + 48)),
                   .longest_wait_ns = load_u64(at + 56)};
}

}  // namespace plimsoll::format

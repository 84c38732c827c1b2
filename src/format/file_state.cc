#include "format/file_state.h"

#include "format/fields.h"
#include "format/wire.h"

namespace plimsoll::format {

std::array<std::byte, kFileStateBytes> encode_file_state(const FileState& state) noexcept {
  std::array<std::byte, kFileStateBytes> block{};
  std::byte* at = block.data() + kBlockHeadBytes;
  visit_fields(Of<FileState>(),
               [&](auto wire, auto member, const FieldText&) { at = wire.put(at, state.*member); });
  BlockHead head;
  head.kind = BlockKind::kFileState;
  head.payload_bytes = kFileStateBytes - kBlockHeadBytes;
  write_block_head(block.data(), head);
  return block;
}

std::optional<FileState> read_file_state(std::span<const std::byte> payload) noexcept {
  if (payload.size() < kFileStateBytes - kBlockHeadBytes) return {};
  const std::byte* at = payload.data();
  const std::uint32_t number = load_u32(at);
  if (number < static_cast<unsigned>(RecordingState::kRunning) ||
      number > static_cast<unsigned>(RecordingState::kFailed)) {
    return {};
  }
  FileState state;
  visit_fields(Of<FileState>(),
               [&](auto wire, auto member, const FieldText&) { wire.take(at, state.*member); });
  return state;
}

}  // namespace plimsoll::format

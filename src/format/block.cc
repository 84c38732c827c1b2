#include "format/block.h"

#include <cstring>

#include "format/checksum.h"
#include "format/wire.h"

namespace plimsoll::format {

void write_prelude(std::byte* at, const Prelude& prelude) noexcept {
  std::memcpy(at, kMagic.data(), kMagic.size());
  store(at + 8, prelude.version);
  store(at + 10, prelude.oldest_readable);
  store(at + 12, checksum({at, 12}));
}

bool has_magic(std::span<const std::byte> bytes) noexcept {
  return bytes.size() >= kMagic.size() &&
         std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

std::optional<Prelude> read_prelude(const std::byte* at) noexcept {
  if (!has_magic({at, kPreludeBytes}) || load_u32(at + 12) != checksum({at, 12})) return {};
  return Prelude{load<std::uint16_t>(at + 8), load<std::uint16_t>(at + 10)};
}

void write_block_head(std::byte* block, BlockHead head) noexcept {
  std::memcpy(block, kMarker.data(), kMarker.size());
  store(block + 4, std::uint32_t{static_cast<std::uint8_t>(head.kind)});
  store(block + 8, head.payload_bytes);
  store(block + 12, head.events);
  store(block + 16, checksum({block + kBlockHeadBytes, head.payload_bytes}));
  store(block + 20, checksum({block, 20}));
}

std::optional<BlockHead> read_block_head(const std::byte* at) noexcept {
  if (std::memcmp(at, kMarker.data(), kMarker.size()) != 0) return {};
  if (load_u32(at + 20) != checksum({at, 20})) return {};
  BlockHead head;
  head.kind = static_cast<BlockKind>(at[4]);
  head.payload_bytes = load_u32(at + 8);
  head.events = load_u32(at + 12);
  head.payload_checksum = load_u32(at + 16);
  if (head.payload_bytes > kMaxPayloadBytes) return {};
  return head;
}

}  // namespace plimsoll::format

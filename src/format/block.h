// The frame of a trace file: sixteen bytes of prelude, then blocks. A block is a head of fixed size
// and a payload, each with a checksum, so that a reader that meets damage knows what it loses and
// finds the next block.
//
//   prelude  0 magic[8]  8 u16 version  10 u16 oldest readable version  12 u32 checksum of 0..11
//   block    0 marker[4]  4 u8 kind  5 zero[3]  8 u32 payload bytes  12 u32 events in it
//            16 u32 checksum of the payload  20 u32 checksum of 0..19  24 payload
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace plimsoll::format {

inline constexpr std::uint16_t kVersion = 3;
inline constexpr std::uint16_t kOldestReadableVersion = 2;

// Like PNG's: not text, and it shows whether line ends were rewritten on the way.
inline constexpr std::array<std::uint8_t, 8> kMagic = {0x89, 'P', 'L', 'M', '\r', '\n', 0x1A, '\n'};
inline constexpr std::array<std::uint8_t, 4> kMarker = {0xF5, 'P', 'L', 'B'};

inline constexpr std::size_t kPreludeBytes = 16;
inline constexpr std::size_t kBlockHeadBytes = 24;
// A writer closes a block when its payload has reached this.
inline constexpr std::size_t kPayloadBytes = 64 << 10;
// The largest payload a reader accepts, and so the most it must hold at once.
inline constexpr std::size_t kMaxPayloadBytes = 2 << 20;
// The longest text; writers cut longer ones.
inline constexpr std::size_t kMaxTextBytes = 1 << 20;
// The most of an attachment that writers put into one block.
inline constexpr std::size_t kAttachmentPieceBytes = 256 << 10;
// The longest name of an attachment.
inline constexpr std::size_t kMaxAttachmentName = 255;
// The deepest stack; writers keep the innermost frames.
inline constexpr std::size_t kMaxFrames = 1 << 16;
// The most outer frames that a stack takes over from the one before.
inline constexpr std::size_t kMaxSharedFrames = 255;

enum class BlockKind : std::uint8_t {
#define PLIMSOLL_BLOCK_KIND(name, number) name = number,
#include "format/record_kinds.def"
};

enum class DefinitionKind : std::uint8_t {
#define PLIMSOLL_DEFINITION_KIND(name, number) name = number,
#include "format/record_kinds.def"
};

enum class EventKind : std::uint8_t {
#define PLIMSOLL_EVENT_KIND(name, number) name = number,
#include "format/record_kinds.def"
};

// The first byte of an event record: its family in the low two bits.
enum class Family : std::uint8_t { kAlloc = 0, kFree = 1, kFreeRequested = 2, kOther = 3 };
inline constexpr unsigned kFamilyMask = 3;

// Of an Alloc's first byte.
inline constexpr unsigned kSameSize = 1u << 2;     // as this site's last one in the block
inline constexpr unsigned kSameAddress = 1u << 3;  // as the address it is predicted to have
inline constexpr unsigned kAddressInBytes = 1u << 4;
inline constexpr unsigned kAdopted = 1u << 5;
inline constexpr unsigned kPredictedSite = 1u << 6;  // the one that came after the last one before
inline constexpr unsigned kOtherSlack = 1u << 7;     // than this site's last one in the block
inline constexpr std::int64_t kAddressUnit = 64;

// Of the first byte of a Free and a FreeRequested: how many allocations back stands in its upper
// five bits, or follows.
inline constexpr unsigned kInOp = 1u << 2;
inline constexpr unsigned kBackShift = 3;
inline constexpr std::uint64_t kBackFollows = 31;

inline constexpr unsigned kFirstSkippableEventKind = 32;
// No record of a known event kind is longer.
inline constexpr std::size_t kMaxEventBytes = 48;

struct Prelude {
  std::uint16_t version = kVersion;
  std::uint16_t oldest_readable = kOldestReadableVersion;
};

struct BlockHead {
  BlockKind kind{};
  std::uint32_t payload_bytes = 0;
  std::uint32_t events = 0;
  std::uint32_t payload_checksum = 0;
};

void write_prelude(std::byte* at, const Prelude& prelude) noexcept;
bool has_magic(std::span<const std::byte> bytes) noexcept;
// Nothing if it is damaged. `at` holds kPreludeBytes.
std::optional<Prelude> read_prelude(const std::byte* at) noexcept;

// Fills in the checksums; the payload stands behind the head.
void write_block_head(std::byte* block, BlockHead head) noexcept;
// Nothing if it is damaged or no head at all. `at` holds kBlockHeadBytes.
std::optional<BlockHead> read_block_head(const std::byte* at) noexcept;

}  // namespace plimsoll::format

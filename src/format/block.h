// The framing of a trace file: a 16-byte prelude, then blocks. A block is a fixed-size head and a
// payload, each with a checksum, so that a reader that meets damage can count what it lost and find
// the next block.
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

// Like PNG's magic: not text, and it exposes files whose line endings were converted.
inline constexpr std::array<std::uint8_t, 8> kMagic = {0x89, 'P', 'L', 'M', '\r', '\n', 0x1A, '\n'};
inline constexpr std::array<std::uint8_t, 4> kMarker = {0xF5, 'P', 'L', 'B'};

inline constexpr std::size_t kPreludeBytes = 16;
inline constexpr std::size_t kBlockHeadBytes = 24;
// A writer closes a block when its payload reaches this size.
inline constexpr std::size_t kPayloadBytes = 64 << 10;
// The largest payload that a reader accepts, which bounds the memory it needs for one block.
inline constexpr std::size_t kMaxPayloadBytes = 2 << 20;
// The longest text; writers truncate longer ones.
inline constexpr std::size_t kMaxTextBytes = 1 << 20;
// The largest piece of an attachment that writers put into one block.
inline constexpr std::size_t kAttachmentPieceBytes = 256 << 10;
// The longest attachment name, in bytes.
inline constexpr std::size_t kMaxAttachmentName = 255;
// The deepest stack; writers keep the innermost frames.
inline constexpr std::size_t kMaxFrames = 1 << 16;
// The largest number of outer frames that a stack shares with the one before it.
inline constexpr std::size_t kMaxSharedFrames = 255;

enum class BlockKind : std::uint8_t {
#define PLIMSOLL_BLOCK(name, number, word) name = number,
#include "format/records.def"
};

enum class DefinitionKind : std::uint8_t {
#define PLIMSOLL_DEFINITION_KIND(name, word, number, fields) name = number,
#define PLIMSOLL_DEFINITION(Struct, method, number) k##Struct = number,
#define PLIMSOLL_ID_DEFINITION(Struct, method, number, IdType, IdWire) k##Struct = number,
#include "format/records.def"
};
// Readers compare numbers, because a file of a later version may have kinds without a name here.
constexpr std::uint8_t number_of(DefinitionKind kind) { return static_cast<std::uint8_t>(kind); }

// Kinds from kFirstSkippableEventKind on are stored with their length; readers skip unknown ones.
enum class EventKind : std::uint8_t {
#define PLIMSOLL_EVENT_KIND(name, word, number, fields, meaning) name = number,
#define PLIMSOLL_EVENT(Struct, method, number, meaning) k##Struct = number,
#include "format/records.def"
};

// The first byte of an event record: its family in the low two bits.
enum class Family : std::uint8_t {
#define PLIMSOLL_FAMILY(Struct, method, number) k##Struct = number,
#include "format/records.def"
  kOther = 3
};
inline constexpr unsigned kFamilyMask = 3;

// The bits of the first byte of an Alloc, a Free and a FreeRequested: kSameSize, kInOp, …
#define PLIMSOLL_FLAG(name, bit, meaning) inline constexpr unsigned name = 1u << bit;
#include "format/records.def"
inline constexpr std::int64_t kAddressUnit = 64;

// The upper five bits of a Free's first byte, or a field after its time: how many allocations ago.
inline constexpr unsigned kBackShift = 3;
inline constexpr std::uint64_t kBackFollows = 31;

inline constexpr unsigned kFirstSkippableEventKind = 32;
// A record of a known event kind is never longer than twice this.
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
// Returns nothing if the prelude is damaged. `at` points to kPreludeBytes bytes.
std::optional<Prelude> read_prelude(const std::byte* at) noexcept;

// Also computes the checksums; the payload must follow the head.
void write_block_head(std::byte* block, BlockHead head) noexcept;
// Returns nothing if the head is damaged or is not a head. `at` points to kBlockHeadBytes bytes.
std::optional<BlockHead> read_block_head(const std::byte* at) noexcept;

}  // namespace plimsoll::format

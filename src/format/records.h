// The content of a trace file as values: the definitions that ids refer to, and the events.
// records.def lists their fields, docs/format.md describes their bytes, encoder.h writes them and
// decoder.h reads them.
//
// The writer assigns the ids of names, stacks, sites and tensors and defines them before use; 0 is
// "none". An allocation is identified by its serial number, which counts all allocations and
// adoptions of the recorder from 0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace plimsoll::format {

inline constexpr std::uint64_t kNoSerial = ~std::uint64_t{0};

// plimsoll_setting_type
inline constexpr std::uint8_t kBooleanSetting = 0, kIntegerSetting = 1, kNumberSetting = 2,
                              kTextSetting = 3;

enum class RecordingState : std::uint8_t {
  kRunning = 1,  // or the process was killed
  kEnded = 2,
  kFailed = 3  // the file could no longer be written
};

struct Frame {
  std::uint32_t file = 0;
  std::uint32_t function = 0;
  std::uint32_t line = 0;
};

// A line of the program's source, in the frames of stacks.
struct SourceLine {
  std::uint32_t file = 0;
  std::uint32_t line = 0;
  std::uint64_t hash = 0;  // hash_of_source()
  std::string_view text;   // empty: omitted
};

// A piece of a file that another tool recorded in the same run, named by its format; each piece has
// its own block. If several complete attachments share a name, the last one counts.
struct AttachmentPiece {
  std::string_view name;
  std::uint64_t id = 0;  // of the attachment in this file
  std::uint64_t total_bytes = 0;
  std::uint64_t offset = 0;  // of the piece in the attachment
  std::span<const std::byte> bytes;
};

// The last use of an allocation, when it was freed or later.
struct EndUse {
  std::uint32_t age_plus_one = 0;  // allocations since then, plus one; 0: unknown
  // The longest gap between two uses: g allocations or fewer if it is 0, 1 … for g = 0, 2⁰ …; with
  // kNeverUsed if no use was seen.
  std::uint8_t gap = 0;

  friend bool operator==(const EndUse&, const EndUse&) = default;
};
inline constexpr std::uint8_t kNeverUsed = 128;

struct EndUses {
  static constexpr std::size_t kMost = 16;
  std::array<EndUse, kMost> entries{};
  std::uint8_t count = 0;

  friend bool operator==(const EndUses&, const EndUses&) = default;
};

#define PLIMSOLL_RECORD(Struct) struct Struct {
#define PLIMSOLL_FIELD(type, name, initial, Wire, key, label) type name = initial;
#define PLIMSOLL_END(Struct)                                      \
  friend bool operator==(const Struct&, const Struct&) = default; \
  }                                                               \
  ;
#include "format/records.def"

}  // namespace plimsoll::format

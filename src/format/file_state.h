// The state of a recording, as stored in its file: a fixed-size block after the prelude, which the
// recorder rewrites in place. It lets a reader know from the file alone what the file lacks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "format/block.h"
#include "format/records.h"

namespace plimsoll::format {

inline constexpr std::size_t kFileStateBytes = kBlockHeadBytes + 64;
inline constexpr std::int64_t kFileStateOffset = kPreludeBytes;

// Encodes the whole block.
std::array<std::byte, kFileStateBytes> encode_file_state(const FileState& state) noexcept;
// Returns nothing if the payload is too short, or its layout is from a later version.
std::optional<FileState> read_file_state(std::span<const std::byte> payload) noexcept;

}  // namespace plimsoll::format

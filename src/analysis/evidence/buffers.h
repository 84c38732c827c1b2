// Recognizes buffers of constant length: a line adds to them again and again, and each addition
// frees the oldest entry. Operators may not have used the entries again yet.
#pragma once

#include <cstdint>
#include <span>

namespace plimsoll::analysis::evidence {

// The fewest allocations of a line that show a pattern.
inline constexpr std::size_t kFewest = 3;

struct Entry {
  std::uint32_t born = 0;
  std::uint32_t died = 0;  // kNone: never
};

// `entries` are the allocations of one line that outlived their last use, by birth.
bool is_bounded_buffer(std::span<const Entry> entries);

}  // namespace plimsoll::analysis::evidence

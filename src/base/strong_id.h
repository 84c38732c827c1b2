// StrongId: a row number that cannot be mixed up with another table's.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace plimsoll::base {

template <typename Tag>
struct StrongId {
  std::uint32_t value = 0;

  friend constexpr auto operator<=>(const StrongId&, const StrongId&) = default;
  constexpr std::size_t index() const { return value; }
};

}  // namespace plimsoll::base

template <typename Tag>
struct std::hash<plimsoll::base::StrongId<Tag>> {
  std::size_t operator()(plimsoll::base::StrongId<Tag> id) const noexcept {
    return std::hash<std::uint32_t>{}(id.value);
  }
};

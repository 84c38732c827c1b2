// Parses the numbers of a trace from their text. Times are microseconds with up to sixteen digits
// before the point and three after it; a double would lose the nanoseconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll::readers::kineto {

// "1419247333400.919" -> 1419247333400919. Digits below a nanosecond are dropped. nullopt if the
// text is not a number or does not fit.
std::optional<std::int64_t> nanoseconds_of_microseconds(std::string_view text);

std::optional<std::int64_t> whole_number(std::string_view text);
// For addresses: a number that only fits as unsigned keeps its bits.
std::optional<std::int64_t> bits_of_number(std::string_view text);

}  // namespace plimsoll::readers::kineto

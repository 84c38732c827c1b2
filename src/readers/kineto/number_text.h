// Numbers as a trace spells them. Times are microseconds with up to three decimals and sixteen
// digits before them: a double would lose the nanoseconds, so they are read from the text itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll::readers::kineto {

// "1419247333400.919" -> 1419247333400919. Digits below a nanosecond are cut. Nothing if it is not
// a number or does not fit.
std::optional<std::int64_t> nanoseconds_of_microseconds(std::string_view text);

std::optional<std::int64_t> whole_number(std::string_view text);
// Of an address: one that only fits without a sign keeps its bits.
std::optional<std::int64_t> bits_of_number(std::string_view text);

}  // namespace plimsoll::readers::kineto

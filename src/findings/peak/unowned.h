// Gradients that no optimizer clears.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>
#include <vector>

#include "findings/peak/peak.h"

namespace plimsoll::findings {

struct Unowned {
  std::vector<std::uint32_t> parts;  // rows of Peak::live()
  std::size_t fewest_backwards = 0;  // that one of them lives through
  std::size_t cleared = 0;           // parameters whose gradients are freed and made again
  std::set<std::string_view> trained_modules;  // that these parameters are part of
};

Unowned unowned_gradients(const Peak& peak);

}  // namespace plimsoll::findings

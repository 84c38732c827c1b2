// How the names in operators.def and patterns.def match.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/path_text.h"
#include "model/function_name.h"

namespace plimsoll::analysis::evidence {

enum class Match : std::uint8_t {
  kAny,
  kExact,
  kPrefix,
  kPart,
  kEnd,     // "/" in it matches any separator
  kForward  // a module's forward
};

inline bool matches(Match match, std::string_view text, std::string_view wanted) {
  switch (match) {
    case Match::kAny:
      return true;
    case Match::kExact:
      return text == wanted;
    case Match::kPrefix:
      return text.starts_with(wanted);
    case Match::kPart:
      return text.find(wanted) != std::string_view::npos;
    case Match::kEnd:
      return base::ends_with_path(text, wanted);
    case Match::kForward:
      return model::is_forward(text);
  }
  return false;
}

}  // namespace plimsoll::analysis::evidence

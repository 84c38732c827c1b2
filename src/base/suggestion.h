// "did you mean …?" for a mistyped name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::base {

// The known word closest to `word`; empty if none is close.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

// The known word that `word` misspells by at most two letters, ignoring case, or the closest one if
// `word` contains one of `stems`; empty if there is none, or if `word` is one of them.
std::string misspelt(std::string_view word, const std::vector<std::string>& known,
                     const std::vector<std::string>& stems = {});

// Returns "; did you mean report?" or "", to append to a sentence.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

std::string joined(const std::vector<std::string>& words);  // "a, b, c"

}  // namespace plimsoll::base

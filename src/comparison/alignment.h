// Pairs the keys of two digests: what is the same in both, although the program was edited between
// them. Each key is in at most one pair, so differences of pairs sum exactly whatever is paired; a
// wrong pair mislabels a row and never changes a sum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/digest.h"

namespace plimsoll::comparison {

// What differs between the two keys of a pair, in the order in which the rules are tried.
enum class Pairing : std::uint8_t {
  kSame,
  kText,      // the text of the line
  kRenamed,   // a name in the layer's path, and perhaps the text
  kFunction,  // the function, the text being equal
  kMoved,     // the function and the text; bytes and counts are equal at every point
  kPhase,
  kOperator,
  kDtype,
  kCategory,
  kUnpaired
};
const char* to_string(Pairing pairing);

// Whether the two keys are only assumed to be the same.
bool is_assumed(Pairing pairing);

struct KeyPair {
  std::optional<std::size_t> before;  // row of the keys of the first digest
  std::optional<std::size_t> after;
  Pairing pairing = Pairing::kUnpaired;
};

struct Alignment {
  std::vector<KeyPair> pairs;  // every key of both digests is in one
  // Names in paths of layers: in the first digest, and in the second.
  std::map<std::string, std::string, std::less<>> renames;
};

Alignment align(const report::Digest& before, const report::Digest& after);

// The path with its names replaced.
std::string renamed(std::string_view path,
                    const std::map<std::string, std::string, std::less<>>& renames);

}  // namespace plimsoll::comparison

// Pairs the keys of two digests that mean the same memory, although the program was edited between
// the recordings. Each key is in exactly one pair, so the differences of all pairs always sum to
// the total difference: a wrong pair mislabels a row but never changes a sum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "comparison/module_tree.h"
#include "report/digest.h"

namespace plimsoll::comparison {

// What differs between the two keys of a pair, in the order in which the rules are tried.
enum class Pairing : std::uint8_t {
  kSame,
  kText,      // the text of the line
  kRenamed,   // a name in the layer's path, and perhaps the text
  kFunction,  // the function, the text being equal
  kMoved,     // the function and the text; bytes and counts are equal at every point, perhaps only
              // as a sum over several keys, some of which have no partner
  kPhase,
  kOperator,
  kOwner,  // the line: the parameters or gradients of a layer, which another line has made
  kDtype,
  kCategory,
  kUnpaired
};
const char* to_string(Pairing pairing);

// Whether the pairing is a guess.
bool is_assumed(Pairing pairing);

struct KeyPair {
  std::optional<std::size_t> before;  // row of the keys of the first digest
  std::optional<std::size_t> after;
  Pairing pairing = Pairing::kUnpaired;
};

struct Alignment {
  std::vector<KeyPair> pairs;  // every key of both digests is in one
  ModulePairs modules;
};

Alignment align(const report::Digest& before, const report::Digest& after);

}  // namespace plimsoll::comparison

// The logits of a cross entropy, with the copies that lead from the linear operator to the loss.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "findings/peak/peak.h"

namespace plimsoll::findings {

struct Logits {
  std::string maker;              // the layer of the linear operator, or its line
  std::string loss;               // the line of the loss
  std::string upcast;             // the line that copies all of them to a wider dtype; may be empty
  std::set<std::uint32_t> lines;  // of the linear operator, the copies and the loss
  std::set<std::uint64_t> sizes;  // of their tensors
};

// The largest cross entropy before the peak whose logits a linear operator makes; nullopt if there
// is none, or it is small.
std::optional<Logits> logits_of(const Peak& peak);

// Gives the advice for the logits if half of what it explains or more are such tensors, including
// gradients. Returns whether it did.
bool advise_logits(const Peak& peak, const std::optional<Logits>& logits, Explanation& explanation);

}  // namespace plimsoll::findings

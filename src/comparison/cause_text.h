// Builds the titles and next steps of causes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/finding.h"
#include "comparison/causes.h"

namespace plimsoll::comparison {

std::string factor_text(double factor);  // "× 1.125"
// "Net.blocks.*.mlp.2 (Linear), 3 (ReLU) and 4 more"
std::string names_text(const std::vector<report::DigestModule>& modules);
// "3 × modules Net.blocks.*.mlp.2 (Linear) and 3 (ReLU)"
std::string modules_text(const std::vector<report::DigestModule>& modules);
// ": [512, 128] → [768, 128]"; empty if the shapes are unknown or equal.
std::string shapes_text(const PairAtPoint& row);
// "12 × activation of softmax and matmul in Net.blocks.*.attention, now saved". Rows of one layer,
// function and category, largest first.
std::string rows_text(std::string_view id, const std::vector<PairAtPoint>& rows);
std::string replaced_text(const std::vector<PairAtPoint>& gone,
                          const std::vector<PairAtPoint>& added);
// What to do about a cause of growth, which saves at most `saving_bytes`, or `held_bytes` where it
// is held; empty if nothing is known.
std::vector<FindingStep> steps_of(const DiffCause& cause, std::int64_t saving_bytes,
                                  std::int64_t held_bytes);
inline std::vector<FindingStep> steps_of(const DiffCause& cause, std::int64_t saving_bytes) {
  return steps_of(cause, saving_bytes, saving_bytes);
}

}  // namespace plimsoll::comparison

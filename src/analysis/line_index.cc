#include "analysis/line_index.h"

namespace plimsoll::analysis {

std::uint32_t LineIndex::of(model::StackId stack) {
  auto [known, is_new] = by_stack_.try_emplace(stack, 0);
  if (is_new) {
    std::string label = lines_.label(stack);
    const auto next = static_cast<std::uint32_t>(labels_.size());
    auto [line, is_new_line] = by_label_.try_emplace(label, next);
    if (is_new_line) labels_.push_back(std::move(label));
    known->second = line->second;
  }
  return known->second;
}

}  // namespace plimsoll::analysis

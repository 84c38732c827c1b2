// LineIndex: a small number for each line that stacks are charged to. Two stacks with the same
// label are one line, so that sums over lines need no strings.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/user_line.h"

namespace plimsoll::analysis {

class LineIndex {
 public:
  explicit LineIndex(const model::UserLines& lines) : lines_(lines) {}

  std::uint32_t of(model::StackId stack);
  const std::string& label(std::uint32_t line) const { return labels_[line]; }
  std::size_t size() const { return labels_.size(); }

 private:
  const model::UserLines& lines_;
  std::unordered_map<model::StackId, std::uint32_t> by_stack_;
  std::unordered_map<std::string, std::uint32_t> by_label_;
  std::vector<std::string> labels_;
};

}  // namespace plimsoll::analysis

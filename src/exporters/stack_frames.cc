#include "exporters/stack_frames.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "model/user_line.h"

namespace plimsoll::exporters {
namespace {

constexpr std::size_t kFramesShown = 8;  // Python frames per stack

// The file of a frame "file:line function"; empty if it has no line.
std::string_view file_of(std::string_view frame) {
  for (std::size_t at = frame.find(':'); at != std::string_view::npos;
       at = frame.find(':', at + 1)) {
    const std::size_t end = frame.find_first_not_of("0123456789", at + 1);
    if (end != std::string_view::npos && end > at + 1 && frame[end] == ' ') {
      return frame.substr(0, at);
    }
  }
  return {};
}

bool is_of_interest(std::string_view frame) {
  const std::string_view file = file_of(frame);
  switch (model::origin_of(file)) {
    case model::FrameOrigin::kUser:
    case model::FrameOrigin::kText:
    case model::FrameOrigin::kLibrary:
      return true;
    case model::FrameOrigin::kGenerated:
      return !file.starts_with("<");  // <frozen runpy>
    case model::FrameOrigin::kTorch:
    case model::FrameOrigin::kNative:
      return false;
  }
  return false;
}

// The rows of a table with the same key and the same shown Python frames.
class EqualRows {
 public:
  void add(std::size_t row, const std::vector<std::string>& stack) {
    stacks_.emplace_back(&stack, row);
  }

  // Adds, for each stack, the frames at which it diverges from another of these stacks.
  void mark_differences(std::vector<std::vector<std::size_t>>& shown) {
    std::ranges::sort(stacks_, [](const auto& a, const auto& b) { return *a.first < *b.first; });
    // The common prefixes of neighbors. That of any two stacks is the shortest between them.
    std::vector<std::size_t> common;
    for (std::size_t at = 0; at + 1 < stacks_.size(); ++at) {
      const auto ends = std::ranges::mismatch(*stacks_[at].first, *stacks_[at + 1].first);
      common.push_back(static_cast<std::size_t>(ends.in1 - stacks_[at].first->begin()));
    }
    // The depths at which later stacks, then earlier ones, diverge from this one, ascending. There
    // are at most as many as frames, however many stacks there are.
    std::vector<std::size_t> parts;
    const auto mark = [&](std::size_t at, std::size_t length) {
      while (!parts.empty() && parts.back() >= length) parts.pop_back();
      parts.push_back(length);
      const auto& [stack, row] = stacks_[at];
      for (const std::size_t part : parts) {
        if (part < stack->size()) shown[row].push_back(part);
      }
    };
    for (std::size_t at = common.size(); at > 0; --at) mark(at - 1, common[at - 1]);
    parts.clear();
    for (std::size_t at = 0; at < common.size(); ++at) mark(at + 1, common[at]);
    for (const auto& [stack, row] : stacks_) {
      std::ranges::sort(shown[row]);
      const auto repeated = std::ranges::unique(shown[row]);
      shown[row].erase(repeated.begin(), repeated.end());
    }
  }

 private:
  std::vector<std::pair<const std::vector<std::string>*, std::size_t>> stacks_;  // with their rows
};

}  // namespace

std::vector<std::vector<std::size_t>> frames_shown(
    const std::vector<const report::GroupRow*>& rows) {
  std::vector<std::vector<std::size_t>> shown(rows.size());
  std::map<std::vector<std::string_view>, EqualRows> by_key;  // and by shown frames
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const std::vector<std::string>& stack = rows[row]->stack;
    std::vector<std::string_view> key = {rows[row]->key};
    for (std::size_t at = 0; at < stack.size() && shown[row].size() < kFramesShown; ++at) {
      if (!is_of_interest(stack[at])) continue;
      shown[row].push_back(at);
      key.push_back(stack[at]);
    }
    by_key[key].add(row, stack);
  }
  for (auto& [key, equal] : by_key) equal.mark_differences(shown);
  return shown;
}

}  // namespace plimsoll::exporters

#include "base/suggestion.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace plimsoll::base {
namespace {

// The edit distance: insertions, deletions, substitutions and swaps of neighbors (optimal string
// alignment).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> previous(b.size() + 1);
  std::vector<std::size_t> current(b.size() + 1);
  std::iota(previous.begin(), previous.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, replaced});
      const bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swap) current[j] = std::min(current[j], before[j - 2] + 1);
    }
    std::swap(before, previous);
    std::swap(previous, current);
  }
  return previous[b.size()];
}

std::string lower_case(std::string_view word) {
  std::string lower(word);
  for (char& letter : lower) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return lower;
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  constexpr std::size_t kLongest = 64;  // longer input is not a typo
  if (word.size() > kLongest) return {};
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 2);
  for (const std::string& candidate : known) {
    const bool is_beginning = word.size() >= 2 && candidate.starts_with(word);
    const std::size_t this_one = is_beginning ? 1 : distance(word, candidate);
    if (this_one < best_distance) {
      best = candidate;
      best_distance = this_one;
    }
  }
  return best;
}

std::string misspelt(std::string_view word, const std::vector<std::string>& known,
                     const std::vector<std::string>& stems) {
  if (std::ranges::find(known, word) != known.end()) return {};
  const std::string lower = lower_case(word);
  for (const std::string& candidate : known) {
    const std::size_t shorter = std::min(lower.size(), candidate.size());
    const std::size_t longer = std::max(lower.size(), candidate.size());
    if (longer - shorter <= 2 && distance(lower, candidate) <= 2) return candidate;
  }
  const auto has_stem = [&](const std::string& text) {
    return std::ranges::any_of(
        stems, [&](const std::string& stem) { return text.find(stem) != std::string::npos; });
  };
  if (!has_stem(lower)) return {};
  const std::string closest = nearest(lower, known);
  const auto related = std::ranges::find_if(known, has_stem);
  return !closest.empty() || related == known.end() ? closest : *related;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const std::string best = nearest(word, known);
  return best.empty() ? "" : "; did you mean " + best + "?";
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace plimsoll::base

#include "analysis/oom/alignment.h"

#include <algorithm>

namespace plimsoll::analysis::oom {
namespace {

constexpr double kLeastMatched = 0.7;
// At the beginning of a step, the place of the request alone is enough.
constexpr std::size_t kMostUnmatched = 4;
// Where the sequences differ, the search for the next common place covers this many allocations.
constexpr std::size_t kWindow = 48;
// Sequences that differ in more places are not similar.
constexpr std::size_t kMostGaps = 4096;
// Each candidate is first compared by this number of preceding allocations, and the best ones then
// by all.
constexpr std::size_t kProbe = 256;
constexpr std::size_t kFullyJudged = 3;
// In a snapshot, all allocations of backward have the same place, so only candidates near the
// expected position are considered.
constexpr std::size_t kMostCandidates = 64;
constexpr std::size_t kMostSteps = 8;

struct Gap {
  std::size_t now = 0;
  std::size_t before = 0;
};

// The smallest numbers of allocations to skip in both sequences so that two successive places are
// equal again.
Gap gap_at(const std::vector<Made>& made, std::size_t now, std::size_t before, std::size_t room_now,
           std::size_t room_before) {
  const auto is_pair = [&](std::size_t skip_now, std::size_t skip_before) {
    if (skip_now > room_now || skip_before > room_before) return false;
    return made[now - skip_now].place == made[before - skip_before].place;
  };
  for (std::size_t total = 1; total <= kWindow; ++total) {
    for (std::size_t of_now = 0; of_now <= total; ++of_now) {
      const std::size_t of_before = total - of_now;
      const bool is_end = of_now == room_now || of_before == room_before;
      if (is_pair(of_now, of_before) && (is_end || is_pair(of_now + 1, of_before + 1))) {
        return {of_now, of_before};
      }
    }
  }
  return {1, 1};
}

struct Candidate {
  Step step;
  std::size_t anchor = 0;
  std::size_t matched = 0;
  std::size_t distance = 0;  // from the expected position
};

std::size_t distance_of(std::size_t at, std::size_t expected) {
  return at > expected ? at - expected : expected - at;
}

// The candidates in one step: allocations with the place of the failed request. If there are many,
// only those nearest to the expected position.
std::vector<std::size_t> anchors_in(const std::vector<Made>& made, const Step& step,
                                    std::uint64_t place, std::size_t expected) {
  std::vector<std::size_t> found;
  for (std::size_t row = step.first; row < step.last; ++row) {
    if (made[row].place == place) found.push_back(row);
  }
  if (found.size() <= kMostCandidates) return found;
  std::ranges::nth_element(found, found.begin() + kMostCandidates, {}, [&](std::size_t row) {
    return distance_of(row - step.first, expected);
  });
  found.resize(kMostCandidates);
  return found;
}

}  // namespace

std::vector<Pair> pair_backwards(const std::vector<Made>& made, std::size_t first_now,
                                 std::size_t last_now, std::size_t first_before,
                                 std::size_t last_before) {
  std::vector<Pair> pairs;
  std::size_t gaps = 0;
  while (last_now > first_now && last_before > first_before) {
    const std::size_t now = last_now - 1;
    const std::size_t before = last_before - 1;
    if (made[now].place == made[before].place) {
      pairs.push_back({now, before});
      --last_now;
      --last_before;
      continue;
    }
    if (++gaps > kMostGaps) break;
    const Gap gap = gap_at(made, now, before, now - first_now, before - first_before);
    last_now -= gap.now;
    last_before -= gap.before;
  }
  return pairs;
}

std::optional<Alignment> align(const History& history, const Step& failed, std::uint64_t place,
                               const std::vector<Step>& earlier) {
  const std::vector<Made>& made = history.made();
  const std::size_t count = failed.last - failed.first;
  const std::size_t probed = failed.last - std::min(count, kProbe);
  std::vector<Candidate> candidates;
  for (std::size_t at = earlier.size() - std::min(kMostSteps, earlier.size()); at < earlier.size();
       ++at) {
    for (const std::size_t anchor : anchors_in(made, earlier[at], place, count)) {
      const auto pairs = pair_backwards(made, probed, failed.last, earlier[at].first, anchor);
      candidates.push_back(
          {earlier[at], anchor, pairs.size(), distance_of(anchor - earlier[at].first, count)});
    }
  }
  std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) {
    if (a.matched != b.matched) return a.matched > b.matched;
    if (a.distance != b.distance) return a.distance < b.distance;
    return a.anchor > b.anchor;
  });
  candidates.resize(std::min(candidates.size(), kFullyJudged));
  std::optional<Alignment> best;
  for (const Candidate& candidate : candidates) {
    auto pairs =
        pair_backwards(made, failed.first, failed.last, candidate.step.first, candidate.anchor);
    if (best && best->pairs.size() >= pairs.size()) continue;
    best = Alignment{candidate.step, candidate.anchor, std::move(pairs)};
  }
  if (!best) return std::nullopt;
  const std::size_t unmatched = count - best->pairs.size();
  const auto most = static_cast<std::size_t>((1 - kLeastMatched) * static_cast<double>(count));
  if (unmatched > std::max(most, kMostUnmatched)) return std::nullopt;
  return best;
}

}  // namespace plimsoll::analysis::oom

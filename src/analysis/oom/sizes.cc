#include "analysis/oom/sizes.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "plimsoll/caching_allocator.h"

namespace plimsoll::analysis::oom {
namespace {

// Scalars and counters do not grow with the batch.
constexpr std::uint64_t kLeastBytes = 1024;
// Batches whose sizes differ by less do not show how sizes grow.
constexpr double kLeastDifference = 0.05;
// Comparing takes time proportional to the allocations of a step.
constexpr std::size_t kMostCompared = 8;
constexpr double kMostPower = 3.0;
// A hostile file may have any size.
constexpr double kMostBytes = 1e18;

using Ratios = std::vector<double>;

double median(Ratios& ratios) {
  if (ratios.empty()) return 1.0;
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::ranges::nth_element(ratios, middle);
  return *middle;
}

void add_ratio(const Made& now, const Made& before, Ratios& ratios) {
  if (!before.scales || before.requested_bytes < kLeastBytes || now.requested_bytes == 0) return;
  ratios.push_back(static_cast<double>(now.requested_bytes) /
                   static_cast<double>(before.requested_bytes));
}

// The median of the ratios that differ from 1, or 1 if few of them do. Otherwise copies of weights
// and other memory of constant size could hide that the batch has changed.
double typical(Ratios ratios) {
  const std::size_t all = ratios.size();
  std::erase_if(ratios, [](double ratio) { return std::abs(ratio - 1.0) < kLeastDifference; });
  return ratios.size() * 4 < all ? 1.0 : median(ratios);
}

}  // namespace

Sizes::Sizes(const History& history, const Alignment& alignment, std::uint64_t requested_bytes,
             const std::vector<Step>& others)
    : history_(history), alignment_(alignment) {
  const std::vector<Made>& made = history.made();
  Ratios ratios;
  for (const Pair& pair : alignment.pairs) {
    const Made& before = made[pair.before];
    if (!before.scales) continue;
    note(pair.before, before.place, made[pair.now].requested_bytes);
    add_ratio(made[pair.now], before, ratios);
  }
  const Made& anchor = made[alignment.anchor];
  Made request = anchor;
  request.requested_bytes = requested_bytes;
  // A request is rounded to blocks: a counterpart within one block has the same size.
  if (requested_bytes - std::min(requested_bytes, anchor.requested_bytes) <
      caching_allocator::kMinBlockBytes) {
    request.requested_bytes = std::min(requested_bytes, anchor.requested_bytes);
  }
  note(alignment.anchor, anchor.place, request.requested_bytes);
  add_ratio(request, anchor, ratios);
  ratio_ = typical(std::move(ratios));
  compare_with(others);
}

void Sizes::note(std::size_t before, std::uint64_t place, std::uint64_t bytes) {
  const std::uint64_t was = history_.made()[before].requested_bytes;
  by_place_.emplace(std::pair(place, was), bytes);
  ++by_bytes_[was][bytes];
}

// Compares the rest of the aligned step with that of the earlier step whose batch size differs
// most.
void Sizes::compare_with(const std::vector<Step>& others) {
  if (std::abs(std::log(ratio_)) < kLeastDifference) return;
  const std::vector<Made>& made = history_.made();
  double largest = kLeastDifference;
  const std::size_t first = others.size() - std::min(others.size(), kMostCompared);
  for (const Step& other : std::span(others).subspan(first)) {
    if (other.begin >= alignment_.step.begin) continue;
    const auto pairs =
        pair_backwards(made, alignment_.step.first, alignment_.step.last, other.first, other.last);
    Ratios reached;
    for (const Pair& pair : pairs) {
      if (pair.now < alignment_.anchor) add_ratio(made[pair.now], made[pair.before], reached);
    }
    const double grown = std::log(typical(std::move(reached)));
    if (std::abs(grown) < largest) continue;
    largest = std::abs(grown);
    powers_.clear();
    for (const Pair& pair : pairs) {
      if (pair.now <= alignment_.anchor || made[pair.before].requested_bytes == 0) continue;
      const double of_place = std::log(static_cast<double>(made[pair.now].requested_bytes) /
                                       static_cast<double>(made[pair.before].requested_bytes));
      powers_[pair.now] = std::clamp(of_place / grown, 0.0, kMostPower);
    }
  }
}

std::uint64_t Sizes::of(std::size_t before) const {
  const Made& made = history_.made()[before];
  if (!made.scales) return made.bytes;
  std::uint64_t bytes = made.requested_bytes;
  const auto seen = by_place_.find({made.place, bytes});
  if (seen != by_place_.end()) {
    bytes = seen->second;
  } else if (const auto twins = by_bytes_.find(bytes); twins != by_bytes_.end()) {
    bytes = std::ranges::max_element(twins->second, {}, [](const auto& each) {
              return each.second;
            })->first;
  } else if (bytes >= kLeastBytes) {
    const auto power = powers_.find(before);
    const double ratio = std::pow(ratio_, power == powers_.end() ? 1.0 : power->second);
    bytes = static_cast<std::uint64_t>(std::min(static_cast<double>(bytes) * ratio, kMostBytes));
  }
  if (bytes == made.requested_bytes) return made.bytes;
  return history_.device().has_block_sizes ? caching_allocator::block_bytes(bytes) : bytes;
}

}  // namespace plimsoll::analysis::oom

#include "budgets/repeats.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

namespace plimsoll::budgets {
namespace {

using report::Digest;
using report::DigestKey;
using report::DigestPoint;
using report::DigestRange;
using report::DigestRepeats;
using report::DigestRow;

// The fields that identify a key: all except `place` and `example_layer`, which are examples.
auto identity(const DigestKey& key) {
  return std::tie(key.device, key.category, key.phase, key.layer, key.op, key.function, key.text,
                  key.offset, key.dtype);
}

using PointName = std::pair<std::string, std::string>;  // device, name

PointName name_of(const DigestPoint& point) { return {point.device, point.name}; }

std::int64_t highest_peak(const Digest& digest) {
  std::int64_t highest = std::numeric_limits<std::int64_t>::min();
  for (const DigestPoint& point : digest.points) {
    if (point.name == "peak") highest = std::max(highest, point.bytes);
  }
  return highest;
}

const Digest& median(const std::vector<Digest>& digests) {
  std::vector<const Digest*> order;
  for (const Digest& digest : digests) order.push_back(&digest);
  std::ranges::stable_sort(order, {}, [](const Digest* digest) { return highest_peak(*digest); });
  return *order[(order.size() - 1) / 2];
}

// The bytes of each point and key in each recording; 0 if a recording does not have it.
class Spreads {
 public:
  Spreads(Digest& folded, std::size_t recordings) : folded_(folded), recordings_(recordings) {
    for (std::size_t i = 0; i < folded.points.size(); ++i) points_[name_of(folded.points[i])] = i;
    for (std::size_t i = 0; i < folded.keys.size(); ++i) add_key(folded.keys[i], i);
  }

  void add(const Digest& digest, std::size_t recording) {
    std::vector<std::optional<std::uint64_t>> points;
    for (const DigestPoint& point : digest.points) {
      const auto found = points_.find(name_of(point));
      points.push_back(found == points_.end() ? std::nullopt : std::optional(found->second));
      if (points.back()) bytes_at({*points.back(), std::nullopt})[recording] = point.bytes;
    }
    for (const DigestRow& row : digest.rows) {
      if (!points[row.point]) continue;
      const std::uint64_t key = key_of(digest.keys[row.key]);
      bytes_at({*points[row.point], key})[recording] += row.bytes;
    }
  }

  DigestRepeats take() const {
    DigestRepeats repeats;
    repeats.recordings = recordings_;
    for (const auto& [place, bytes] : bytes_) {
      const auto [least, most] = std::ranges::minmax(bytes);
      if (least != most) repeats.ranges.push_back({place.first, place.second, least, most});
    }
    return repeats;
  }

 private:
  using Place = std::pair<std::uint64_t, std::optional<std::uint64_t>>;  // point, key
  using Identity = std::tuple<std::string, std::string, std::string, std::string, std::string,
                              std::string, std::string, std::int64_t, std::string>;

  std::vector<std::int64_t>& bytes_at(const Place& place) {
    return bytes_.try_emplace(place, recordings_, 0).first->second;
  }
  std::uint64_t add_key(const DigestKey& key, std::uint64_t index) {
    return keys_.emplace(identity(key), index).first->second;
  }
  // Returns the index of the key; appends a key that is missing in the median recording.
  std::uint64_t key_of(const DigestKey& key) {
    const std::uint64_t index = add_key(key, folded_.keys.size());
    if (index == folded_.keys.size()) folded_.keys.push_back(key);
    return index;
  }

  Digest& folded_;
  std::size_t recordings_;
  std::map<PointName, std::uint64_t> points_;
  std::map<Identity, std::uint64_t> keys_;
  std::map<Place, std::vector<std::int64_t>> bytes_;
};

}  // namespace

Digest fold(const std::vector<Digest>& digests) {
  Digest folded = median(digests);
  if (digests.size() == 1) return folded;
  Spreads spreads(folded, digests.size());
  for (std::size_t i = 0; i < digests.size(); ++i) spreads.add(digests[i], i);
  folded.repeats = spreads.take();
  return folded;
}

PointRange range_of(const Digest& digest, std::uint64_t point) {
  const std::int64_t bytes = digest.points[point].bytes;
  PointRange range{bytes, bytes, 1};
  if (!digest.repeats) return range;
  range.recordings = digest.repeats->recordings;
  for (const DigestRange& each : digest.repeats->ranges) {
    if (each.point != point || each.key) continue;
    range.least_bytes = std::min(bytes, each.least_bytes);
    range.most_bytes = std::max(bytes, each.most_bytes);
  }
  return range;
}

}  // namespace plimsoll::budgets

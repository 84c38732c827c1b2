#include "comparison/retention.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "comparison/row_facts.h"

namespace plimsoll::comparison {
namespace {

using report::Digest;
using report::DigestKey;
using report::DigestPoint;
using report::DigestRow;

constexpr double kAboutEachStep = 0.75;  // of the steps: the last result may not be appended yet
constexpr std::uint64_t kLeastKept = 2;
constexpr double kMostOfGraph = 0.5;  // of the activations at the point that has most of them

std::uint64_t excess(std::uint64_t after, std::uint64_t before) {
  return after > before ? after - before : 0;
}

// The activations of a device at each point, by its name.
std::map<std::string, double, std::less<>> activation_bytes(const Digest& digest,
                                                            const std::string& device) {
  std::map<std::string, double, std::less<>> bytes;
  for (const DigestRow& row : digest.rows) {
    const DigestPoint& point = digest.points[row.point];
    if (point.device != device || digest.keys[row.key].category != "activation") continue;
    bytes[point.name] += static_cast<double>(row.bytes);
  }
  return bytes;
}

}  // namespace

bool is_meant_to_stay(std::string_view category) {
  return category == "parameter" || category == "buffer" || category == "gradient" ||
         category == "optimizer_state";
}

Retention::Retention(const Digest& before, const Digest& after, const Alignment& alignment)
    : before_(side_of(before)), after_(side_of(after)), alignment_(alignment) {}

Retention::Side Retention::side_of(const Digest& digest) {
  Side side{&digest, std::vector<Counts>(digest.keys.size())};
  for (const DigestRow& row : digest.rows) {
    const std::string& point = digest.points[row.point].name;
    Counts& counts = side.counts[row.key];
    counts.most_bytes = std::max(counts.most_bytes, row.bytes);
    if (point == "step end") {
      counts.at_step_end += row.count;
      counts.bytes_at_step_end += row.bytes;
    }
    if (point == "end") counts.at_end += row.count;
  }
  return side;
}

Retention::Counts Retention::counts_of(const Side& side, const DigestKey* key) {
  return key == nullptr ? Counts{}
                        : side.counts[static_cast<std::size_t>(key - side.digest->keys.data())];
}

std::uint64_t Retention::steps_at_step_end(const std::string& device) const {
  for (const DigestPoint& point : after_.digest->points) {
    if (point.name != "step end" || point.device != device) continue;
    // Steps are numbered from 0, unless the program numbers them itself.
    if (point.step && *point.step < after_.digest->source.steps) return *point.step + 1;
  }
  return 0;
}

bool Retention::is_kept(const PairAtPoint& row) const {
  if (is_meant_to_stay(row.key().category)) return false;
  const Counts before = counts_of(before_, row.before_key);
  const Counts after = counts_of(after_, row.after_key);
  return after.at_step_end > before.at_step_end || after.at_end > before.at_end;
}

std::pair<std::uint64_t, std::uint64_t> Retention::kept_of(const PairAtPoint& row) const {
  const Counts before = counts_of(before_, row.before_key);
  const Counts after = counts_of(after_, row.after_key);
  // A program may free everything before it ends.
  return {
      excess(after.at_step_end, before.at_step_end),
      std::max(excess(after.at_end, before.at_end), excess(row.after_count(), row.before_count()))};
}

bool Retention::is_growing(const PairAtPoint& row) const {
  const auto [halfway, last] = kept_of(row);
  return is_kept(row) && last > halfway;
}

bool Retention::grow_each_step(const std::vector<PairAtPoint>& rows) const {
  const std::uint64_t steps = rows.empty() ? 0 : steps_at_step_end(rows.front().key().device);
  if (steps == 0) return false;
  const auto is_about = [](std::uint64_t kept, std::uint64_t of_steps) {
    return kept >= kLeastKept &&
           static_cast<double>(kept + 1) >= kAboutEachStep * static_cast<double>(of_steps);
  };
  std::uint64_t sum_halfway = 0;
  std::uint64_t sum_last = 0;
  for (const PairAtPoint& row : rows) {
    const auto [halfway, last] = kept_of(row);
    sum_halfway += halfway;
    sum_last += last;
  }
  return is_about(sum_halfway, steps) && is_about(sum_last, after_.digest->source.steps);
}

bool Retention::is_of_another_moment(const PairAtPoint& row, double scale) const {
  if (row.before_key == nullptr || row.after_key == nullptr) return false;
  if (!row.before_key->most_bytes || !row.after_key->most_bytes) return false;
  const std::int64_t most = *row.after_key->most_bytes;
  const std::int64_t most_before = *row.before_key->most_bytes;
  const bool is_as_before =
      scale == 1 ? most == most_before
                 : is_alike(static_cast<double>(most), scale * static_cast<double>(most_before));
  const Counts before = counts_of(before_, row.before_key);
  const Counts after = counts_of(after_, row.after_key);
  return is_as_before && before.bytes_at_step_end == after.bytes_at_step_end &&
         before.at_end == after.at_end;
}

std::uint64_t Retention::kept_per_step(const std::vector<PairAtPoint>& rows) const {
  std::uint64_t kept = 0;
  for (const PairAtPoint& row : rows) {
    kept += excess(counts_of(after_, row.after_key).at_step_end,
                   counts_of(before_, row.before_key).at_step_end);
  }
  const std::uint64_t steps =
      std::max<std::uint64_t>(rows.empty() ? 0 : steps_at_step_end(rows.front().key().device), 1);
  return std::max<std::uint64_t>((kept + steps / 2) / steps, 1);
}

// The first recording shows how large one graph is: the second one may have the graph of the
// previous step alongside. A hook that stores outputs keeps much, too, but what it keeps are
// outputs of modules, many of which no graph needs.
bool Retention::keeps_graph(const std::string& device) const {
  const auto key_in = [](const Side& side, std::optional<std::size_t> row) {
    return row ? &side.digest->keys[*row] : nullptr;
  };
  std::int64_t kept = 0;
  std::int64_t kept_of_graph = 0;  // no more of each key than the first recording has
  bool is_beyond_modules = false;
  for (const KeyPair& pair : alignment_.pairs) {
    const DigestKey* const key = key_in(after_, pair.after);
    if (key == nullptr || key->category != "activation" || key->device != device) continue;
    const Counts before = counts_of(before_, key_in(before_, pair.before));
    const std::int64_t more = counts_of(after_, key).bytes_at_step_end - before.bytes_at_step_end;
    if (more <= 0) continue;
    kept += more;
    kept_of_graph += std::min(more, before.most_bytes);
    is_beyond_modules = is_beyond_modules || key->layer.empty();
  }
  // Not at the peak: in an optimizer's step, few activations are live.
  double most = 0;
  for (const auto& [point, bytes] : activation_bytes(*before_.digest, device)) {
    most = std::max(most, bytes);
  }
  const auto bytes = static_cast<double>(kept);
  const bool is_graph = is_beyond_modules || 2 * kept_of_graph >= kept;
  return kept > 0 && bytes >= kMostOfGraph * most && is_graph;
}

}  // namespace plimsoll::comparison

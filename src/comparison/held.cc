#include "comparison/held.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "comparison/diff.h"
#include "comparison/retention.h"

namespace plimsoll::comparison {
namespace {

using report::DigestRow;

constexpr std::size_t kMostHolders = 3;

// Memory of one recording, with what holds it.
struct Side {
  std::uint64_t bytes = 0;
  std::vector<HeldBy> holders;  // most bytes first

  // What holds at least half of the bytes; null if nothing is known to.
  const FindingHolder* main() const {
    const bool is_main = !holders.empty() && holders[0].holder.bytes >= bytes - bytes / 2;
    return is_main ? &holders[0].holder : nullptr;
  }
  std::vector<FindingHolder> reported() const {
    std::vector<FindingHolder> rows;
    for (const HeldBy& each : holders) {
      if (main() == nullptr || rows.size() == kMostHolders) break;
      rows.push_back(each.holder);
    }
    return rows;
  }
};

// "kept in train (train.py:40)" -> "kept in train": the line changes with every edit.
std::string_view without_line(std::string_view path) {
  const std::size_t begin = path.rfind(" (");
  if (begin == std::string_view::npos || !path.ends_with(')')) return path;
  const std::string_view place = path.substr(begin + 2, path.size() - begin - 3);
  const std::size_t colon = place.rfind(':');
  if (colon == std::string_view::npos || colon + 1 == place.size()) return path;
  const std::string_view line = place.substr(colon + 1);
  const bool is_line = std::ranges::all_of(line, [](char c) { return c >= '0' && c <= '9'; });
  return is_line ? path.substr(0, begin) : path;
}

Side side_of(const std::vector<const PairAtPoint*>& rows, const DigestRow* PairAtPoint::* row_of) {
  Side side;
  std::map<std::string, HeldBy> by_path;
  std::map<std::string, std::uint64_t> most;  // of one row
  for (const PairAtPoint* const pair : rows) {
    const DigestRow* const row = pair->*row_of;
    if (row == nullptr) continue;
    side.bytes += static_cast<std::uint64_t>(std::max<std::int64_t>(row->bytes, 0));
    for (const HeldBy& each : row->holders) {
      const auto [found, is_new] = by_path.try_emplace(each.holder.path, each);
      std::uint64_t& largest = most[each.holder.path];
      if (!is_new) {
        const std::uint64_t bytes = found->second.holder.bytes + each.holder.bytes;
        const std::uint64_t count = found->second.holder.count + each.holder.count;
        if (each.holder.bytes > largest) found->second = each;  // its chain is the example
        found->second.holder.bytes = bytes;
        found->second.holder.count = count;
      }
      largest = std::max(largest, each.holder.bytes);
    }
  }
  for (auto& [path, holder] : by_path) side.holders.push_back(std::move(holder));
  std::ranges::stable_sort(side.holders, std::ranges::greater{},
                           [](const HeldBy& each) { return each.holder.bytes; });
  return side;
}

void name_holder(const std::vector<const PairAtPoint*>& rows, const report::Digest& before,
                 const report::Digest& after, DiffCause& cause) {
  const Side old_side = side_of(rows, &PairAtPoint::before);
  const Side new_side = side_of(rows, &PairAtPoint::after);
  cause.holders_before = old_side.reported();
  cause.holders = new_side.reported();
  const FindingHolder* const was = old_side.main();
  const FindingHolder* const is = new_side.main();
  if (was != nullptr && is != nullptr && without_line(was->path) == without_line(is->path)) return;
  if (is != nullptr) {
    const bool held_some = std::ranges::any_of(old_side.holders, [&](const HeldBy& each) {
      return without_line(each.holder.path) == without_line(is->path);
    });
    cause.held = "held by " + is->path + (before.knows_holders && !held_some ? " now" : "");
    cause.edit = new_side.holders[0].edit;
  }
  const bool is_over = is != nullptr || (after.knows_holders && cause.difference_bytes < 0);
  if (was != nullptr && is_over) {
    cause.held += (is != nullptr ? ", was held by " : "was held by ") + was->path;
  }
}

}  // namespace

bool is_held_alike(const DiffCause& one, const DiffCause& other) {
  return !one.edit.empty() && !other.edit.empty() && !one.holders.empty() &&
         !other.holders.empty() && one.holders.front().path == other.holders.front().path;
}

void name_holders(const std::vector<PairAtPoint>& rows, const report::Digest& before,
                  const report::Digest& after, Explained& explained) {
  std::vector<std::vector<const PairAtPoint*>> of_cause(explained.causes.size());
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (explained.of_row[row] < 0 || is_meant_to_stay(rows[row].key().category)) continue;
    of_cause[static_cast<std::size_t>(explained.of_row[row])].push_back(&rows[row]);
  }
  for (std::size_t cause = 0; cause < of_cause.size(); ++cause) {
    name_holder(of_cause[cause], before, after, explained.causes[cause]);
  }
}

}  // namespace plimsoll::comparison

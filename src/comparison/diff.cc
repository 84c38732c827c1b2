#include "comparison/diff.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/finding.h"
#include "base/units.h"
#include "comparison/cause_text.h"
#include "comparison/causes.h"
#include "comparison/held.h"
#include "comparison/repetitions.h"

namespace plimsoll::comparison {
namespace {

using report::Digest;
using report::DigestPoint;
using report::DigestRow;

constexpr double kMovedMatters = 0.05;  // of the difference

std::string signed_bytes(std::int64_t bytes) {
  return (bytes > 0 ? "+" : "") + base::bytes_text(bytes);
}

const DigestPoint* find_point(const Digest& digest, std::string_view device,
                              std::string_view name) {
  for (const DigestPoint& point : digest.points) {
    if (point.device == device && point.name == name) return &point;
  }
  return nullptr;
}

bool has_device(const Digest& digest, std::string_view device) {
  return std::ranges::find(digest.points, device, &DigestPoint::device) != digest.points.end();
}

// The index of a point in its digest. The number of points if the point is not the digest's own.
std::uint64_t index_of(const Digest& digest, const DigestPoint& point) {
  std::uint64_t index = 0;
  while (index < digest.points.size() && &digest.points[index] != &point) ++index;
  return index;
}

// The least and the most bytes of equal runs at a point, by key, for keys that vary.
std::map<std::size_t, std::pair<std::int64_t, std::int64_t>> ranges_at(const Digest& digest,
                                                                       const DigestPoint& point) {
  std::map<std::size_t, std::pair<std::int64_t, std::int64_t>> ranges;
  if (!digest.repeats) return ranges;
  const std::uint64_t index = index_of(digest, point);
  for (const report::DigestRange& range : digest.repeats->ranges) {
    if (range.point == index && range.key) {
      ranges.emplace(*range.key, std::pair(range.least_bytes, range.most_bytes));
    }
  }
  return ranges;
}

// The rows of one digest at one point, by key. A point that is not the digest's own has none.
std::map<std::size_t, const DigestRow*> rows_at(const Digest& digest, const DigestPoint& point) {
  const std::uint64_t index = index_of(digest, point);
  std::map<std::size_t, const DigestRow*> rows;
  for (const DigestRow& row : digest.rows) {
    if (row.point == index) rows.emplace(row.key, &row);
  }
  return rows;
}

std::string title_of(const DiffPoint& point) {
  static const std::map<std::string, std::string, std::less<>> kNames = {
      {"peak", "Peak"},
      {"forward", "Highest point of forward"},
      {"backward", "Highest point of backward"},
      {"optimizer", "Highest point of the optimizer"},
      {"data", "Highest point of data loading"},
      {"step end", "Memory at the end of a step"},
      {"oom", "Memory at the failed allocation"},
      {"end", "Memory at the end"}};
  const auto name = kNames.find(point.name);
  std::string text = name == kNames.end() ? point.name : name->second;
  text += " on " + point.device;
  if (point.difference_bytes == 0) {
    return text + " is unchanged at " + base::bytes_text(point.after_bytes) +
           ", but consists of different memory";
  }
  text += point.difference_bytes > 0 ? " grew by " : " shrank by ";
  text += base::bytes_text(std::abs(point.difference_bytes));
  if (point.before_bytes > 0) {
    text += " (" + std::string(point.difference_bytes > 0 ? "+" : "") +
            base::format_percent(static_cast<double>(point.difference_bytes) /
                                 static_cast<double>(point.before_bytes)) +
            ")";
  }
  return text + ", from " + base::bytes_text(point.before_bytes) + " to " +
         base::bytes_text(point.after_bytes);
}

// `causes` are the causes to list as evidence.
Finding describe_point(const DiffPoint& point, const std::vector<const DiffCause*>& causes,
                       std::size_t most_evidence) {
  Finding finding;
  const bool is_peak = point.name == "peak";
  const std::int64_t difference = point.difference_bytes;
  finding.id = std::string(is_peak ? "peak" : "memory") + (difference > 0   ? "_grew"
                                                           : difference < 0 ? "_shrank"
                                                                            : "_differs");
  finding.severity = difference > 0 ? FindingSeverity::kWarning : FindingSeverity::kInfo;
  finding.title = title_of(point);
  std::int64_t rest = difference;
  for (const DiffCause* const cause : causes) {
    if (finding.evidence.size() == most_evidence) break;
    finding.evidence.push_back(signed_bytes(cause->difference_bytes) + ": " + cause_text(*cause));
    rest -= cause->difference_bytes;
  }
  if (rest != 0) {
    finding.evidence.push_back(signed_bytes(rest) + (finding.evidence.size() == point.causes.size()
                                                         ? ": everything else"
                                                         : ": other causes"));
  }
  finding.evidence.push_back(
      "Sum: " + base::format_count(static_cast<std::uint64_t>(std::abs(difference))) + " B " +
      (difference < 0 ? "less." : "more."));
  if (causes.empty()) return finding;
  // The edit at the first cause's holder also ends what it holds of the other causes.
  DiffCause first = *causes.front();
  std::int64_t held_bytes = first.difference_bytes;
  const std::int64_t growth = std::max<std::int64_t>(difference, 0);
  for (const DiffCause* const cause : std::span(causes).subspan(1)) {
    if (!is_held_alike(first, *cause)) continue;
    held_bytes += cause->difference_bytes;
    first.holders.front().bytes += cause->holders.front().bytes;
    first.holders.front().count += cause->holders.front().count;
  }
  finding.steps = steps_of(first, std::min(first.own_bytes, growth), std::min(held_bytes, growth));
  if (first.held.empty() || first.holders.empty()) return finding;
  finding.holders = first.holders;
  finding.evidence.push_back(holder_text(first.holders.front()));
  return finding;
}

class Comparer {
 public:
  Comparer(const Digest& before, const Digest& after, const DiffOptions& options)
      : before_(before), after_(after), options_(options), alignment_(align(before, after)) {}

  Diff run() {
    diff_.before = before_.source;
    diff_.after = after_.source;
    for (const DigestPoint& point : before_.points) {
      if (!options_.at.empty() && options_.at != point.name) continue;
      const DigestPoint* const other = find_point(after_, point.device, point.name);
      if (other != nullptr) add_point(point, *other);
    }
    if (!diff_.points.empty() && options_.compares_devices_of_one) add_devices_of_one();
    add_notes();
    add_incomplete(before_.source);
    add_incomplete(after_.source);
    add_findings();
    return std::move(diff_);
  }

 private:
  // Adds the points of devices that only one recording has: the other has 0 bytes there.
  void add_devices_of_one() {
    const auto is_alone = [&](const DigestPoint& point, const Digest& other) {
      return (options_.at.empty() || options_.at == point.name) && !has_device(other, point.device);
    };
    const auto without_bytes = [](DigestPoint point) {
      point.bytes = 0;
      point.unused.reset();
      return point;
    };
    for (const DigestPoint& point : before_.points) {
      if (is_alone(point, after_)) add_point(point, without_bytes(point));
    }
    for (const DigestPoint& point : after_.points) {
      if (is_alone(point, before_)) add_point(without_bytes(point), point);
    }
  }

  void add_incomplete(const report::DigestSource& source) {
    if (!source.incomplete) return;
    Finding finding;
    finding.id = kRecordingIncomplete;
    finding.severity = FindingSeverity::kWarning;
    finding.title = source.path + " is incomplete, so its totals may be wrong";
    finding.evidence.push_back(*source.incomplete + ".");
    finding.steps = {{"Record it again: differences may come from what is missing."}};
    diff_.findings.push_back(std::move(finding));
  }

  void add_point(const DigestPoint& before, const DigestPoint& after) {
    DiffPoint out;
    out.device = before.device;
    out.name = before.name;
    out.before_bytes = before.bytes;
    out.after_bytes = after.bytes;
    out.difference_bytes = after.bytes - before.bytes;
    out.unused = unused_of(before, after);
    const auto [from, to] = comparable(before, after);
    const std::int64_t moved = (from->bytes - before.bytes) + (after.bytes - to->bytes);
    if (from != &before) out.compared_with = from->name;
    if (to != &after) out.compared_with = to->name;

    const std::vector<PairAtPoint> pairs = without_moved_lines(pairs_at(*from, *to));
    const auto larger = static_cast<double>(std::max(before.bytes, after.bytes));
    const auto least = static_cast<std::int64_t>(std::ceil(options_.negligible * larger));
    ExplainOptions options{.least_bytes = std::max<std::int64_t>(least, 1)};
    const std::string title = "the " +
                              std::string(before.name == "peak" ? "peak" : "highest point") +
                              " moved from " + where(before) + " to " + where(after);
    if (!is_one_moment(*from, *to)) options.moved = title;
    Explained explained = explain(pairs, before_, after_, alignment_, options);
    name_holders(pairs, before_, after_, explained);
    out.everything_else_bytes = explained.everything_else_bytes;
    out.causes = std::move(explained.causes);
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (pairs[i].difference() != 0) out.rows.push_back(row_of(pairs[i], explained.of_row[i]));
    }
    std::ranges::stable_sort(out.rows, {},
                             [](const DiffRow& row) { return -std::abs(row.difference_bytes); });
    if (!out.compared_with.empty()) {
      if (out.causes.empty() || out.causes.back().id != "peak_moved") {
        out.causes.push_back(
            {.id = "peak_moved", .title = title, .subject = {}, .place = {}, .category = {}});
      }
      out.causes.back().difference_bytes += moved;
    }
    for (DiffCause& cause : out.causes) {
      if (cause.id == "peak_moved") cause.subject = where(after);
    }
    check_sums(out, moved);
    diff_.points.push_back(std::move(out));
  }

  static std::optional<DiffUnused> unused_of(const DigestPoint& before, const DigestPoint& after) {
    if (!before.unused || !after.unused) return std::nullopt;
    return DiffUnused{.before_bytes = before.unused->bytes,
                      .after_bytes = after.unused->bytes,
                      .difference_bytes = after.unused->bytes - before.unused->bytes,
                      .is_sampled = before.unused->steps != "all" || after.unused->steps != "all"};
  }

  // The points whose rows are compared. If the peaks are in different phases, the higher peak is
  // compared with the highest point of the same phase in the other digest; peak_moved covers the
  // difference between that point and the other peak.
  std::pair<const DigestPoint*, const DigestPoint*> comparable(const DigestPoint& before,
                                                               const DigestPoint& after) const {
    const bool is_alike = before.phase == after.phase || before.bytes == after.bytes;
    if (before.name != "peak" || is_alike) return {&before, &after};
    const bool is_growth = after.bytes > before.bytes;
    const std::string& phase = is_growth ? after.phase : before.phase;
    const DigestPoint* const other = find_point(is_growth ? before_ : after_, before.device, phase);
    if (other == nullptr) return {&before, &after};
    return is_growth ? std::pair(other, &after) : std::pair(&before, other);
  }

  bool is_one_moment(const DigestPoint& before, const DigestPoint& after) const {
    return before.phase == after.phase && alignment_.modules.name_before(before.layer) ==
                                              alignment_.modules.name_after(after.layer);
  }

  std::vector<PairAtPoint> pairs_at(const DigestPoint& before, const DigestPoint& after) const {
    const auto rows_before = rows_at(before_, before);
    const auto rows_after = rows_at(after_, after);
    const auto row_in = [](const auto& rows, std::size_t key) {
      const auto found = rows.find(key);
      return found == rows.end() ? nullptr : found->second;
    };
    const auto ranges_before = ranges_at(before_, before);
    const auto ranges_after = ranges_at(after_, after);
    const auto range_in = [](const auto& ranges, std::optional<std::size_t> key,
                             std::int64_t bytes) {
      const auto found = key ? ranges.find(*key) : ranges.end();
      return found == ranges.end() ? std::pair(bytes, bytes) : found->second;
    };
    std::vector<PairAtPoint> pairs;
    for (const KeyPair& pair : alignment_.pairs) {
      PairAtPoint at;
      at.pairing = pair.pairing;
      if (pair.before) {
        at.before_key = &before_.keys[*pair.before];
        at.before = row_in(rows_before, *pair.before);
      }
      if (pair.after) {
        at.after_key = &after_.keys[*pair.after];
        at.after = row_in(rows_after, *pair.after);
      }
      if (at.before == nullptr && at.after == nullptr) continue;
      at.layer = at.after_key != nullptr ? alignment_.modules.name_after(at.after_key->layer)
                                         : alignment_.modules.name_before(at.before_key->layer);
      const auto [least, most] = range_in(ranges_before, pair.before, at.before_bytes());
      const auto [low, high] = range_in(ranges_after, pair.after, at.after_bytes());
      // As for a whole point: a difference exceeds the ranges by more than the wider one.
      const std::int64_t range = std::max(most - least, high - low);
      at.is_within_range = range > 0 && std::max(low - most, least - high) <= range;
      pairs.push_back(at);
    }
    return pairs;
  }

  // Removes the rows of functions that allocate as much as before, but on other lines, because a
  // line was split or joined; and those of lines that were moved to another function. The
  // differences of the removed rows sum to 0.
  std::vector<PairAtPoint> without_moved_lines(std::vector<PairAtPoint> pairs) const {
    using Group =
        std::tuple<std::string, std::string, std::string, std::string, std::string, std::string>;
    struct Change {
      std::int64_t bytes = 0;
      std::int64_t count = 0;
    };
    // Pairs have one layer: pairing requires it.
    const auto group_of_key = [&](const PairAtPoint& pair, const report::DigestKey& key) {
      const bool is_old = &key == pair.before_key;
      return Group(key.category, key.phase, pair.layer, key.op,
                   pair.pairing == Pairing::kMoved ? std::string()
                   : is_old ? alignment_.modules.function_before(key.function)
                            : key.function,
                   key.dtype);
    };
    const auto group_of = [&](const PairAtPoint& pair) { return group_of_key(pair, pair.key()); };
    const auto is_in_one_group = [&](const PairAtPoint& pair) {
      return pair.before_key == nullptr || pair.after_key == nullptr ||
             group_of_key(pair, *pair.before_key) == group_of_key(pair, *pair.after_key);
    };
    std::map<Group, Change> changes;
    for (const PairAtPoint& pair : pairs) {
      if (!is_in_one_group(pair)) continue;
      Change& change = changes[group_of(pair)];
      change.bytes += pair.difference();
      change.count += static_cast<std::int64_t>(pair.after_count()) -
                      static_cast<std::int64_t>(pair.before_count());
    }
    std::erase_if(pairs, [&](const PairAtPoint& pair) {
      if (pair.difference() == 0 || !is_in_one_group(pair)) return false;
      const Change& change = changes.at(group_of(pair));
      return change.bytes == 0 && change.count == 0;
    });
    return pairs;
  }

  static DiffRow row_of(const PairAtPoint& pair, std::int64_t cause) {
    DiffRow row;
    const report::DigestKey& key = pair.key();
    row.category = key.category;
    row.layer = key.layer;
    row.op = key.op;
    row.function = key.function;
    row.place = key.place;
    row.pairing = to_string(pair.pairing);
    row.before_bytes = pair.before_bytes();
    row.after_bytes = pair.after_bytes();
    row.before_count = pair.before_count();
    row.after_count = pair.after_count();
    row.difference_bytes = pair.difference();
    if (cause >= 0) row.cause = static_cast<std::uint64_t>(cause);
    return row;
  }

  static void check_sums(const DiffPoint& point, std::int64_t moved) {
    std::int64_t of_rows = moved;
    for (const DiffRow& row : point.rows) of_rows += row.difference_bytes;
    std::int64_t of_causes = point.everything_else_bytes;
    for (const DiffCause& cause : point.causes) of_causes += cause.difference_bytes;
    PLIMSOLL_CHECK(of_rows == point.difference_bytes);
    PLIMSOLL_CHECK(of_causes == point.difference_bytes);
  }

  static std::string where(const DigestPoint& point) {
    std::string text = point.phase.empty() ? "no phase" : point.phase;
    return point.layer.empty() ? text : text + " of " + point.layer;
  }

  void add_notes() {
    const auto differ = [&](const char* what, const std::string& before, const std::string& after) {
      if (before == after) return;
      const auto shown = [](const std::string& text) { return text.empty() ? "unknown" : text; };
      diff_.notes.push_back(std::string(what) + " differs: " + shown(before) + " before, " +
                            shown(after) + " after.");
    };
    const auto& before = before_.source;
    const auto& after = after_.source;
    differ("The format of the recording", before.format, after.format);
    differ("The version of PyTorch", before.torch, after.torch);
    differ("The version of Python", before.python, after.python);
    differ("The version of Plimsoll", before.plimsoll, after.plimsoll);
    differ("The number of threads", before.threads.value_or(""), after.threads.value_or(""));
    differ("The mode of the recording", before.mode.value_or(""), after.mode.value_or(""));
    differ("The number of steps", std::to_string(before.steps), std::to_string(after.steps));
    differ("The rank", before.rank ? std::to_string(*before.rank) : "",
           after.rank ? std::to_string(*after.rank) : "");
    if (before_.modules.empty() || after_.modules.empty()) {
      diff_.notes.emplace_back("A recording has no layers: compared by function and line.");
    }
    add_note_on_uses();
    for (const auto& [digest, other, which] :
         {std::tuple(&before_, &after_, "first"), std::tuple(&after_, &before_, "second")}) {
      for (const DigestPoint& point : digest->points) {
        if (find_point(*other, point.device, point.name) != nullptr) continue;
        const bool has_other_points = has_device(*other, point.device);
        if (!has_other_points && point.name == "peak") {
          diff_.notes.push_back(
              "Only the " + std::string(which) + " recording has the device " + point.device +
              (options_.compares_devices_of_one ? "." : ", which is not compared."));
        }
        if (!has_other_points) continue;
        diff_.notes.push_back("Only the " + std::string(which) + " recording has the point " +
                              point.name + " of " + point.device + ".");
      }
    }
  }

  void add_note_on_uses() {
    for (const DigestPoint& point : before_.points) {
      const DigestPoint* const other = find_point(after_, point.device, point.name);
      if (other == nullptr || !point.unused || !other->unused) continue;
      if (point.unused->steps == other->unused->steps) continue;
      diff_.notes.push_back("Uses of memory on " + point.device + " were observed in " +
                            point.unused->steps + " steps before, in " + other->unused->steps +
                            " steps after.");
    }
  }

  // Adds the peak first, then the other points by their difference, then unchanged ones. Lists each
  // cause once and skips a point whose largest cause is already listed.
  void add_findings() {
    std::vector<const DiffPoint*> order;
    for (const DiffPoint& point : diff_.points) order.push_back(&point);
    std::ranges::stable_sort(order, {}, [](const DiffPoint* point) {
      return std::tuple(point->difference_bytes == 0, point->name != "peak",
                        -std::abs(point->difference_bytes));
    });
    std::set<CauseName> listed;
    for (const DiffPoint* const point : order) {
      std::vector<const DiffCause*> causes;
      if (!point->causes.empty() && listed.contains(name_of(*point, point->causes[0]))) continue;
      for (const DiffCause& cause : point->causes) {
        if (is_worth_listing(cause, *point) && listed.insert(name_of(*point, cause)).second) {
          causes.push_back(&cause);
        }
      }
      const bool has_cause = std::ranges::any_of(
          causes, [](const DiffCause* cause) { return cause->id != "peak_moved"; });
      if (has_cause)
        diff_.findings.push_back(describe_point(*point, causes, options_.most_evidence));
    }
  }

  using CauseName = std::tuple<std::string, std::string, std::string>;

  static CauseName name_of(const DiffPoint& point, const DiffCause& cause) {
    return {point.device, cause.id, cause.subject};
  }

  static bool is_worth_listing(const DiffCause& cause, const DiffPoint& point) {
    return cause.id != "peak_moved" ||
           std::abs(static_cast<double>(cause.difference_bytes)) >
               kMovedMatters * std::abs(static_cast<double>(point.difference_bytes));
  }

  const Digest& before_;
  const Digest& after_;
  const DiffOptions& options_;
  Alignment alignment_;
  Diff diff_;
};

}  // namespace

std::int64_t Diff::growth_bytes() const {
  std::int64_t most = 0;
  for (const DiffPoint& point : points) most = std::max(most, point.difference_bytes);
  return most;
}

std::string unused_text(const DiffPoint& point) {
  if (!point.unused || point.unused->difference_bytes == 0) return {};
  const std::int64_t difference = point.unused->difference_bytes;
  return "No operator uses " + base::bytes_text(point.unused->after_bytes) +
         " of the peak again, " + base::bytes_text(std::abs(difference)) +
         (difference > 0 ? " more" : " less") + " than before.";
}

std::string cause_text(const DiffCause& cause) {
  std::string text = cause.title;
  if (!cause.place.empty() && cause.id != "scaled" && cause.id != "dtype_changed") {
    text += ", at " + cause.place;
  }
  if (!cause.held.empty()) text += ", " + cause.held;
  return cause.is_assumed ? text + " (assumed to be the same)" : text;
}

Finding finding_of(const DiffPoint& point, std::size_t most_evidence) {
  std::vector<const DiffCause*> causes;
  for (const DiffCause& cause : point.causes) causes.push_back(&cause);
  return describe_point(point, causes, most_evidence);
}

Diff compare(const Digest& before, const Digest& after, const DiffOptions& options) {
  const auto [from, to] = with_changed_repetitions(before, after, ModulePairs(before, after));
  return Comparer(from, to, options).run();
}

}  // namespace plimsoll::comparison

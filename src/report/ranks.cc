#include "report/ranks.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/units.h"
#include "report/text_layout.h"
#include "report/text_table.h"
#include "report/text_words.h"

namespace plimsoll::report {
namespace {

constexpr double kUnlike = 0.1;                              // of the median: what is worth a word
constexpr std::int64_t kLeastBytes = std::int64_t{1} << 20;  // below, nobody cares

struct Rank {
  std::int64_t number = 0;
  std::size_t report = 0;                // which one
  const DeviceReport* device = nullptr;  // the fullest, before all others one that is not the CPU
  std::int64_t peak_bytes = 0;
  std::map<std::string, std::int64_t> categories;  // at the peak
  const Oom* oom = nullptr;                        // the first
};

std::string name_of(const Rank& rank) { return "rank " + std::to_string(rank.number); }

const DeviceReport* main_device(const Report& report) {
  const auto weight = [](const DeviceReport& device) {
    return std::pair(device.device_type != "cpu", device.held().peak_bytes);
  };
  const DeviceReport* best = nullptr;
  for (const DeviceReport& device : report.devices) {
    if (!has_content(device)) continue;
    if (best == nullptr || weight(device) > weight(*best)) best = &device;
  }
  return best;
}

const Oom* first_oom(const Report& report) {
  const Oom* first = nullptr;
  for (const DeviceReport& device : report.devices) {
    for (const Oom& oom : device.ooms) {
      if (first == nullptr || oom.time_ns < first->time_ns) first = &oom;
    }
  }
  return first;
}

// What the tables tell of the device's peak; null where they speak of another moment.
const MomentRow* peak_of(const Report& report, const DeviceReport& device) {
  const auto is_it = [&](const MomentRow& moment) {
    return moment.device == device.device && moment.name == "peak";
  };
  const auto found = std::ranges::find_if(report.tables.moments, is_it);
  return found == report.tables.moments.end() ? nullptr : &*found;
}

Rank rank_of(const Report& report, std::size_t number) {
  Rank rank;
  rank.number = *report.source.rank;
  rank.report = number;
  rank.device = main_device(report);
  rank.oom = first_oom(report);
  if (rank.device == nullptr) return rank;
  rank.peak_bytes = rank.device->held().peak_bytes;
  if (peak_of(report, *rank.device) == nullptr) return rank;
  for (const GroupRow& row : report.tables.by_category) {
    if (row.device != rank.device->device) continue;
    if (row.key.starts_with("[other")) {  // rows were left out: what is not there is not 0
      rank.categories.clear();
      break;
    }
    rank.categories[row.key] = static_cast<std::int64_t>(row.bytes);
  }
  return rank;
}

// The middle one; of an even number the lower of the two, which is a rank's own figure.
std::int64_t median_of(std::vector<std::int64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::int64_t median_peak(const std::vector<Rank>& ranks) {
  std::vector<std::int64_t> peaks;
  for (const Rank& rank : ranks) peaks.push_back(rank.peak_bytes);
  return median_of(std::move(peaks));
}

std::int64_t distance(const Rank& rank, std::int64_t median) {
  return rank.peak_bytes > median ? rank.peak_bytes - median : median - rank.peak_bytes;
}

bool is_unlike(const Rank& rank, std::int64_t median) {
  return distance(rank, median) >= kLeastBytes &&
         static_cast<double>(distance(rank, median)) > kUnlike * static_cast<double>(median);
}

std::int64_t bytes_of(const Rank& rank, const std::string& category) {
  const auto found = rank.categories.find(category);
  return found == rank.categories.end() ? 0 : found->second;
}

// The category that sets the rank apart most; empty where not all ranks tell theirs.
std::string what_differs(const Rank& rank, const std::vector<Rank>& ranks) {
  std::set<std::string> categories;
  for (const Rank& each : ranks) {
    if (each.categories.empty()) return "";
    for (const auto& [category, bytes] : each.categories) categories.insert(category);
  }
  std::string text;
  std::int64_t most = 0;
  for (const std::string& category : categories) {
    std::vector<std::int64_t> all;
    for (const Rank& each : ranks) all.push_back(bytes_of(each, category));
    const std::int64_t usual = median_of(std::move(all));
    const std::int64_t apart = bytes_of(rank, category) - usual;
    if (std::max(apart, -apart) <= most) continue;
    most = std::max(apart, -apart);
    text = "What sets it apart most is " + category + ": " +
           base::format_bytes(bytes_of(rank, category)) + " at its peak, " +
           base::format_bytes(usual) + " in the median of the ranks";
  }
  return text;
}

std::optional<Finding> failure_finding(const std::vector<Rank>& ranks) {
  std::vector<const Rank*> failed;
  for (const Rank& rank : ranks) {
    if (rank.oom != nullptr) failed.push_back(&rank);
  }
  if (failed.empty()) return std::nullopt;
  std::ranges::stable_sort(failed, {}, [](const Rank* rank) { return rank->oom->time_ns; });
  const Rank& first = *failed.front();
  Finding finding{"out_of_memory", FindingSeverity::kCritical, {}, {}, {}, 0};
  finding.title = "Rank " + std::to_string(first.number) + " ran out of memory";
  if (failed.size() > 1)
    finding.title += " first, of " + std::to_string(failed.size()) + " that did";
  finding.evidence.push_back("It requested " + bytes_text(first.oom->requested_bytes));
  for (const Rank* later : failed) {
    if (later == &first || !first.oom->time_ns || !later->oom->time_ns) continue;
    finding.evidence.push_back("Rank " + std::to_string(later->number) + " followed after " +
                               base::format_duration(*later->oom->time_ns - *first.oom->time_ns) +
                               ", by its clock");
    if (finding.evidence.size() == 4) break;
  }
  finding.next_step =
      "Begin with " + name_of(first) + "'s report; the others often fail only because it did";
  return finding;
}

std::optional<Finding> imbalance_finding(const std::vector<Rank>& ranks, std::int64_t median) {
  std::vector<const Rank*> unlike;
  for (const Rank& rank : ranks) {
    if (is_unlike(rank, median)) unlike.push_back(&rank);
  }
  if (unlike.empty()) return std::nullopt;
  const Rank& odd = **std::ranges::max_element(
      unlike, {}, [&](const Rank* rank) { return distance(*rank, median); });
  const bool is_above = odd.peak_bytes > median;
  Finding finding{"ranks_differ", FindingSeverity::kWarning, {}, {}, {}, 0};
  finding.title = "Rank " + std::to_string(odd.number) + " peaks at " +
                  base::format_bytes(odd.peak_bytes) + ", " +
                  base::format_bytes(distance(odd, median)) + (is_above ? " above" : " below") +
                  " the median of " + std::to_string(ranks.size()) + " ranks (" +
                  base::format_bytes(median) + ")";
  const std::string difference = what_differs(odd, ranks);
  if (!difference.empty()) finding.evidence.push_back(difference);
  if (unlike.size() > 1) {
    finding.evidence.push_back(std::to_string(unlike.size()) + " of " +
                               std::to_string(ranks.size()) +
                               " ranks are more than 10 % from the median");
  }
  finding.next_step = is_above
                          ? "Examine what " + name_of(odd) +
                                " alone does: its part of the model, longer batches, gathering "
                                "and logging"
                          : "If the ranks are meant to be alike, " + name_of(odd) +
                                " has free memory that the others lack: balance their memory";
  finding.saving_bytes = is_above ? static_cast<std::uint64_t>(distance(odd, median)) : 0;
  return finding;
}

std::string step_at_peak(const Report& report, const Rank& rank) {
  const MomentRow* peak = rank.device == nullptr ? nullptr : peak_of(report, *rank.device);
  if (peak == nullptr || !peak->step) return "";
  return base::format_count(*peak->step) +
         (peak->layer.empty() ? "" : " in " + printable(peak->layer));
}

std::string table_of(const std::vector<Rank>& ranks, const std::vector<Report>& reports,
                     std::int64_t median, const TextOptions& options) {
  using enum TextTable::Align;
  TextTable table({{"rank"},
                   {"peak"},
                   {"to the median"},
                   {"at the end"},
                   {"device", kWords},
                   {"peak at step", kWords},
                   {"file", kWords}});
  for (const Rank& rank : ranks) {
    const std::int64_t apart = rank.peak_bytes - median;
    const bool has_device = rank.device != nullptr;
    const Style style = rank.oom != nullptr       ? Style::kCritical
                        : is_unlike(rank, median) ? Style::kWarning
                                                  : Style::kPlain;
    const std::string device = has_device ? device_name(*rank.device) : "-";
    table.add_row(
        {std::to_string(rank.number), base::format_bytes(rank.peak_bytes),
         (apart > 0 ? "+" : "") + base::format_bytes(apart),
         has_device ? base::format_bytes(rank.device->held().end_bytes) : "-",
         device + (rank.oom != nullptr ? ", out of memory" : ""),
         step_at_peak(reports[rank.report], rank), printable(reports[rank.report].source.path)},
        style);
  }
  return table.to_text(options.width, options.color);
}

}  // namespace

std::optional<RankComparison> compare_ranks(const std::vector<Report>& reports,
                                            const TextOptions& options) {
  std::vector<Rank> ranks;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if (!reports[i].source.rank) return std::nullopt;
    ranks.push_back(rank_of(reports[i], i));
  }
  std::ranges::sort(ranks, {}, &Rank::number);
  const bool is_twice = std::ranges::adjacent_find(ranks, {}, &Rank::number) != ranks.end();
  if (ranks.size() < 2 || is_twice) return std::nullopt;

  const std::int64_t median = median_peak(ranks);
  RankComparison comparison;
  const auto failure = failure_finding(ranks);
  const auto imbalance = imbalance_finding(ranks, median);
  if (failure) comparison.findings.push_back(*failure);
  if (imbalance) comparison.findings.push_back(*imbalance);
  comparison.table = table_of(ranks, reports, median, options);
  const auto worth = [&](const Rank& rank) {
    // Who failed, the earlier the better; then who is furthest from the others; then the fullest.
    const bool has_failed = rank.oom != nullptr;
    const std::int64_t failed_ns = has_failed ? -rank.oom->time_ns.value_or(0) : 0;
    const std::int64_t apart = is_unlike(rank, median) ? distance(rank, median) : 0;
    return std::tuple(has_failed, failed_ns, apart, rank.peak_bytes);
  };
  comparison.first_to_read = std::ranges::max_element(ranks, {}, worth)->report;
  return comparison;
}

}  // namespace plimsoll::report

#include "comparison/ranks.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/units.h"
#include "report/devices.h"
#include "report/rest_row.h"

namespace plimsoll::comparison {
namespace {

using report::DeviceReport;
using report::Finding;
using report::FindingSeverity;
using report::Oom;
using report::PointInTime;
using report::Report;

constexpr double kDiffers = 0.1;                             // share of the median
constexpr std::int64_t kLeastBytes = std::int64_t{1} << 20;  // smaller differences are not reported

// A rank and its categories at the peak; empty unless all categories are known.
struct Rank {
  RankRow row;
  std::map<std::string, std::int64_t> categories;
};

std::string name_of(const Rank& rank) { return "rank " + std::to_string(rank.row.number); }

const Oom* first_oom(const Report& report) {
  const Oom* first = nullptr;
  for (const DeviceReport& device : report.devices) {
    for (const Oom& oom : device.ooms) {
      if (first == nullptr || oom.time_ns < first->time_ns) first = &oom;
    }
  }
  return first;
}

const PointInTime* peak_of(const Report& report, const DeviceReport& device) {
  const auto is_it = [&](const PointInTime& point) {
    return point.device == device.device && point.name == "peak";
  };
  const auto found = std::ranges::find_if(report.tables.points, is_it);
  return found == report.tables.points.end() ? nullptr : &*found;
}

Rank rank_of(const Report& report, std::size_t index) {
  Rank rank;
  rank.row.number = *report.source.rank;
  rank.row.report = index;
  rank.row.device = report::main_device(report);
  rank.row.first_oom = first_oom(report);
  if (rank.row.device == nullptr) return rank;
  rank.row.peak_bytes = rank.row.device->live_totals().peak_bytes;
  rank.row.peak = peak_of(report, *rank.row.device);
  if (rank.row.peak == nullptr) return rank;
  for (const report::GroupRow& row : report.tables.by_category) {
    if (row.device != rank.row.device->device) continue;
    if (report::groups_in_rest(row.key)) {  // rows were omitted: a missing category is unknown
      rank.categories.clear();
      break;
    }
    rank.categories[row.key] = static_cast<std::int64_t>(row.bytes);
  }
  return rank;
}

// For an even number of values, the mean of the two middle ones.
std::int64_t median_of(std::vector<std::int64_t> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return values[middle - 1] + (values[middle] - values[middle - 1]) / 2;
}

// What a rank is compared with: the median of all ranks or, if there are two, the other one.
struct Reference {
  std::int64_t peak_bytes = 0;
  std::string name;
};

Reference reference_of(const std::vector<Rank>& ranks) {
  if (ranks.size() == 2) {
    const Rank& lower = ranks[0].row.peak_bytes <= ranks[1].row.peak_bytes ? ranks[0] : ranks[1];
    return {lower.row.peak_bytes, name_of(lower)};
  }
  std::vector<std::int64_t> peaks;
  for (const Rank& rank : ranks) peaks.push_back(rank.row.peak_bytes);
  return {median_of(std::move(peaks)), "the median of " + std::to_string(ranks.size()) + " ranks"};
}

std::int64_t distance(const Rank& rank) { return std::abs(rank.row.difference_bytes); }

std::int64_t bytes_of(const Rank& rank, const std::string& category) {
  const auto found = rank.categories.find(category);
  return found == rank.categories.end() ? 0 : found->second;
}

// The category in which the rank differs most; empty unless the categories of all ranks are known.
std::string what_differs(const Rank& rank, const std::vector<Rank>& ranks) {
  std::set<std::string> categories;
  for (const Rank& each : ranks) {
    if (each.categories.empty()) return "";
    for (const auto& [category, bytes] : each.categories) categories.insert(category);
  }
  std::string text;
  std::int64_t most = 0;
  for (const std::string& category : categories) {
    std::vector<std::int64_t> others;
    for (const Rank& each : ranks) {
      if (ranks.size() > 2 || &each != &rank) others.push_back(bytes_of(each, category));
    }
    const std::int64_t usual = median_of(std::move(others));
    const std::int64_t apart = bytes_of(rank, category) - usual;
    if (std::max(apart, -apart) <= most) continue;
    most = std::max(apart, -apart);
    text = "The largest difference is in " + category + ": " +
           base::bytes_text(bytes_of(rank, category)) + " at its peak, " + base::bytes_text(usual) +
           (ranks.size() > 2 ? " in the median of the ranks." : " at the other rank's.");
  }
  return text;
}

std::optional<Finding> failure_finding(const std::vector<Rank>& ranks) {
  std::vector<const Rank*> failed;
  for (const Rank& rank : ranks) {
    if (rank.row.first_oom != nullptr) failed.push_back(&rank);
  }
  if (failed.empty()) return std::nullopt;
  std::ranges::stable_sort(failed, {},
                           [](const Rank* rank) { return rank->row.first_oom->time_ns; });
  const Rank& first = *failed.front();
  Finding finding{"out_of_memory", FindingSeverity::kCritical, {}, {}, {}};
  finding.title = "Rank " + std::to_string(first.row.number) + " ran out of memory";
  if (failed.size() > 1)
    finding.title += " first, of " + std::to_string(failed.size()) + " that did";
  if (const std::uint64_t requested = first.row.first_oom->requested_bytes; requested > 0) {
    finding.evidence.push_back("It requested " + base::bytes_text(requested) + ".");
  }
  for (const Rank* later : failed) {
    if (later == &first || !first.row.first_oom->time_ns || !later->row.first_oom->time_ns)
      continue;
    finding.evidence.push_back(
        "Rank " + std::to_string(later->row.number) + " followed after " +
        base::format_duration(*later->row.first_oom->time_ns - *first.row.first_oom->time_ns) +
        ", by its clock.");
    if (finding.evidence.size() == 4) break;
  }
  finding.steps = {{"Begin with the report of " + name_of(first) +
                    "; the others often fail only because it did."}};
  return finding;
}

std::optional<Finding> imbalance_finding(const std::vector<Rank>& ranks,
                                         const Reference& reference) {
  const auto differing = std::ranges::count_if(ranks, [](const Rank& r) { return r.row.differs; });
  if (differing == 0) return std::nullopt;
  const Rank& odd = *std::ranges::max_element(ranks, {}, distance);
  const bool is_above = odd.row.difference_bytes > 0;
  Finding finding{"ranks_differ", FindingSeverity::kWarning, {}, {}, {}};
  finding.title = "Rank " + std::to_string(odd.row.number) + " peaks at " +
                  base::bytes_text(odd.row.peak_bytes) + ", " + base::bytes_text(distance(odd)) +
                  (is_above ? " above " : " below ") + reference.name + " (" +
                  base::bytes_text(reference.peak_bytes) + ")";
  const std::string difference = what_differs(odd, ranks);
  if (!difference.empty()) finding.evidence.push_back(difference);
  if (differing > 1) {
    finding.evidence.push_back(std::to_string(differing) + " of " + std::to_string(ranks.size()) +
                               " ranks are more than 10% from the median.");
  }
  finding.steps = {
      is_above ? step_up_to("Examine what only " + name_of(odd) +
                                " does: its part of the model, longer batches, gathering and "
                                "logging.",
                            static_cast<std::uint64_t>(distance(odd)))
               : report::FindingStep{"If the ranks are meant to be alike, balance their memory: " +
                                     name_of(odd) + " has free memory that the others lack."}};
  return finding;
}

// The line that holds most of a device at its peak; empty if it is unknown.
std::string largest_line(const Report& report, std::int32_t device) {
  for (const report::GroupRow& row : report.tables.by_line) {
    if (row.device == device && !report::groups_in_rest(row.key)) return row.key;
  }
  return {};
}

// Finds a rank that has memory on the device that another rank of the same machine uses. Common
// causes are torch.load() without map_location and a tensor created before torch.cuda.set_device().
std::optional<Finding> shared_device_finding(const std::vector<Rank>& ranks,
                                             const std::vector<Report>& reports) {
  std::map<std::pair<std::string, std::int32_t>, const Rank*> owners;
  for (const Rank& rank : ranks) {
    if (rank.row.device == nullptr || rank.row.device->device < 0) return std::nullopt;
    const std::string& host = reports[rank.row.report].source.host;
    // Model parallel ranks share devices on purpose.
    if (!owners.emplace(std::pair(host, rank.row.device->device), &rank).second) return {};
  }
  Finding finding{"device_of_another_rank", FindingSeverity::kWarning, {}, {}, {}};
  std::uint64_t all_bytes = 0;
  for (const Rank& rank : ranks) {
    const Report& report = reports[rank.row.report];
    for (const DeviceReport& device : report.devices) {
      const auto owner = owners.find({report.source.host, device.device});
      const std::int64_t bytes = device.live_totals().peak_bytes;
      if (owner == owners.end() || owner->second == &rank || bytes < kLeastBytes) continue;
      const std::string name = device.device_type + ":" + std::to_string(device.device);
      const std::string line = largest_line(report, device.device);
      finding.evidence.push_back("Rank " + std::to_string(rank.row.number) + " holds up to " +
                                 base::bytes_text(bytes) + " on " + name + ", the device of " +
                                 name_of(*owner->second) +
                                 (line.empty() ? "." : ": " + line + "."));
      all_bytes += static_cast<std::uint64_t>(bytes);
      if (finding.title.empty()) {
        finding.title = "Rank " + std::to_string(rank.row.number) + " uses " + name +
                        ", the device of " + name_of(*owner->second) + ": " +
                        base::bytes_text(bytes);
      }
    }
  }
  if (finding.evidence.empty()) return std::nullopt;
  finding.steps = {
      step_up_to("Call torch.cuda.set_device(local_rank) before anything is allocated, pass "
                 "map_location=\"cpu\" or the rank's own device to torch.load(), and give each "
                 "rank a device of its own.",
                 all_bytes)};
  return finding;
}

}  // namespace

std::optional<RankComparison> compare_ranks(const std::vector<Report>& reports) {
  std::vector<Rank> ranks;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if (!reports[i].source.rank) return std::nullopt;
    ranks.push_back(rank_of(reports[i], i));
  }
  const auto number = [](const Rank& rank) { return rank.row.number; };
  std::ranges::sort(ranks, {}, number);
  const bool is_twice = std::ranges::adjacent_find(ranks, {}, number) != ranks.end();
  if (ranks.size() < 2 || is_twice) return std::nullopt;

  const Reference reference = reference_of(ranks);
  for (Rank& rank : ranks) {
    rank.row.difference_bytes = rank.row.peak_bytes - reference.peak_bytes;
    rank.row.differs =
        distance(rank) >= kLeastBytes &&
        static_cast<double>(distance(rank)) > kDiffers * static_cast<double>(reference.peak_bytes);
  }

  RankComparison comparison;
  comparison.reference = reference.name;
  if (auto failure = failure_finding(ranks)) comparison.findings.push_back(std::move(*failure));
  if (auto imbalance = imbalance_finding(ranks, reference)) {
    comparison.findings.push_back(std::move(*imbalance));
  }
  if (auto shared = shared_device_finding(ranks, reports)) {
    comparison.findings.push_back(std::move(*shared));
  }
  // The report to read first: the rank that failed earliest; else the one that differs most; else
  // the one with the highest peak.
  const auto precedence = [](const Rank& rank) {
    const bool has_failed = rank.row.first_oom != nullptr;
    const std::int64_t failed_ns = has_failed ? -rank.row.first_oom->time_ns.value_or(0) : 0;
    return std::tuple(has_failed, failed_ns, rank.row.differs ? distance(rank) : 0,
                      rank.row.peak_bytes);
  };
  comparison.first_to_read = std::ranges::max_element(ranks, {}, precedence)->row.report;
  for (const Rank& rank : ranks) comparison.ranks.push_back(rank.row);
  return comparison;
}

}  // namespace plimsoll::comparison

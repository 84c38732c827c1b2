#include "budgets/check.h"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "base/suggestion.h"
#include "base/units.h"
#include "budgets/repeats.h"
#include "comparison/cause_text.h"
#include "comparison/diff.h"

namespace plimsoll::budgets {
namespace {

using base::bytes_text;
using comparison::DiffCause;
using comparison::DiffPoint;
using report::Digest;
using report::DigestKey;
using report::DigestPoint;
using report::DigestRow;

constexpr std::size_t kCausesListed = 5;
constexpr std::size_t kPartsListed = 3;
constexpr std::size_t kLayersNamed = 5;
constexpr const char* kUpdate = "plimsoll check --update";

std::string grown_text(std::int64_t bytes) { return (bytes > 0 ? "+" : "") + bytes_text(bytes); }

std::string exact_text(std::int64_t bytes) {
  return base::format_count(static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 0))) + " B";
}

// Whether the pattern matches the layer or one of its ancestors.
bool is_in(std::string_view pattern, std::string layer) {
  const std::string text(pattern);
  while (!layer.empty()) {
    if (::fnmatch(text.c_str(), layer.c_str(), 0) == 0) return true;
    const std::size_t dot = layer.rfind('.');
    layer.resize(dot == std::string::npos ? 0 : dot);
  }
  return false;
}

std::int64_t sum_of(std::int64_t a, std::int64_t b) {
  return a > std::numeric_limits<std::int64_t>::max() - b ? std::numeric_limits<std::int64_t>::max()
                                                          : a + b;
}

// The rows at the peak of a device whose keys satisfy `is_counted`.
template <typename IsCounted>
std::vector<const DigestRow*> rows_at_peak(const Digest& digest, const std::string& device,
                                           const IsCounted& is_counted) {
  std::vector<const DigestRow*> rows;
  for (const DigestRow& row : digest.rows) {
    const DigestPoint& point = digest.points[row.point];
    if (point.name != "peak" || point.device != device) continue;
    if (is_counted(digest.keys[row.key])) rows.push_back(&row);
  }
  return rows;
}

// Whether the larger part of the peak is unknown, and the limit may be exceeded with it.
bool is_mostly_unknown(const DeviceUnused& found, std::int64_t limit_bytes) {
  return found.unknown_bytes > found.peak_bytes / 2 &&
         found.bytes + found.unknown_bytes > static_cast<std::uint64_t>(limit_bytes);
}

class Checker {
 public:
  Checker(const BudgetFile& file, const Budget& budget, const Runs& runs, const Digest* baseline)
      : file_(file), budget_(budget), runs_(runs), digest_(runs.digest), baseline_(baseline) {
    for (const DigestPoint& point : digest_.points) {
      if (point.name == "peak") devices_.push_back(point.device);
    }
    if (baseline != nullptr) {
      diff_ = comparison::compare(*baseline, digest_,
                                  {.most_evidence = kCausesListed, .negligible = 0});
    }
  }

  Result<std::vector<CheckedLimit>> run() {
    for (const Limit& limit : budget_.limits) PLIMSOLL_TRY(check_limit(limit));
    if (baseline_ != nullptr) PLIMSOLL_TRY(check_baseline());
    if (budget_.allowed_findings) PLIMSOLL_TRY(check_findings());
    add_children();
    return std::move(out_);
  }

 private:
  Error unfit(int line, const std::string& sentence) const {
    return make_error(ErrorCode::kInvalidArgument, file_.path + ":" + std::to_string(line) + ": " +
                                                       budget_.name + ": " + sentence);
  }

  Status check_limit(const Limit& limit) {
    switch (limit.kind) {
      case LimitKind::kPeak:
        return check_peak(limit);
      case LimitKind::kCategory:
        for (const std::string& device : devices_) {
          add_part(limit, limit.name + " at the peak on " + device + " is ", device,
                   [&](const DigestKey& key) { return key.category == limit.name; });
        }
        return {};
      case LimitKind::kLayer:
        return check_layer(limit);
      case LimitKind::kGrowth:
        return check_growth(limit);
      case LimitKind::kUnusedAtPeak:
        return check_unused(limit);
    }
    return {};
  }

  Status check_peak(const Limit& limit) {
    if (!limit.name.empty() && std::ranges::find(devices_, limit.name) == devices_.end()) {
      return unfit(limit.line, "peak: the recording has no device " + limit.name + ", only " +
                                   base::joined(devices_));
    }
    for (const std::string& device : devices_) {
      if (!limit.name.empty() && limit.name != device) continue;
      add_part(limit, "peak on " + device + " is ", device, [](const DigestKey&) { return true; });
    }
    return {};
  }

  Status check_layer(const Limit& limit) {
    const auto is_counted = [&](const DigestKey& key) { return is_in(limit.name, key.layer); };
    bool has_any = false;
    for (const std::string& device : devices_) {
      const bool has_layer = std::ranges::any_of(digest_.keys, [&](const DigestKey& key) {
        return key.device == device && is_counted(key);
      });
      if (!has_layer) continue;
      has_any = true;
      add_part(limit, "layers " + limit.name + " at the peak on " + device + " have ", device,
               is_counted);
    }
    return has_any ? Status() : no_such_layer(limit);
  }

  Status no_such_layer(const Limit& limit) const {
    std::set<std::string> layers;
    for (const DigestKey& key : digest_.keys) {
      if (!key.layer.empty()) layers.insert(key.layer);
    }
    if (layers.empty()) return unfit(limit.line, "by_layer: the recording has no layers");
    std::vector<std::string> named(layers.begin(), layers.end());
    const std::size_t others = named.size() - std::min(named.size(), kLayersNamed);
    named.resize(named.size() - others);
    return unfit(limit.line, "by_layer: no layer matches " + limit.name +
                                 "; write * for indices. The layers are " + base::joined(named) +
                                 (others > 0 ? " and " + std::to_string(others) + " more" : ""));
  }

  // Checks a limit on the memory at the peak of a device that `is_counted` selects. `subject`
  // begins the finding's title.
  template <typename IsCounted>
  void add_part(const Limit& limit, const std::string& subject, const std::string& device,
                const IsCounted& is_counted) {
    std::int64_t bytes = 0;
    for (const Measurement& run : runs_.each) {
      std::int64_t sum = 0;
      for (const DigestRow* row : rows_at_peak(run.digest, device, is_counted)) sum += row->bytes;
      bytes = std::max(bytes, sum);
    }
    CheckedLimit& checked = add(limit, subject.substr(0, subject.rfind(' ', subject.size() - 2)));
    checked.bytes = bytes;
    checked.limit_bytes = limit.bytes;
    if (bytes <= limit.bytes) return;
    checked.verdict = Verdict::kExceeded;
    CheckFinding finding;
    finding.id = "over_budget";
    finding.severity = FindingSeverity::kWarning;
    finding.site = "over_budget/" + checked.name;
    finding.title = subject + bytes_text(bytes) + ", " + bytes_text(bytes - limit.bytes) +
                    " over the limit of " + bytes_text(limit.bytes);
    const DiffPoint* const grown = limit.kind == LimitKind::kPeak ? grown_peak(device) : nullptr;
    const DiffCause* const cause = grown == nullptr ? nullptr : largest_growth(*grown);
    auto rows = rows_at_peak(digest_, device, is_counted);
    std::ranges::stable_sort(rows, std::ranges::greater(), &DigestRow::bytes);
    if (cause != nullptr) {
      finding.title += "; " + grown_text(grown->difference_bytes) + " since the baseline" +
                       most_of_it(*cause, grown->difference_bytes);
      finding.site += "/" + cause->id + "/" + cause->subject;
      finding.steps = comparison::steps_of(*cause, cause->difference_bytes);
    } else if (!rows.empty()) {
      finding.title += "; most of it: " + part_text(*rows.front());
    }
    finding.evidence.push_back(exact_text(bytes) + ", and the limit is " + exact_text(limit.bytes) +
                               ".");
    for (std::size_t i = 0; i < std::min(rows.size(), kPartsListed); ++i) {
      finding.evidence.push_back(part_text(*rows[i]));
    }
    finding.steps.push_back({"Save " + bytes_text(bytes - limit.bytes) +
                             ", or raise the limit in " + place_of(limit) + "."});
    checked.findings.push_back(std::move(finding));
  }

  // "memory.yaml:12"
  std::string place_of(const Limit& limit) const {
    return file_.path + ":" + std::to_string(limit.line);
  }

  // "300 B of activation in Net.head, at train.py:33 (Mlp.forward)"
  std::string part_text(const DigestRow& row) const {
    const DigestKey& key = digest_.keys[row.key];
    return bytes_text(row.bytes) + " of " + key.category +
           (key.layer.empty() ? "" : " in " + key.layer) +
           (key.place.empty() ? "" : ", at " + key.place);
  }

  const DiffPoint* grown_peak(const std::string& device) const {
    for (const DiffPoint& point : diff_.points) {
      if (point.name == "peak" && point.device == device && point.difference_bytes > 0) {
        return &point;
      }
    }
    return nullptr;
  }

  // ", most of it: size of Net.mlp". The bytes of a cause may exceed the growth, because others
  // shrank, so the title has only those of the growth.
  static std::string most_of_it(const DiffCause& cause, std::int64_t growth_bytes) {
    const char* const begin = cause.id == "peak_moved"                    ? ": "
                              : 2 * cause.difference_bytes < growth_bytes ? ", largest cause: "
                                                                          : ", most of it: ";
    return begin + comparison::cause_text(cause);
  }

  // Causes are sorted by absolute size. peak_moved names no change, so any other cause wins.
  static const DiffCause* largest_growth(const DiffPoint& point) {
    const DiffCause* moved = nullptr;
    for (const DiffCause& cause : point.causes) {
      if (cause.difference_bytes <= 0) continue;
      if (cause.id != "peak_moved") return &cause;
      moved = &cause;
    }
    return moved;
  }

  Status check_growth(const Limit& limit) {
    for (const Measurement& run : runs_.each) {
      if (run.is_only_digest) {
        return unfit(limit.line, "growth_per_step needs a recording, not a digest");
      }
      if (!run.why_no_growth.empty()) {
        return unfit(limit.line, "growth_per_step: growth is unknown: " + run.why_no_growth);
      }
    }
    for (const std::string& device : devices_) {
      double rate = 0;
      std::string fastest;
      const Finding* cause = nullptr;
      for (const Measurement& run : runs_.each) {
        for (const DeviceGrowth& growth : run.growth) {
          if (growth.device != device || growth.bytes_per_step <= rate) continue;
          rate = growth.bytes_per_step;
          fastest = growth.fastest;
          const auto found = std::ranges::find(run.findings, "memory_growth", &Finding::id);
          cause = found == run.findings.end() ? nullptr : &*found;
        }
      }
      CheckedLimit& checked = add(limit, "growth per step on " + device);
      checked.bytes = static_cast<std::int64_t>(std::ceil(rate));
      checked.limit_bytes = limit.bytes;
      if (*checked.bytes <= limit.bytes) continue;
      checked.verdict = Verdict::kExceeded;
      CheckFinding finding;
      if (cause != nullptr) static_cast<Finding&>(finding) = *cause;
      finding.evidence.insert(finding.evidence.begin(), finding.title);
      finding.id = "over_budget";
      finding.severity = FindingSeverity::kWarning;
      finding.site = "over_budget/" + checked.name;
      finding.title = "memory on " + device + " grows by " + bytes_text(rate) +
                      " a step, and the limit is " + bytes_text(limit.bytes) +
                      (fastest.empty() ? "" : "; it grows most at " + fastest);
      std::erase(finding.evidence, "");
      checked.findings.push_back(std::move(finding));
    }
    return {};
  }

  Status check_unused(const Limit& limit) {
    for (const std::string& device : devices_) {
      const DeviceUnused* most = nullptr;
      const DeviceUnused* unknown = nullptr;
      for (const Measurement& run : runs_.each) {
        if (run.is_only_digest) {
          return unfit(limit.line, "unused_at_peak needs a recording, not a digest");
        }
        const auto found = std::ranges::find(run.unused, device, &DeviceUnused::device);
        if (found == run.unused.end()) {
          return unfit(limit.line, "unused_at_peak: no uses of memory were recorded on " + device +
                                       "; record in the mode full with --uses always");
        }
        if (most == nullptr || found->bytes > most->bytes) most = &*found;
        if (is_mostly_unknown(*found, limit.bytes)) unknown = &*found;
      }
      if (unknown != nullptr && most->bytes <= static_cast<std::uint64_t>(limit.bytes)) {
        return unfit(limit.line, "unused_at_peak: it is unknown whether operators use " +
                                     bytes_text(unknown->unknown_bytes) + " of the peak of " +
                                     bytes_text(unknown->peak_bytes) + " on " + device + " again" +
                                     (unknown->is_sampled ? "; record with --uses always" : ""));
      }
      CheckedLimit& checked = add(limit, "not used again at the peak on " + device);
      checked.bytes = static_cast<std::int64_t>(most->bytes);
      checked.limit_bytes = limit.bytes;
      if (*checked.bytes <= limit.bytes) continue;
      checked.verdict = Verdict::kExceeded;
      CheckFinding finding;
      finding.id = "over_budget";
      finding.severity = FindingSeverity::kWarning;
      finding.site = "over_budget/" + checked.name;
      finding.title = "no operator uses " + bytes_text(most->bytes) + " at the peak on " + device +
                      " again, and the limit is " + bytes_text(limit.bytes);
      finding.evidence = {most->text};
      if (!most->line.empty()) finding.evidence.push_back("Most of it: " + most->line + ".");
      finding.steps = {{"Free it after its last use."},
                       {"Raise the limit in " + place_of(limit) + "."}};
      checked.findings.push_back(std::move(finding));
    }
    return {};
  }

  Status check_findings() {
    CheckedLimit checked{.name = "findings",
                         .line = static_cast<std::uint64_t>(budget_.findings_line)};
    std::set<std::string> seen;
    for (const Measurement& run : runs_.each) {
      if (run.is_only_digest) {
        return unfit(budget_.findings_line, "findings needs a recording, not a digest");
      }
      for (const Finding& finding : run.findings) {
        const auto& allowed = *budget_.allowed_findings;
        const bool counts = finding.severity != FindingSeverity::kInfo &&
                            std::ranges::find(allowed, finding.id) == allowed.end();
        if (!counts || !seen.insert(finding.id + finding.title).second) continue;
        checked.verdict = Verdict::kExceeded;
        checked.findings.push_back({finding, finding.id});
      }
    }
    out_.push_back(std::move(checked));
    return {};
  }

  Status check_baseline() {
    if (diff_.points.empty()) {
      return unfit(budget_.baseline_line,
                   "the recording and its baseline have no device and point in common; write the "
                   "baseline again with " +
                       std::string(kUpdate));
    }
    CheckedLimit checked{.name = "baseline",
                         .line = static_cast<std::uint64_t>(budget_.baseline_line)};
    std::vector<const DiffPoint*> order;
    for (const DiffPoint& point : diff_.points) order.push_back(&point);
    std::ranges::stable_sort(order, {}, [](const DiffPoint* point) {
      return std::pair(point->name != "peak", -point->difference_bytes);
    });
    std::set<std::string> sites;
    std::int64_t closest = std::numeric_limits<std::int64_t>::min();
    for (const DiffPoint* const point : order) {
      const Growth growth = growth_of(*point);
      const bool is_first_excess =
          growth.verdict == Verdict::kExceeded && checked.verdict != Verdict::kExceeded;
      const bool is_closest =
          checked.verdict != Verdict::kExceeded && growth.bytes - growth.allowed > closest;
      if (is_first_excess || is_closest) {
        closest = growth.bytes - growth.allowed;
        checked.bytes = growth.bytes;
        checked.limit_bytes = growth.allowed;
        checked.point = point->name + " on " + point->device;
      }
      if (growth.verdict == Verdict::kMet) continue;
      if (growth.verdict == Verdict::kUnknown) {
        if (checked.verdict == Verdict::kMet) checked.verdict = Verdict::kUnknown;
        checked.findings.push_back(unjudged(*point, growth));
        continue;
      }
      checked.verdict = Verdict::kExceeded;
      CheckFinding finding = grew(*point, growth);
      if (sites.insert(finding.site).second) checked.findings.push_back(std::move(finding));
    }
    if (checked.verdict == Verdict::kMet) add_gain(checked);
    add_environment(checked);
    out_.push_back(std::move(checked));
    return {};
  }

  // How far a point is above the baseline, and how far it may be. If the recordings of one side
  // differ, growth is measured from the baseline's maximum and may reach their spread plus
  // may_grow.
  struct Growth {
    std::int64_t bytes = 0;
    std::int64_t allowed = 0;
    std::int64_t spread = 0;
    std::uint64_t recordings = 1;  // on the side with the wider spread
    Verdict verdict = Verdict::kMet;
  };

  static PointRange range_at(const Digest& digest, const DiffPoint& at) {
    const auto found = std::ranges::find_if(digest.points, [&](const DigestPoint& point) {
      return point.device == at.device && point.name == at.name;
    });
    if (found == digest.points.end()) return {};  // a device that it does not have
    return range_of(digest, static_cast<std::uint64_t>(found - digest.points.begin()));
  }

  Growth growth_of(const DiffPoint& point) const {
    const PointRange before = range_at(*baseline_, point);
    const PointRange after = range_at(digest_, point);
    const PointRange& wider = before.spread() >= after.spread() ? before : after;
    Growth growth;
    growth.spread = wider.spread();
    growth.recordings = wider.recordings;
    growth.bytes =
        growth.spread == 0 ? point.difference_bytes : point.after_bytes - before.most_bytes;
    const std::int64_t may_grow = budget_.may_grow.of(point.before_bytes);
    growth.allowed = sum_of(may_grow, growth.spread);
    if (growth.bytes <= growth.allowed) return growth;
    const bool are_few = growth.spread > 0 && growth.recordings < kLeastRepeats;
    const bool is_certain = (growth.bytes - may_grow - 1) / kCertainRanges >= growth.spread;
    growth.verdict = are_few && !is_certain ? Verdict::kUnknown : Verdict::kExceeded;
    return growth;
  }

  CheckFinding grew(const DiffPoint& point, const Growth& growth) const {
    CheckFinding finding{comparison::finding_of(point, kCausesListed), ""};
    const DiffCause* const cause = largest_growth(point);
    std::string allowed = "Allowed: " + exact_text(growth.allowed);
    if (growth.spread > 0) {
      allowed += ", of which " + exact_text(growth.spread) + " is the range of " +
                 base::counted(growth.recordings, "recording") +
                 "; the growth above the baseline's maximum is " + exact_text(growth.bytes);
    }
    finding.evidence.insert(finding.evidence.begin(), {finding.title + ".", allowed + "."});
    finding.title = point.name + " on " + point.device + " " + grown_text(growth.bytes) +
                    (cause == nullptr ? std::string() : most_of_it(*cause, point.difference_bytes));
    finding.site = "baseline/" + point.device + "/" + point.name;
    if (cause != nullptr) {
      finding.site = "baseline/" + point.device + "/" + cause->id + "/" + cause->subject;
      finding.steps =
          comparison::steps_of(*cause, std::min(cause->difference_bytes, point.difference_bytes));
    }
    finding.steps.push_back(
        {std::string("If the growth is intended, accept it with ") + kUpdate + "."});
    return finding;
  }

  static CheckFinding unjudged(const DiffPoint& point, const Growth& growth) {
    CheckFinding finding;
    finding.id = "baseline_differs";
    finding.severity = FindingSeverity::kWarning;
    finding.site = "baseline_differs/" + point.device + "/" + point.name;
    finding.title = point.name + " on " + point.device + " is " + bytes_text(growth.bytes) +
                    " above the baseline, but it varies by " + bytes_text(growth.spread) + " in " +
                    base::counted(growth.recordings, "recording") + ": too few to judge";
    finding.steps = {{"Record the baseline " + std::to_string(kLeastRepeats) +
                      " times: " + kUpdate + " --repeat " + std::to_string(kLeastRepeats) + "."}};
    return finding;
  }

  // Reports memory below the baseline: until the baseline is updated, growth back to it passes.
  void add_gain(CheckedLimit& checked) const {
    for (const DiffPoint& point : diff_.points) {
      const std::int64_t gain = -point.difference_bytes;
      if (gain <= growth_of(point).allowed) continue;
      CheckFinding finding;
      finding.id = "baseline_differs";
      finding.severity = FindingSeverity::kInfo;
      finding.site = "baseline_differs/" + point.device + "/" + point.name;
      finding.title =
          point.name + " on " + point.device + " is " + bytes_text(gain) + " below the baseline";
      finding.evidence.push_back("Baseline " + exact_text(point.before_bytes) + ", now " +
                                 exact_text(point.after_bytes) + ".");
      finding.steps = {{std::string("Run ") + kUpdate + " to keep the gain."}};
      checked.findings.push_back(std::move(finding));
      return;
    }
  }

  void add_environment(CheckedLimit& checked) const {
    if (diff_.notes.empty()) return;
    CheckFinding finding;
    finding.id = "baseline_differs";
    finding.severity = FindingSeverity::kWarning;
    finding.site = "baseline_differs/environment";
    finding.title = "the baseline was recorded under other conditions";
    finding.evidence = diff_.notes;
    finding.steps = {
        {std::string("Run ") + kUpdate + " where the budget is checked, such as in CI."}};
    checked.findings.push_back(std::move(finding));
  }

  // Names forked children with the first limit, because no limit includes their memory.
  void add_children() {
    ForkedChildren most;
    for (const Measurement& run : runs_.each) {
      most.unrecorded = std::max(most.unrecorded, run.children.unrecorded);
      most.recorded = std::max(most.recorded, run.children.recorded);
      most.peak_bytes = std::max(most.peak_bytes, run.children.peak_bytes);
      most.is_incomplete = most.is_incomplete || run.children.is_incomplete;
    }
    const auto add_note = [&](std::uint64_t count, const std::string& what) {
      if (count == 0 || out_.empty()) return;
      CheckFinding finding;
      finding.id = kChildrenNotJudged;
      finding.severity = FindingSeverity::kInfo;
      finding.site = finding.id;
      finding.title =
          base::format_count(count) + (count == 1 ? " forked child " : " forked children ") + what;
      out_.front().findings.push_back(std::move(finding));
    };
    add_note(most.unrecorded, "allocated memory that is not recorded and that no limit covers");
    const std::string peak = bytes_text(most.peak_bytes);
    add_note(most.recorded,
             (most.is_incomplete ? "used " + peak + " or more" : "used up to " + peak) +
                 (most.recorded > 1 ? " each" : "") + ", which no limit covers");
  }

  CheckedLimit& add(const Limit& limit, const std::string& name) {
    return out_.emplace_back(
        CheckedLimit{.name = name, .line = static_cast<std::uint64_t>(limit.line)});
  }

  const BudgetFile& file_;
  const Budget& budget_;
  const Runs& runs_;
  const Digest& digest_;
  const Digest* baseline_;
  comparison::Diff diff_;
  std::vector<std::string> devices_;
  std::vector<CheckedLimit> out_;
};

}  // namespace

std::size_t Check::count(Verdict verdict) const {
  std::size_t count = 0;
  for (const CheckedBudget& budget : budgets) {
    for (const CheckedLimit& limit : budget.limits) count += limit.verdict == verdict ? 1 : 0;
  }
  return count;
}

std::size_t Check::errors() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      budgets, [](const CheckedBudget& budget) { return !budget.error.empty(); }));
}

Result<std::vector<CheckedLimit>> check_limits(const BudgetFile& file, const Budget& budget,
                                               const Runs& runs, const Digest* baseline) {
  return Checker(file, budget, runs, baseline).run();
}

std::vector<std::string> describe_update(const Digest& before, const Digest& after) {
  std::vector<std::string> facts;
  const comparison::Diff diff = comparison::compare(before, after, {.negligible = 0});
  for (const Finding& finding : diff.findings) {
    facts.push_back(finding.title);
    facts.insert(facts.end(), finding.evidence.begin(), finding.evidence.end());
  }
  facts.insert(facts.end(), diff.notes.begin(), diff.notes.end());
  return facts;
}

}  // namespace plimsoll::budgets

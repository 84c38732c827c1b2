// Compares the memory that programs use with their budgets. `plimsoll check --format json` prints
// the Check.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/finding.h"
#include "budgets/budget_file.h"
#include "budgets/measurement.h"
#include "plimsoll/result.h"
#include "plimsoll/version.h"

namespace plimsoll::budgets {

inline constexpr const char* kCheckVersion = "1.1";

// kUnknown: the point varies between equal runs, and there are too few of them to judge.
enum class Verdict : std::uint8_t { kMet, kExceeded, kUnknown };
constexpr const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kMet:
      return "met";
    case Verdict::kExceeded:
      return "exceeded";
    case Verdict::kUnknown:
      return "unknown";
  }
  return "unknown";
}

// The finding about forked children, whose memory no limit covers.
inline constexpr const char* kChildrenNotJudged = "children_not_judged";

// The id is peak_grew or memory_grew (since the baseline), over_budget, baseline_differs,
// children_not_judged, or the id of a report finding that the budget does not allow.
struct CheckFinding : Finding {
  // Identifies the problem across commits, so it has no line numbers and no bytes.
  std::string site;

  static constexpr auto fields() {
    using base::Field;
    return [](auto&& visitor) {
      Finding::fields()(visitor);
      visitor(Field{"site", &CheckFinding::site,
                    "Identifies the problem across commits; has no line numbers and no bytes."});
    };
  }
};

struct CheckedLimit {
  std::string name;
  std::uint64_t line = 0;
  Verdict verdict = Verdict::kMet;
  std::optional<std::int64_t> bytes = {};
  std::optional<std::int64_t> limit_bytes = {};
  std::string point = {};
  std::vector<CheckFinding> findings = {};

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"name", &CheckedLimit::name, "What is limited: peak on cpu, baseline, findings, ..."},
        Field{"line", &CheckedLimit::line, "Line of the limit in the budget file."},
        Field{"verdict", &CheckedLimit::verdict, "met, exceeded or unknown."},
        Field{"bytes", &CheckedLimit::bytes,
              "The measured bytes; for a baseline, the growth at its point. Null for findings."},
        Field{"limit_bytes", &CheckedLimit::limit_bytes, "The allowed bytes. Null for findings."},
        Field{"point", &CheckedLimit::point,
              "Of a baseline: the point that the first finding is about, such as peak on cpu, or "
              "the one that is closest to its limit. Else empty."},
        Field{"findings", &CheckedLimit::findings,
              "Why the limit is exceeded; if it is met, warnings and notes about it."});
  }
};

struct CheckedBudget {
  std::string name;
  std::uint64_t line = 0;
  std::string measured = {};
  std::string error = {};
  std::vector<std::string> accepted = {};
  std::vector<CheckedLimit> limits = {};

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"name", &CheckedBudget::name, "Name of the budget."},
        Field{"line", &CheckedBudget::line, "Its line in the budget file."},
        Field{"measured", &CheckedBudget::measured, "The command line or the files."},
        Field{"error", &CheckedBudget::error,
              "Why the budget could not be checked; empty if it was."},
        Field{"accepted", &CheckedBudget::accepted,
              "With --update: how the new baselines differ from the previous ones."},
        Field{"limits", &CheckedBudget::limits, "The limits, in the order of the file."});
  }
};

struct Check {
  std::string check_version = kCheckVersion;
  std::string plimsoll = PLIMSOLL_VERSION;
  std::string path;
  std::vector<CheckedBudget> budgets;

  std::size_t count(Verdict verdict) const;  // of limits
  std::size_t errors() const;                // budgets that could not be checked

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"check_version", &Check::check_version, "Version of this format: major.minor."},
        Field{"plimsoll", &Check::plimsoll, "Version of Plimsoll."},
        Field{"path", &Check::path, "The budget file."},
        Field{"budgets", &Check::budgets, "The budgets, in the order of the file."});
  }
};

// Checks the limits of `budget` for one rank. `baseline` is null if the budget has none. Returns an
// error if a limit does not fit the recording: an absent device, a pattern that matches no layer.
Result<std::vector<CheckedLimit>> check_limits(const BudgetFile& file, const Budget& budget,
                                               const Runs& runs, const report::Digest* baseline);

// Describes how `after` differs from `before`, one fact per string; empty if they are equal.
std::vector<std::string> describe_update(const report::Digest& before, const report::Digest& after);

}  // namespace plimsoll::budgets

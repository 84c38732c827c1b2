// Compares the memory that programs use with their budgets. `plimsoll check --format json` prints
// the Check.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/fields.h"
#include "base/finding.h"
#include "budgets/budget_file.h"
#include "budgets/measurement.h"
#include "plimsoll/result.h"
#include "plimsoll/version.h"

namespace plimsoll::budgets {

inline constexpr const char* kCheckVersion = "1.0";

enum class Verdict : std::uint8_t { kMet, kExceeded };
constexpr const char* to_string(Verdict verdict) {
  return verdict == Verdict::kMet ? "met" : "exceeded";
}

// The id is peak_grew or memory_grew (since the baseline), over_budget, baseline_differs, or the id
// of a report finding that the budget does not allow.
struct CheckFinding : Finding {
  // Identifies the problem across commits, so it has no line numbers and no bytes.
  std::string site;

  static constexpr auto fields() {
    using base::Field;
    return std::tuple_cat(
        Finding::fields(),
        std::tuple{Field{"site", &CheckFinding::site,
                         "Identifies the problem across commits; has no line numbers and no "
                         "bytes."}});
  }
};

struct CheckedLimit {
  std::string name;
  std::uint64_t line = 0;
  Verdict verdict = Verdict::kMet;
  std::optional<std::int64_t> bytes = {};
  std::optional<std::int64_t> limit_bytes = {};
  std::vector<CheckFinding> findings = {};

  static constexpr auto fields() {
    using base::Field;
    return std::tuple{
        Field{"name", &CheckedLimit::name, "What is limited: peak on cpu, baseline, findings, ..."},
        Field{"line", &CheckedLimit::line, "Line of the limit in the budget file."},
        Field{"verdict", &CheckedLimit::verdict, "met or exceeded."},
        Field{"bytes", &CheckedLimit::bytes,
              "The measured bytes; for a baseline, the growth at the point with the smallest "
              "margin or the largest excess. Null for findings."},
        Field{"limit_bytes", &CheckedLimit::limit_bytes, "The allowed bytes. Null for findings."},
        Field{"findings", &CheckedLimit::findings,
              "Why the limit is exceeded; if it is met, warnings and notes about it."}};
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
    return std::tuple{
        Field{"name", &CheckedBudget::name, "Name of the budget."},
        Field{"line", &CheckedBudget::line, "Its line in the budget file."},
        Field{"measured", &CheckedBudget::measured, "The command line or the files."},
        Field{"error", &CheckedBudget::error,
              "Why the budget could not be checked; empty if it was."},
        Field{"accepted", &CheckedBudget::accepted,
              "With --update: how the new baselines differ from the previous ones."},
        Field{"limits", &CheckedBudget::limits, "The limits, in the order of the file."}};
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
    return std::tuple{
        Field{"check_version", &Check::check_version, "Version of this format: major.minor."},
        Field{"plimsoll", &Check::plimsoll, "Version of Plimsoll."},
        Field{"path", &Check::path, "The budget file."},
        Field{"budgets", &Check::budgets, "The budgets, in the order of the file."}};
  }
};

// Checks the limits of `budget` for one rank. `baseline` is null if the budget has none. Returns an
// error if a limit does not fit the recording: an absent device, a pattern that matches no layer.
Result<std::vector<CheckedLimit>> check_limits(const BudgetFile& file, const Budget& budget,
                                               const Runs& runs, const report::Digest* baseline);

// Describes how `after` differs from `before`, one fact per string; empty if they are equal.
std::vector<std::string> describe_update(const report::Digest& before, const report::Digest& after);

}  // namespace plimsoll::budgets

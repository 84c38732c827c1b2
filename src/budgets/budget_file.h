// Reads plimsoll.budgets.yaml, which limits how much memory programs may use. docs/budgets.md
// describes its keys. An unknown key, a duplicate key or a value of the wrong type is an error that
// names the file, the line and the key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/result.h"

namespace plimsoll::budgets {

enum class LimitKind : std::uint8_t { kPeak, kCategory, kLayer, kGrowth, kUnusedAtPeak };

struct Limit {
  LimitKind kind = LimitKind::kPeak;
  std::string name = {};  // device (empty: every device), category or layer pattern
  std::int64_t bytes = 0;
  int line = 0;
};

// How much a point may grow above the baseline: a number of bytes, or a share of its baseline.
struct Allowance {
  std::int64_t bytes = 0;
  std::int64_t millionths = 0;

  std::int64_t of(std::int64_t baseline_bytes) const;
};

struct Budget {
  std::string name;
  int line = 0;
  std::string run = {};        // arguments of plimsoll run, quoted as in a shell, or empty
  std::string recording = {};  // glob pattern; exactly one of run and recording is set
  std::string baseline = {};   // path of a digest, or empty
  int baseline_line = 0;
  Allowance may_grow = {};
  std::vector<Limit> limits = {};
  std::optional<std::vector<std::string>> allowed_findings = {};  // ids; nullopt: no limit
  int findings_line = 0;
};

struct BudgetFile {
  std::string path;
  std::vector<Budget> budgets = {};  // at least one, in the order of the file
};

inline constexpr const char* kUsualBudgetFile = "plimsoll.budgets.yaml";

Result<BudgetFile> parse_budgets(std::string_view yaml, const std::string& path);
Result<BudgetFile> read_budgets(const std::string& path);

// Splits a command line into words, with quotes and backslashes as in a shell. Expands nothing.
// Returns nullopt if a quote is not closed.
std::optional<std::vector<std::string>> split_words(std::string_view line);

}  // namespace plimsoll::budgets

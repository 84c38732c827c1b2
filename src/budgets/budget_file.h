// plimsoll.budgets.yaml: how much memory programs may use. docs/budgets.md describes its keys.
// Strict: an unknown key, a repeated one or a value of another type is an error with file, line and
// key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/result.h"

namespace plimsoll::budgets {

enum class LimitKind : std::uint8_t { kPeak, kCategory, kLayer, kGrowth };

struct Limit {
  LimitKind kind = LimitKind::kPeak;
  std::string name =
      {};  // kPeak: the device, or empty for each; the category; the pattern of layers
  std::int64_t bytes = 0;
  int line = 0;
};

// How much a point may exceed the baseline: bytes, or a share of the baseline's.
struct Allowance {
  std::int64_t bytes = 0;
  std::int64_t millionths = 0;

  std::int64_t of(std::int64_t baseline_bytes) const;
};

struct Budget {
  std::string name;
  int line = 0;
  std::string run =
      {};  // arguments of plimsoll run, quoted as in a shell; empty: `recording` is given
  std::string recording = {};  // pattern of files
  std::string baseline = {};   // file of a digest; may be empty
  int baseline_line = 0;
  Allowance may_grow = {};
  std::vector<Limit> limits = {};
  std::optional<std::vector<std::string>> allowed_findings =
      {};  // ids; nullopt: findings do not count
  int findings_line = 0;
};

struct BudgetFile {
  std::string path;
  std::vector<Budget> budgets = {};  // at least one, in the order of the file
};

inline constexpr const char* kUsualBudgetFile = "plimsoll.budgets.yaml";

Result<BudgetFile> parse_budgets(std::string_view yaml, const std::string& path);
Result<BudgetFile> read_budgets(const std::string& path);

// The words of a command line, with quotes and backslashes as in a shell. Nothing is expanded.
// nullopt: a quote is not closed.
std::optional<std::vector<std::string>> split_words(std::string_view line);

}  // namespace plimsoll::budgets

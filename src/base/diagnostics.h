// Diagnostics: input that is imperfect but usable. Each kind is declared once, next to the reader
// that detects it, with a severity and a sentence that the user can act on; occurrences are counted
// here. Reports show every diagnostic. Unusable input is an Error instead.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::base {

enum class Severity : std::uint8_t { kInfo, kDataLoss, kError };

const char* to_string(Severity severity);

// Whether totals may lack bytes, or keep bytes that were freed, because part of the recording is
// missing. Comparisons and budgets do not judge such a recording. What a recorder never records
// makes no total incomplete.
enum class Totals : std::uint8_t { kComplete, kIncomplete };

struct DiagnosticKind {
  const char* name;  // snake_case, stable: users filter on it
  Severity severity;
  const char* help;  // what it means for the numbers and what to do about it
  Totals totals = Totals::kComplete;
};

struct Diagnostic {
  const DiagnosticKind* kind;  // static storage
  std::uint64_t count;
  std::string first_example;  // the place and the numbers of the first one; may be empty
};

class Diagnostics {
 public:
  void add(const DiagnosticKind& kind, std::uint64_t count = 1, std::string_view example = {});
  void append(const Diagnostics& others);
  std::uint64_t count(const DiagnosticKind& kind) const;
  // In the order of first occurrence.
  const std::vector<Diagnostic>& all() const { return all_; }

 private:
  std::vector<Diagnostic> all_;
};

}  // namespace plimsoll::base

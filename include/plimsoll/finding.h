// Findings of reports, and alerts of monitors, which are findings about a running program. Each has
// a verdict, its evidence and next steps, with bytes. Terminal, log, JSON and Python show the same
// text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll {

enum class FindingSeverity : std::uint8_t { kInfo, kWarning, kCritical };

constexpr const char* to_string(FindingSeverity severity) {
  switch (severity) {
    case FindingSeverity::kInfo:
      return "info";
    case FindingSeverity::kWarning:
      return "warning";
    case FindingSeverity::kCritical:
      return "critical";
  }
  return "info";
}

// One change to the program, with its own saving.
struct FindingStep {
  std::string text;                // an imperative; states no saving
  std::uint64_t saving_bytes = 0;  // what this change would save; 0 if nothing or unknown
  bool is_upper_bound = false;     // the change may save less

  static constexpr auto fields();  // for JSON; base/finding.h defines it
};

// What holds the memory of a finding: an object or variable of the program.
struct FindingHolder {
  std::string path;               // as the program names it: "trainer.losses"
  std::string type;               // its class
  std::uint64_t length = 0;       // its entries; 0 if it is no container
  std::uint64_t limit = 0;        // the most entries that it keeps; 0: no limit
  std::string chain;              // from the root to most of the bytes
  std::uint64_t count = 0;        // allocations of the finding that it holds
  std::uint64_t bytes = 0;        // their bytes
  bool is_cut = false;            // other references to it were counted; else the rest is unknown
  std::uint64_t freed_bytes = 0;  // of all that it holds: what nothing else holds
  std::uint64_t left_bytes = 0;   // what others hold, too
  std::string other;              // one of these; empty if none is known
  bool is_native = false;         // native code holds some of it, too

  static constexpr auto fields();  // as above
};

// A holder, and the edit to the program that ends what it holds: an imperative; empty if there is
// none.
struct HeldBy {
  FindingHolder holder;
  std::string edit;
};

struct Finding {
  std::string id;  // snake_case, stable: "out_of_memory", "stranded_memory", ...
  FindingSeverity severity = FindingSeverity::kInfo;
  std::string title;                        // the verdict: one sentence with the bytes
  std::vector<std::string> evidence;        // each one sentence with numbers
  std::vector<FindingStep> steps;           // alternatives, the recommended one first
  std::vector<FindingHolder> holders = {};  // most bytes first, if the recording knows them
  bool is_fact = false;  // states what the memory is; the program may need all of it

  // The text and the saving of the first step; empty and 0 if there is none.
  const std::string& next_step() const;
  std::uint64_t saving_bytes() const;

  static constexpr auto fields();  // as above
};

inline const std::string& Finding::next_step() const {
  static const std::string kNone;
  return steps.empty() ? kNone : steps.front().text;
}

inline std::uint64_t Finding::saving_bytes() const {
  return steps.empty() ? 0 : steps.front().saving_bytes;
}

// A finding about a running program. docs/monitoring-reference.md has the rules.
struct MemoryAlert : Finding {
  std::string device;   // "cuda:0", "cpu", "host"
  std::string subject;  // a category, for example; may be empty
  std::int64_t iteration = 0;

  static constexpr auto fields();  // as above
};

// The alert as text: verdict, evidence and next steps, one per line, as `plimsoll report` prints
// its findings. Link plimsoll::monitor.
std::string alert_text(const MemoryAlert& alert);

}  // namespace plimsoll

// Finding: verdict, evidence and next step, with the bytes. The same text in terminal, log, JSON
// and Python. Reports have findings; alerts, which monitors raise, are findings too.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "base/fields.h"

namespace plimsoll::base {

enum class FindingSeverity : std::uint8_t { kInfo, kWarning, kCritical };
inline const char* to_string(FindingSeverity severity) {
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

struct Finding {
  std::string id;  // snake_case, stable: "out_of_memory", "stranded_memory", ...
  FindingSeverity severity = FindingSeverity::kInfo;
  std::string title;                  // the verdict: one sentence with the bytes
  std::vector<std::string> evidence;  // each one sentence with numbers
  std::string next_step;              // what to change
  std::uint64_t saving_bytes = 0;     // what the next step would save; 0 if nothing or unknown

  static constexpr auto fields() {
    using base::Field;
    return std::tuple{Field{"id", &Finding::id, "Stable name of the finding."},
                      Field{"severity", &Finding::severity, "info, warning or critical."},
                      Field{"title", &Finding::title, "The verdict."},
                      Field{"evidence", &Finding::evidence,
                            "The facts behind the verdict, with numbers and places."},
                      Field{"next_step", &Finding::next_step, "What to do, as an imperative."},
                      Field{"saving_bytes", &Finding::saving_bytes,
                            "Bytes that the next step would save; 0 if none or unknown."}};
  }
};

}  // namespace plimsoll::base

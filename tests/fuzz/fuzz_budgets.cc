// Feeds bytes to the parser of budget files. Every error message begins with the file's name, and
// every accepted budget has something to measure and something to check.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "accepted.h"
#include "base/check.h"
#include "budgets/budget_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto file = plimsoll::budgets::parse_budgets(bytes, "budgets");
  if (!file) {
    PLIMSOLL_CHECK(file.error().message.starts_with("budgets"));
    return 0;
  }
  plimsoll::fuzz::accept();
  for (const plimsoll::budgets::Budget& budget : file->budgets) {
    PLIMSOLL_CHECK(budget.run.empty() != budget.recording.empty());
    PLIMSOLL_CHECK(!budget.limits.empty() || !budget.baseline.empty() || budget.allowed_findings);
    PLIMSOLL_CHECK(budget.may_grow.of(INT64_MAX) >= 0);
  }
  return 0;
}

#include "findings/text.h"

#include <algorithm>

#include "base/units.h"

namespace plimsoll::findings {
std::string rate_text(double bytes_per_step) { return bytes_text(bytes_per_step) + " a step"; }

std::string holders_text(std::span<const report::GroupRow> rows) {
  std::string text;
  for (const report::GroupRow& row : rows.first(std::min(kNamed, rows.size()))) {
    text += text.empty() ? "" : ", ";
    text += row.key + " " + bytes_text(row.bytes) + " (" + base::format_percent(row.share) + ")";
  }
  return text;
}

bool is_named(const std::string& line) { return !line.empty() && line.front() != '['; }

bool is_mostly_in_packages(const report::SiteRow& site) {
  return site.in_packages > site.allocations / 2;
}

bool is_at_least(std::uint64_t part, double share, std::uint64_t whole) {
  return static_cast<double>(part) >= share * static_cast<double>(whole);
}

}  // namespace plimsoll::findings

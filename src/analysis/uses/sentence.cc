#include "analysis/uses/sentence.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"

namespace plimsoll::analysis::uses {
namespace {

constexpr std::uint64_t kSmallBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kSmallPartOfPeak = 100;  // a hundredth
constexpr std::uint64_t kSmallPartOfUnused = 20;
constexpr std::size_t kLargestNamed = 2;

bool matters(std::uint64_t part, const report::LastUse& found) {
  return part >= kSmallBytes || (part > 0 && part >= found.live_bytes / kSmallPartOfPeak);
}

// "4.1 of 30.7 GiB", "512.0 KiB of 30.7 GiB".
std::string part_text(std::uint64_t part, std::uint64_t whole) {
  std::string text = base::bytes_text(part);
  const std::string whole_text = base::bytes_text(whole);
  const std::string_view unit = std::string_view(whole_text).substr(whole_text.find(' '));
  if (text.ends_with(unit)) text.resize(text.size() - unit.size());
  return text + " of " + whole_text;
}

std::string unobserved_text(const report::LastUse& found) {
  const char* const why = found.is_sampled ? "uses were observed only in some steps, and " : "";
  return why + std::string("it is unknown whether operators use ") +
         part_text(found.unknown_bytes, found.live_bytes) + " again";
}

// " Largest: 9.0 GiB of a.py:1 (f), 1.0 GiB of gradients."
std::string largest_text(const report::LastUse& found) {
  std::vector<std::pair<std::uint64_t, std::string_view>> parts;
  for (const report::UnusedRow& row : found.rows) {
    const bool is_gradient = row.kind == report::UnusedKind::kGradients;
    const std::string_view name = is_gradient ? "gradients" : std::string_view(row.line);
    const auto known = std::ranges::find(parts, name, [](const auto& part) { return part.second; });
    if (known == parts.end()) {
      parts.emplace_back(row.bytes, name);
    } else {
      known->first += row.bytes;
    }
  }
  std::ranges::stable_sort(parts, std::ranges::greater{},
                           [](const auto& part) { return part.first; });
  std::string text;
  for (std::size_t i = 0; i < std::min(parts.size(), kLargestNamed); ++i) {
    const auto& [bytes, name] = parts[i];
    if (bytes < found.unused_bytes / kSmallPartOfUnused) break;
    text += (i == 0 ? " Largest: " : ", ") + base::bytes_text(bytes) + " of " + std::string(name);
  }
  return text.empty() ? text : text + ".";
}

std::string plain_sentence(const report::LastUse& found, std::uint64_t at_end_bytes) {
  if (is_all_used(found)) return report::all_used_text(found.unused_bytes, found.unknown_bytes);
  const bool has_unknown = matters(found.unknown_bytes, found);
  if (!matters(found.unused_bytes, found)) {
    return unobserved_text(found) + "; they use all the rest again.";
  }
  std::string text =
      "at the peak, no operator uses " + part_text(found.unused_bytes, found.live_bytes) + " again";
  if (report::is_most_at_end(at_end_bytes, found.unused_bytes)) {
    text += " before the recording ends";
  }
  const std::string reachable = base::bytes_text(found.reachable_peak_bytes);
  text += reachable == base::bytes_text(found.live_bytes)
              ? ", but freeing all memory when it was last used would not lower the peak"
              : "; freeing all memory when it was last used would lower the peak to " + reachable;
  return text + (has_unknown ? "; " + unobserved_text(found) + "." : ".") + largest_text(found);
}

}  // namespace

bool is_all_used(const report::LastUse& found) {
  return !matters(found.unused_bytes, found) && !matters(found.unknown_bytes, found);
}

std::string sentence(const report::LastUse& found, std::uint64_t at_end_bytes) {
  std::string text = plain_sentence(found, at_end_bytes);
  text.front() = static_cast<char>(text.front() - 'a' + 'A');
  return text;
}

}  // namespace plimsoll::analysis::uses

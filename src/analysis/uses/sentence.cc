#include "analysis/uses/sentence.h"

#include <cstdint>
#include <string_view>

#include "base/units.h"

namespace plimsoll::analysis::uses {
namespace {

constexpr std::uint64_t kSmallBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kSmallPartOfPeak = 100;  // a hundredth

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
  return "it is unknown whether operators use " + part_text(found.unknown_bytes, found.live_bytes) +
         " again";
}

std::string plain_sentence(const report::LastUse& found) {
  const bool has_unknown = matters(found.unknown_bytes, found);
  if (!matters(found.unused_bytes, found)) {
    if (!has_unknown) return "every byte at the peak is used again.";
    return unobserved_text(found) + "; they use all the rest again.";
  }
  std::string text =
      "no operator uses " + part_text(found.unused_bytes, found.live_bytes) + " again";
  const std::string reachable = base::bytes_text(found.reachable_peak_bytes);
  text += reachable == base::bytes_text(found.live_bytes)
              ? ", but freeing it when it was last used would not lower the peak"
              : "; freeing it when it was last used would lower the peak to " + reachable;
  return text + (has_unknown ? "; " + unobserved_text(found) + "." : ".");
}

}  // namespace

std::string sentence(const report::LastUse& found) {
  std::string text = (found.is_sampled ? "in the observed steps, " : "") + plain_sentence(found);
  text.front() = static_cast<char>(text.front() - 'a' + 'A');
  return text;
}

}  // namespace plimsoll::analysis::uses

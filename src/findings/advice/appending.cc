#include "findings/advice/advice.h"

#include <algorithm>
#include <string>

#include "base/units.h"
#include "findings/text.h"

namespace plimsoll::findings {
namespace {

constexpr std::size_t kMostInTurn = 64;

struct Newest {
  Allocation tensor;
  std::size_t times = 1;  // that it was made longer
};

}  // namespace

bool advise_appended(const Peak& peak, const Parts& parts, report::Finding& finding) {
  constexpr std::size_t kFewest = 8;
  const Allocation& largest = largest_of(parts);
  if (largest.born == model::kNone) return false;
  if (!peak.evidence().called_ops(largest.lifetime).has(evidence::Operator::kJoining)) return false;
  std::size_t times = 0;               // until `largest`
  std::vector<whatif::Freed> earlier;  // each is replaced when the next one is made
  std::vector<Newest> newest;          // a line may make several longer in turn
  peak.for_each([&](const Allocation& each) {
    if (each.size_bytes < kSmallTensorBytes || each.line() != largest.line()) return;
    if (each.site().op != largest.site().op) return;
    std::erase_if(newest, [&](const Newest& old) { return old.tensor.died < each.born; });
    Newest* before = nullptr;
    for (Newest& old : newest) {
      if (old.tensor.size_bytes >= each.size_bytes) continue;
      if (before == nullptr || old.tensor.size_bytes > before->tensor.size_bytes) before = &old;
    }
    const bool is_full = before == nullptr && newest.size() == kMostInTurn;
    if (is_full) newest.erase(newest.begin());
    if (before == nullptr) before = &newest.emplace_back(Newest{each, 0});
    if (before->times > 0) earlier.push_back({before->tensor.lifetime, each.born});
    *before = {each, before->times + 1};
    if (each.lifetime == largest.lifetime) times = before->times;
  });
  if (times < kFewest) return false;
  const std::string line = largest.label();
  finding.evidence.push_back(line + " makes one tensor longer again and again, " +
                             base::format_count(times) + " times up to " +
                             bytes_text(largest.size_bytes) +
                             ". Each time, the old and the new tensor are live.");
  finding.steps = {{"Allocate the tensor at " + line +
                        " once, in its final size, and write each part into a slice of it, which "
                        "also saves the copies.",
                    peak.replay().freed_early(earlier)},
                   {"Keep only what you need of each part that " + line + " appends."}};
  return true;
}

}  // namespace plimsoll::findings

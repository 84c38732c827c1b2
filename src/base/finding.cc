#include "base/finding.h"

#include <string_view>

#include "base/units.h"

namespace plimsoll {
namespace {

// "a list of 12", "an OrderedDict of 3".
std::string with_article(const std::string& type) {
  const bool is_vowel = std::string_view("aeiouAEIOU").find(type.front()) != std::string::npos;
  return (is_vowel ? "an " : "a ") + type;
}

}  // namespace

std::string step_text(const FindingStep& step) {
  if (step.saving_bytes == 0) return step.text;
  return step.text + (step.is_upper_bound ? " Saves up to " : " Saves ") +
         base::bytes_text(step.saving_bytes) + ".";
}

std::string holder_type_text(const std::string& type, std::uint64_t length, std::uint64_t limit) {
  if (type.empty() || length == 0) return type;
  const std::string text = type + " of " + base::format_count(length);
  return limit == 0 ? text : text + ", at most " + base::format_count(limit);
}

std::string holder_text(const FindingHolder& holder) {
  const std::string type = holder_type_text(holder.type, holder.length, holder.limit);
  const bool is_direct = holder.chain.find(" → ") == std::string::npos;
  return holder.path + (type.empty() ? "" : ", " + with_article(type) + ",") + " holds " +
         base::bytes_text(holder.bytes) + " in " + base::counted(holder.count, "allocation") +
         (is_direct ? "" : ": " + holder.chain) + ".";
}

std::string proof_text(bool is_cut, std::uint64_t freed_bytes, std::uint64_t left_bytes,
                       const std::string& other, bool is_native) {
  if (!is_cut) return {};
  if (left_bytes == 0 && !is_native) {
    return "No other reference keeps this memory: ending this one frees " +
           base::bytes_text(freed_bytes) + ".";
  }
  return (other.empty() ? "Native code" : other) + " holds " +
         (left_bytes == 0 ? "some of it" : base::bytes_text(left_bytes) + " of it") + ", too.";
}

}  // namespace plimsoll

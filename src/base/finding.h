// The field lists of findings and alerts, and their steps as text.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/fields.h"
#include "plimsoll/finding.h"

namespace plimsoll {

constexpr auto FindingStep::fields() {
  using base::Field;
  return base::field_list(
      Field{"text", &FindingStep::text, "What to do, as an imperative."},
      Field{"saving_bytes", &FindingStep::saving_bytes,
            "Bytes that this change would save; 0 if none or unknown."},
      Field{"is_upper_bound", &FindingStep::is_upper_bound, "True if it may save less."});
}

constexpr auto FindingHolder::fields() {
  using base::Field;
  return base::field_list(
      Field{"path", &FindingHolder::path, "What the program calls it, such as trainer.losses."},
      Field{"type", &FindingHolder::type, "Its class."},
      Field{"length", &FindingHolder::length, "Its entries; 0 if it is not a container."},
      Field{"limit", &FindingHolder::limit, "The most entries that it keeps; 0: no limit."},
      Field{"chain", &FindingHolder::chain, "The references from it to most of the bytes."},
      Field{"count", &FindingHolder::count, "Allocations of the finding that it holds."},
      Field{"bytes", &FindingHolder::bytes, "Their bytes."},
      Field{"is_cut", &FindingHolder::is_cut,
            "True if the references from elsewhere were counted; the next fields are known only "
            "then."},
      Field{"freed_bytes", &FindingHolder::freed_bytes,
            "Bytes of all that it holds that nothing else holds."},
      Field{"left_bytes", &FindingHolder::left_bytes, "Bytes of it that others hold, too."},
      Field{"other", &FindingHolder::other, "One of these others; empty if none is known."},
      Field{"is_native", &FindingHolder::is_native, "True if native code holds some of it, too."});
}

constexpr auto Finding::fields() {
  using base::Field;
  return base::field_list(
      Field{"id", &Finding::id, "Stable name of the finding."},
      Field{"severity", &Finding::severity, "info, warning or critical."},
      Field{"title", &Finding::title, "The verdict."},
      Field{"evidence", &Finding::evidence,
            "The facts behind the verdict, with numbers and places."},
      Field{"next_step", &Finding::next_step, "The text of the first step."},
      Field{"saving_bytes", &Finding::saving_bytes,
            "The saving of the first step; 0 if none or unknown."},
      Field{"steps", &Finding::steps, "What to do: alternatives, the recommended one first."},
      Field{"holders", &Finding::holders,
            "What holds the memory, most bytes first; empty if no walk of the recorder knows it."},
      Field{"is_fact", &Finding::is_fact,
            "True if it states what the memory is, and the program may need all of it."});
}

constexpr auto MemoryAlert::fields() {
  using base::Field;
  return [](auto&& visitor) {
    Finding::fields()(visitor);
    base::field_list(Field{"device", &MemoryAlert::device, "The device, or host."},
                     Field{"subject", &MemoryAlert::subject,
                           "The category that the finding is about; may be empty."},
                     Field{"iteration", &MemoryAlert::iteration,
                           "Iteration of the sample that raised it."})(visitor);
  };
}

// A step that saves at most `saving_bytes`.
inline FindingStep step_up_to(std::string text, std::uint64_t saving_bytes) {
  return {std::move(text), saving_bytes, saving_bytes > 0};
}

// The step with its saving: "Free what a.py:3 (f) keeps. Saves up to 1.2 GiB."
std::string step_text(const FindingStep& step);

// "trainer.losses, a list of 12, holds 2.3 MiB in 36 allocations: trainer.losses[*] → …."
std::string holder_text(const FindingHolder& holder);
// "list of 12", "deque of 8, at most 10"; may be empty.
std::string holder_type_text(const std::string& type, std::uint64_t length, std::uint64_t limit);
// What the references from elsewhere show: "No other reference keeps this memory: ending this one
// frees 2.3 MiB."; empty if they were not counted.
std::string proof_text(bool is_cut, std::uint64_t freed_bytes, std::uint64_t left_bytes,
                       const std::string& other, bool is_native);
inline std::string proof_text(const FindingHolder& holder) {
  return proof_text(holder.is_cut, holder.freed_bytes, holder.left_bytes, holder.other,
                    holder.is_native);
}

}  // namespace plimsoll

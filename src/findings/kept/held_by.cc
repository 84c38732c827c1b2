#include "findings/kept/held_by.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/holders/chains.h"
#include "analysis/holders/edits.h"
#include "analysis/holders/holders.h"
#include "base/units.h"
#include "findings/text.h"

namespace plimsoll::findings {
namespace {

namespace holders = analysis::holders;

report::FindingHolder as_reported(const model::Trace& trace, const holders::Holder& holder) {
  const model::HolderLink& link = trace.holders.links[holder.link];
  report::FindingHolder row;
  row.path = holders::path_text(trace, holder.link);
  row.type = trace.strings[link.type];
  row.length = link.length;
  row.limit = link.limit;
  row.chain = holders::chain_text(trace, holder.example);
  row.count = holder.count;
  row.bytes = holder.bytes;
  if (holder.cut == nullptr) return row;
  row.is_cut = true;
  row.freed_bytes = holder.cut->freed_bytes;
  row.left_bytes = holder.cut->left_bytes;
  if (holder.cut->other != 0) row.other = holders::path_text(trace, holder.cut->other);
  row.is_native = holder.cut->is_native;
  return row;
}

// "a list of 12", "an OrderedDict of 3".
std::string with_article(const std::string& type) {
  const bool is_vowel = std::string_view("aeiouAEIOU").find(type.front()) != std::string::npos;
  return (is_vowel ? "an " : "a ") + type;
}

// What the references from elsewhere show.
std::string proof_text(const report::FindingHolder& holder) {
  if (!holder.is_cut) return {};
  if (holder.left_bytes == 0 && !holder.is_native) {
    return " Nothing else holds what it holds: without it, " + bytes_text(holder.freed_bytes) +
           " are free.";
  }
  return " " + (holder.other.empty() ? "Native code" : holder.other) + " holds " +
         (holder.left_bytes == 0 ? "some of it" : bytes_text(holder.left_bytes) + " of it") +
         ", too.";
}

// "After step 16, ": when the walk saw the link. Empty if no steps are marked before it.
std::string time_text(const model::Trace& trace, const model::HolderLink& link) {
  const std::int64_t time_ns = trace.holders.walks[link.walk].time_ns;
  const auto steps = std::ranges::count_if(trace.marks, [&](const model::Mark& mark) {
    return mark.kind == model::MarkKind::kStep && mark.time_ns <= time_ns;
  });
  return steps == 0 ? ""
                    : "After step " + base::format_count(static_cast<std::uint64_t>(steps)) + ", ";
}

// "trainer.losses, a list of 12, holds 2.3 MiB of it in 36 allocations: trainer.losses[*] → …".
std::string holder_text(const model::Trace& trace, std::uint32_t link,
                        const report::FindingHolder& holder) {
  const bool is_root = trace.holders.links[link].parent == 0;
  const std::string type = is_root ? "" : holders::type_text(trace, link);
  const bool is_direct = holder.chain.find(" → ") == std::string::npos;
  return time_text(trace, trace.holders.links[link]) + holder.path +
         (type.empty() ? "" : ", " + with_article(type) + ",") + " holds " +
         bytes_text(holder.bytes) + " of it in " + counted(holder.count, "allocation") +
         (is_direct ? "" : ": " + holder.chain) + "." + proof_text(holder);
}

}  // namespace

void name_holder(const Facts& facts, const DeviceFacts& device,
                 std::span<const std::uint32_t> lifetimes, EditGoes edit,
                 report::Finding& finding) {
  const model::Trace& trace = facts.trace;
  if (!device.trace.lifetimes.holder.present()) return;
  const std::vector<holders::Holder> found = holders::holders_of(trace, device.trace, lifetimes);
  std::uint64_t bytes = 0;
  for (const std::uint32_t row : lifetimes) bytes += trace.lifetime_bytes(device.trace, row);
  if (found.empty() || !is_at_least(found.front().bytes, 0.5, bytes)) return;
  for (const holders::Holder& each : found) {
    finding.holders.push_back(as_reported(trace, each));
    if (finding.holders.size() == kNamed) break;
  }
  const holders::Holder& holder = found.front();
  finding.title += ", held by " + finding.holders.front().path;
  finding.evidence.push_back(holder_text(trace, holder.link, finding.holders.front()));
  std::string text = holders::edit_text(trace, holder);
  if (text.empty()) return;
  report::FindingStep step{std::move(text)};
  if (!finding.steps.empty()) {
    // What others hold stays live.
    std::uint64_t of_others = 0;
    for (const holders::Holder& each : std::span(found).subspan(1)) of_others += each.bytes;
    const std::uint64_t saving = finding.steps.front().saving_bytes;
    step.saving_bytes = saving - std::min(saving, of_others);
    step.is_upper_bound = step.saving_bytes > 0;
  }
  if (edit == EditGoes::kInPlaceOfTheFirst && !finding.steps.empty()) {
    finding.steps.front() = std::move(step);
  } else {
    finding.steps.insert(finding.steps.begin(), std::move(step));
  }
}

}  // namespace plimsoll::findings

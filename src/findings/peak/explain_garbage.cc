// garbage_in_cycles: tensors of earlier steps that nothing uses, but that reference cycles retain
// until Python's garbage collector runs.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "findings/advice/calls.h"
#include "findings/peak/peak.h"
#include "findings/text.h"

namespace plimsoll::findings {
namespace {

constexpr double kGarbageShareOfPeak = 0.15;
// If a source (source_of) runs at nearly every step, its allocations are garbage at the end of
// their step. With fewer steps than this, regularity is unknown.
constexpr std::size_t kFewestRegularSteps = 3;
constexpr double kRegular = 0.6;
// The share of allocations outliving their step that the collector must have freed: tensors in a
// queue or list that the program clears itself are not garbage. A tensor that is replaced in the
// next step is no evidence either way.
constexpr double kMostlyCollected = 0.8;
constexpr std::size_t kFewestStepsKept = 2;
// Memory still live at the end counts as garbage too if the collector freed this share of all
// memory that outlived its step.
constexpr double kCollectedOften = 0.25;
constexpr double kShareOfKind = 0.1;

bool has_collected(const model::Lifetimes& lifetimes) {
  for (std::size_t row = 0; row < lifetimes.size(); ++row) {
    if (has(lifetimes.flags[row], model::LifetimeFlags::kCollected)) return true;
  }
  return false;
}

// The source of an allocation: its line and category. One line may make both long-lived state and
// temporaries, and only the temporaries are replaced at every step.
std::uint64_t source_of(const Peak& peak, const PeakAllocation& allocation) {
  return std::uint64_t{peak.line(allocation).value} << 32u |
         peak.trace().category(peak.device().trace, allocation.lifetime).value;
}

struct SourceHistory {
  struct Run {
    std::size_t step = 0;
    std::uint32_t event = 0;  // of the first allocation in it
  };
  std::vector<Run> runs;  // by step
  // Bytes of the allocations that outlive their step.
  std::uint64_t collected_bytes = 0;
  std::uint64_t freed_bytes = 0;  // by the program
  std::uint64_t left_bytes = 0;   // live at the end

  bool is_regular() const {
    return runs.size() >= kFewestRegularSteps &&
           is_at_least(runs.size(), kRegular, runs.back().step - runs.front().step + 1);
  }
  // The event at which a later step allocates again; kNone if none does.
  std::uint32_t next_run(std::size_t step) const {
    const auto next = std::ranges::upper_bound(runs, step, {}, &Run::step);
    return next == runs.end() ? model::kNone : next->event;
  }
  bool is_cyclic() const {
    return is_at_least(collected_bytes, kMostlyCollected, collected_bytes + freed_bytes);
  }
  bool is_cyclic_at_end() const {
    return is_cyclic() && is_at_least(collected_bytes, kCollectedOften,
                                      collected_bytes + freed_bytes + left_bytes);
  }
};

class Garbage {
 public:
  explicit Garbage(const Peak& peak) : peak_(peak), spans_(peak.evidence().spans()) {
    peak.for_each([&](const PeakAllocation& allocation) { add(allocation); });
  }

  // The event from which on the allocation is garbage; its death if it never is. If a full
  // collection did not free it, it was still in use then.
  std::uint32_t since(const PeakAllocation& allocation) const {
    const SourceHistory& source = sources_.at(source_of(peak_, allocation));
    const bool is_left = allocation.died == model::kNone && source.is_cyclic_at_end();
    const bool is_freed = is_collected(allocation) && source.is_cyclic();
    if (!is_left && !is_freed) return allocation.died;
    std::uint32_t since = source.is_regular() ? peak_.death_after_step(allocation)
                                              : source.next_run(peak_.step(allocation.born));
    const std::uint32_t freed =
        is_left ? model::kNone : spans_.collections()[collection(allocation)];
    const auto full = std::ranges::lower_bound(spans_.full_collections(), freed);
    if (full != spans_.full_collections().begin()) since = std::max(since, *std::prev(full));
    return std::min(since, allocation.died);
  }

  // The number of the collection that freed it.
  std::size_t collection(const PeakAllocation& allocation) const {
    const auto next = std::ranges::upper_bound(spans_.collections(), allocation.died);
    return static_cast<std::size_t>(next - spans_.collections().begin()) - 1;
  }

 private:
  bool is_collected(const PeakAllocation& allocation) const {
    return peak_.evidence().fate(allocation.lifetime) == evidence::Fate::kCollector;
  }
  void add(const PeakAllocation& allocation) {
    SourceHistory& source = sources_[source_of(peak_, allocation)];
    const std::size_t step = peak_.step(allocation.born);
    if (source.runs.empty() || source.runs.back().step != step) {
      source.runs.push_back({step, allocation.born});
    }
    const std::size_t kept = peak_.step(allocation.died) - step;
    if (kept == 0) return;
    if (allocation.died == model::kNone) {
      source.left_bytes += allocation.size_bytes;
    } else if (is_collected(allocation)) {
      source.collected_bytes += allocation.size_bytes;
    } else if (kept >= kFewestStepsKept) {
      source.freed_bytes += allocation.size_bytes;
    }
  }

  const Peak& peak_;
  const evidence::Spans& spans_;
  std::unordered_map<std::uint64_t, SourceHistory> sources_;
};

// Figures about garbage in the whole recording.
struct GarbageTotals {
  std::set<std::size_t> collections;
  std::uint64_t collected_bytes = 0;
  std::uint64_t left_bytes = 0;
  std::size_t most_steps = 0;  // between its birth and its free

  GarbageTotals(const Peak& peak, const Garbage& garbage) {
    peak.for_each([&](const PeakAllocation& allocation) {
      if (garbage.since(allocation) >= allocation.died) return;
      if (allocation.died == model::kNone) {
        left_bytes += allocation.size_bytes;
        return;
      }
      collections.insert(garbage.collection(allocation));
      collected_bytes += allocation.size_bytes;
      most_steps = std::max(most_steps, peak.step(allocation.died) - peak.step(allocation.born));
    });
  }
};

std::string how_to_break_the_cycle(const Peak& peak, const Explanation& garbage) {
  std::uint64_t of_checkpoint = 0, of_function = 0;
  std::string function;
  for (const std::uint32_t part : garbage.parts) {
    const PeakAllocation& allocation = peak.live()[part];
    const bool is_in_checkpoint =
        peak.stacks().has(allocation.stack, evidence::StackFlag::kReentrantCheckpoint);
    if (is_in_checkpoint) of_checkpoint += allocation.size_bytes;
    if (!peak.has_line(allocation) || !is_of_autograd_function(peak, allocation)) continue;
    of_function += allocation.size_bytes;
    function = peak.line_label(allocation);
  }
  if (is_at_least(of_checkpoint, kShareOfKind, garbage.bytes)) {
    return "Pass use_reentrant=False to checkpoint(), or keep its output out of the objects that "
           "its function uses.";
  }
  if (is_at_least(of_function, kShareOfKind, garbage.bytes)) {
    return "Pass the inputs and outputs of the autograd.Function at " + function +
           " to ctx.save_for_backward(): an output stored as an attribute of ctx refers to itself.";
  }
  return "Break the cycle: `del` a caught exception and its frames, store a bound method in its "
         "own module as weakref.WeakMethod, and replace backward(create_graph=True) by "
         "torch.autograd.grad().";
}

}  // namespace

void explain_garbage(Peak& peak, Explanations& out) {
  if (!peak.has_steps() || !has_collected(peak.device().trace.lifetimes)) return;
  const Garbage garbage(peak);
  Explanation explanation;
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    if (garbage.since(peak.live()[part]) <= peak.event()) explanation.add(peak, part);
  }
  if (explanation.bytes < kLeastPeakBytes) return;
  if (!is_at_least(explanation.bytes, kGarbageShareOfPeak, peak.bytes())) return;
  explanation.kind = Kind::kMistake;
  const GarbageTotals totals(peak, garbage);
  report::Finding& finding = explanation.finding;
  finding.id = "garbage_in_cycles";
  finding.title = "Garbage in reference cycles is " + share_text(peak, explanation.bytes) + ": " +
                  bytes_text(explanation.bytes) + " of " + bytes_text(peak.bytes());
  finding.evidence.push_back("It is " + lines_text(peak, explanation.parts) + ".");
  finding.evidence.push_back(
      "Reference cycles retain it until Python's garbage collector runs: " +
      counted(totals.collections.size(), "run") + " of the collector freed " +
      bytes_text(totals.collected_bytes) + ", up to " + counted(totals.most_steps, "step") +
      " after it was allocated" +
      (totals.left_bytes == 0
           ? "."
           : ", and " + bytes_text(totals.left_bytes) + " are still live at the end."));
  const std::uint64_t saving =
      peak.saving([&](const PeakAllocation& allocation) { return garbage.since(allocation); });
  finding.steps = {{how_to_break_the_cycle(peak, explanation), saving},
                   {"Call gc.collect() at the end of each step.", saving}};
  out.push_back(std::move(explanation));
}

}  // namespace plimsoll::findings

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

// The share of the bytes outliving their step that the collector must have freed: tensors in a
// queue or list that the program clears itself are not garbage. A tensor that is replaced in the
// next step is no evidence either way.
constexpr double kMostlyCollected = 0.8;
constexpr std::size_t kFewestStepsKept = 2;
// Memory still live at the end counts as garbage too if the collector freed this share of all
// memory that outlived its step.
constexpr double kCollectedOften = 0.25;
constexpr double kShareOfKind = 0.1;

// What the allocations of one line and category leave after their step.
struct Outliving {
  struct Run {
    std::size_t step = 0;
    std::uint32_t event = 0;  // of the first allocation in it
  };
  std::vector<Run> runs;  // by step
  std::uint64_t collected_bytes = 0;
  std::uint64_t freed_bytes = 0;  // by the program
  std::uint64_t left_bytes = 0;   // live at the end

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
    peak.for_each([&](const PeakAllocation& allocation) {
      Outliving& source = sources_[source_of(allocation)];
      const std::size_t step = peak.step(allocation.born);
      if (source.runs.empty() || source.runs.back().step != step) {
        source.runs.push_back({step, allocation.born});
      }
      const std::size_t kept = peak.step(allocation.died) - step;
      if (kept == 0) return;
      if (allocation.died == model::kNone) {
        source.left_bytes += allocation.size_bytes;
      } else if (is_collected(allocation)) {
        source.collected_bytes += allocation.size_bytes;
      } else if (kept >= kFewestStepsKept) {
        source.freed_bytes += allocation.size_bytes;
      }
    });
  }

  // The event from which on the allocation is garbage, its death if it never is: after its last use
  // or, if that is unknown, when a later step makes another one. If a full collection did not free
  // it, it was still in use then.
  std::uint32_t since(const PeakAllocation& allocation) const {
    const Outliving& source = sources_.at(source_of(allocation));
    const bool is_left = allocation.died == model::kNone && source.is_cyclic_at_end();
    const bool is_freed = is_collected(allocation) && source.is_cyclic();
    if (!is_left && !is_freed) return allocation.died;
    const std::uint32_t freed =
        is_left ? model::kNone : spans_.collections()[collection(allocation)];
    const auto full = std::ranges::lower_bound(spans_.full_collections(), freed);
    const std::uint32_t in_use =
        full == spans_.full_collections().begin() ? allocation.born : *std::prev(full);
    const auto again = peak_.uses().used_again(allocation.lifetime, allocation.born);
    const bool is_known = again == model::UsedAgain::kYes || again == model::UsedAgain::kNo;
    const std::uint32_t unused = is_known ? peak_.uses().freeable(allocation.lifetime)
                                          : source.next_run(peak_.step(allocation.born));
    return std::min(std::max(unused, in_use), allocation.died);
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
  // One line may make both long-lived state and temporaries.
  std::uint64_t source_of(const PeakAllocation& allocation) const {
    return std::uint64_t{peak_.line(allocation).value} << 32u |
           peak_.trace().category(peak_.device().trace, allocation.lifetime).value;
  }

  const Peak& peak_;
  const evidence::Spans& spans_;
  std::unordered_map<std::uint64_t, Outliving> sources_;
};

// What the whole recording shows about garbage.
std::string garbage_text(const Peak& peak, const Garbage& garbage) {
  std::set<std::size_t> collections;
  std::uint64_t collected = 0, left = 0;
  std::size_t most_steps = 0;  // between its birth and its free
  peak.for_each([&](const PeakAllocation& allocation) {
    if (garbage.since(allocation) >= allocation.died) return;
    if (allocation.died == model::kNone) {
      left += allocation.size_bytes;
      return;
    }
    collections.insert(garbage.collection(allocation));
    collected += allocation.size_bytes;
    most_steps = std::max(most_steps, peak.step(allocation.died) - peak.step(allocation.born));
  });
  return "Reference cycles retain it until Python's garbage collector runs: " +
         counted(collections.size(), "run") + " of the collector freed " + bytes_text(collected) +
         ", up to " + counted(most_steps, "step") + " after it was allocated" +
         (left == 0 ? "." : ", and " + bytes_text(left) + " are still live at the end.");
}

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
  if (!peak.has_steps() || peak.evidence().spans().collections().empty()) return;
  const Garbage garbage(peak);
  Explanation explanation;
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    if (garbage.since(peak.live()[part]) <= peak.event()) explanation.add(peak, part);
  }
  if (explanation.bytes < kLeastPeakBytes) return;
  if (!is_at_least(explanation.bytes, kLeastShareOfMistake, peak.bytes())) return;
  explanation.kind = Kind::kMistake;
  report::Finding& finding = explanation.finding;
  finding.id = "garbage_in_cycles";
  finding.title = "Garbage in reference cycles is " + share_text(peak, explanation.bytes) + ": " +
                  bytes_text(explanation.bytes) + " of " + bytes_text(peak.bytes());
  finding.evidence.push_back("It is " + lines_text(peak, explanation.parts) + ".");
  finding.evidence.push_back(garbage_text(peak, garbage));
  const std::uint64_t saving =
      peak.saving([&](const PeakAllocation& allocation) { return garbage.since(allocation); });
  finding.steps = {{how_to_break_the_cycle(peak, explanation), saving},
                   {"Call gc.collect() at the end of each step.", saving}};
  out.push_back(std::move(explanation));
}

}  // namespace plimsoll::findings

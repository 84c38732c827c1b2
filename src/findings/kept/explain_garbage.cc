// garbage_in_cycles: tensors of earlier steps that nothing uses, but that reference cycles retain
// until Python's garbage collector runs.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

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
    return collected_bytes > 0 &&
           is_at_least(collected_bytes, kMostlyCollected, collected_bytes + freed_bytes);
  }
  bool is_cyclic_at_end() const {
    return is_cyclic() && is_at_least(collected_bytes, kCollectedOften,
                                      collected_bytes + freed_bytes + left_bytes);
  }
};

class Garbage {
 public:
  explicit Garbage(const Peak& peak) : peak_(peak), collections_(peak.spans().collections()) {
    const auto& events = peak.device().trace.mark_events;
    for (std::size_t row = 0; row < events.size(); ++row) {
      const model::Mark& mark = peak.trace().marks[row];
      const bool is_begin = mark.kind == model::MarkKind::kCollectionBegin;
      if (is_begin && mark.is_full) full_collections_.push_back(events[row]);
    }
    peak.for_each([&](const Allocation& allocation) {
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
  std::uint32_t since(const Allocation& allocation) const {
    const Outliving& source = sources_.at(source_of(allocation));
    const bool is_left = allocation.died == model::kNone && source.is_cyclic_at_end();
    const bool is_freed = is_collected(allocation) && source.is_cyclic();
    if (!is_left && !is_freed) return allocation.died;
    const std::uint32_t freed = is_left ? model::kNone : collections_[collection(allocation)];
    const auto full = std::ranges::lower_bound(full_collections_, freed);
    const std::uint32_t in_use =
        full == full_collections_.begin() ? allocation.born : *std::prev(full);
    const auto again = peak_.uses().used_again(allocation.lifetime, allocation.born);
    const bool is_known = again == model::UsedAgain::kYes || again == model::UsedAgain::kNo;
    const std::uint32_t unused = is_known ? peak_.uses().freeable(allocation.lifetime)
                                          : source.next_run(peak_.step(allocation.born));
    return std::min(std::max(unused, in_use), allocation.died);
  }

  // The number of the collection that freed it.
  std::size_t collection(const Allocation& allocation) const {
    const auto next = std::ranges::upper_bound(collections_, allocation.died);
    return static_cast<std::size_t>(next - collections_.begin()) - 1;
  }

 private:
  bool is_collected(const Allocation& allocation) const {
    return allocation.fate() == evidence::Fate::kCollector;
  }
  // One line may make both long-lived state and temporaries.
  std::uint64_t source_of(const Allocation& allocation) const {
    return std::uint64_t{allocation.line().value} << 32u |
           allocation.known->trace.category(allocation.known->device, allocation.lifetime).value;
  }

  const Peak& peak_;
  std::span<const std::uint32_t> collections_;
  std::vector<std::uint32_t> full_collections_;
  std::unordered_map<std::uint64_t, Outliving> sources_;
};

// What the whole recording shows about garbage.
std::string garbage_text(const Peak& peak, const Garbage& garbage) {
  std::set<std::size_t> collections;
  std::uint64_t collected = 0, left = 0;
  std::size_t most_steps = 0;  // between its birth and its free
  peak.for_each([&](const Allocation& allocation) {
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

std::string how_to_break_the_cycle(const Explanation& garbage) {
  const Parts of_checkpoint = those_of(garbage.parts, [](const Allocation& each) {
    return each.has(evidence::StackFlag::kReentrantCheckpoint);
  });
  const Parts of_function = those_of(garbage.parts, [](const Allocation& each) {
    return each.has(evidence::StackFlag::kAutogradFunction);
  });
  if (is_at_least(bytes_of(of_checkpoint), kShareOfKind, garbage.bytes)) {
    return "Pass use_reentrant=False to checkpoint(), or keep its output out of the objects that "
           "its function uses.";
  }
  if (is_at_least(bytes_of(of_function), kShareOfKind, garbage.bytes)) {
    return "Pass the inputs and outputs of the autograd.Function at " +
           of_function.back().get().label() +
           " to ctx.save_for_backward(): an output stored as an attribute of ctx refers to itself.";
  }
  return "Break the cycle: `del` a caught exception and its frames, refer to a module from its own "
         "hooks and bound methods by weakref, and replace backward(create_graph=True) by "
         "torch.autograd.grad().";
}

}  // namespace

void explain_garbage(Peak& peak, Explanations& out) {
  if (!peak.has_steps() || peak.spans().collections().empty()) return;
  const Garbage garbage(peak);
  Explanation explanation(
      peak.live_if([&](const Allocation& each) { return garbage.since(each) <= peak.event(); }));
  if (!peak.is_much(explanation.bytes, kLeastShareOfMistake)) return;
  explanation.kind = Kind::kMistake;
  report::Finding& finding = explanation.finding;
  finding.id = "garbage_in_cycles";
  finding.title = "Garbage in reference cycles is " + amount_text(peak, explanation.bytes);
  finding.evidence = {"It is " + lines_text(explanation.parts) + ".", garbage_text(peak, garbage)};
  const std::uint64_t saving =
      peak.saving([&](const Allocation& each) { return garbage.since(each); });
  finding.steps = {{how_to_break_the_cycle(explanation), saving},
                   {"Call gc.collect() at the end of each step.", saving}};
  out.push_back(std::move(explanation));
}

}  // namespace plimsoll::findings

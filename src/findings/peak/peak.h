// The peak of a device, for the rules that explain what fills it: what is live at the peak, and how
// much lower the peak would be if some of it were freed earlier. Native recordings state
// categories, phases, layers and the beginning of each backward. PyTorch's snapshots state none of
// them: categories are inferred (attribution/inferred_roles.h), and memory from before the history
// is included.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "findings/rules.h"
#include "findings/text.h"
#include "model/layers.h"
#include "report/attribution.h"

namespace plimsoll::findings {

// A smaller peak needs no explanation. Even a small trial of a large program has a few MiB.
inline constexpr std::uint64_t kLeastPeakBytes = std::uint64_t{4} << 20;
// The threshold for habits of most programs that cost little in small programs: gradients that are
// live through forward, the scratch of an optimizer.
inline constexpr std::uint64_t kLeastHabitBytes = std::uint64_t{16} << 20;
// Smaller tensors are scalars, counters or biases: explanations that count tensors ignore them.
inline constexpr std::uint64_t kSmallTensorBytes = 4096;
// What a mistake must cost to come before facts, and what a later fact must add to the earlier
// explanations.
inline constexpr double kLeastShareOfMistake = 0.15;
// What a later mistake must add: it is worth a line even if it costs little.
inline constexpr double kLeastShareOfHabit = 0.05;
// Half of the peak: nothing else can be larger.
inline constexpr double kShareOfActivations = 0.5;
// Adam's state is half of parameters, gradients and state together; with activations it may be a
// third. Explanations of more bytes are reported first anyway.
inline constexpr double kShareOfState = 1.0 / 3.0;
// A place with a smaller share is one of many.
inline constexpr double kShareOfPlace = 0.4;

// One allocation of the device, with what is known about it. Only native recordings have phases,
// tensors, layers, and everything about backward and steps.
struct Allocation {
  const DeviceEvidence* known = nullptr;
  std::uint32_t lifetime = 0;  // row of the device's lifetimes
  std::uint32_t born = 0;      // event of the device; kNone: before the history of a snapshot
  std::uint32_t died = 0;      // kNone: never
  model::StackId stack;
  std::uint64_t size_bytes = 0;

  std::string_view category() const {
    return known->trace.strings[known->trace.category(known->device, lifetime)];
  }
  template <typename... Categories>
  bool is(const Categories&... any) const {
    const std::string_view own = category();
    return ((own == any) || ...);
  }
  bool is_of_model() const;     // a parameter or buffer, or what belongs to one
  bool is_of_training() const;  // an activation, its gradient or a temporary
  // Where it was allocated; an empty site if that was before the history.
  const model::Site& site() const { return known->trace.birth(known->device, lifetime); }
  model::Phase phase() const { return site().phase; }
  // The classes of the operator that made it; none for memory from before the recording.
  evidence::OperatorSet op() const { return known->evidence.op(lifetime); }
  bool has(evidence::StackFlag flag) const { return known->evidence.stacks().has(stack, flag); }
  evidence::Fate fate() const { return known->evidence.fate(lifetime); }
  const model::Tensor& tensor() const {
    return known->trace.tensors[known->device.lifetimes.tensor[lifetime].index()];
  }
  std::string_view name() const { return known->trace.strings[tensor().name]; }
  std::string_view dtype() const { return known->trace.strings[tensor().dtype]; }
  model::LineId line() const { return known->lines.line(stack); }
  bool has_line() const { return known->lines.why(stack) == model::NoLine::kHasLine; }
  std::string label() const { return known->lines.label(stack); }
  // The line that calls the forward that made it; its own line if that is in no forward.
  std::string caller() const;
  model::LastUse use() const { return known->device.lifetimes.use(lifetime); }
};

using Parts = std::vector<std::reference_wrapper<const Allocation>>;
std::uint64_t bytes_of(const Parts& parts);
std::vector<std::uint32_t> rows_of(const Parts& parts);  // their lifetimes
const Allocation& largest_of(const Parts& parts);        // of equal ones the first
template <typename Is>
Parts those_of(const Parts& parts, Is&& is) {
  Parts those;
  std::ranges::copy_if(parts, std::back_inserter(those), is);
  return those;
}

class Peak {
 public:
  // Empty if the tables of this device do not describe its peak, or categories are unknown.
  static std::optional<Peak> of(const Facts& facts, const DeviceFacts& device);

  const model::Trace& trace() const { return facts_->trace; }
  const Facts& facts() const { return *facts_; }
  const DeviceFacts& device() const { return *device_; }
  const report::PointInTime& point() const { return *point_; }
  std::uint32_t event() const { return event_; }
  std::uint64_t bytes() const { return point_->live_bytes; }
  bool is_inferred() const { return trace().has_inferred_roles; }
  const evidence::Evidence& evidence() const { return known_->evidence; }
  const evidence::Spans& spans() const { return evidence().spans(); }
  const whatif::Replay& replay() const { return known_->replay; }
  const model::LastUses& uses() const { return known_->uses; }
  // Whether it is known that no operator uses it again after the peak.
  bool is_unused(const Allocation& allocation) const {
    return uses().used_again(allocation.lifetime, event_) == model::UsedAgain::kNo;
  }

  // By birth, without memory that grows from step to step, which memory_growth reports.
  const std::vector<Allocation>& live() const { return live_; }
  template <typename Is>
  Parts live_if(Is&& is) const {
    Parts parts;
    for (const Allocation& each : live_) {
      if (is(each)) parts.push_back(each);
    }
    return parts;
  }
  // Calls each(const Allocation&) for every allocation of the recording, by birth.
  template <typename Each>
  void for_each(Each&& each) const {
    const model::Lifetimes& lifetimes = device_->trace.lifetimes;
    for (std::uint32_t row = lifetimes.baseline_count; row < lifetimes.size(); ++row) {
      each(allocation(row));
    }
  }
  Allocation allocation(std::uint32_t lifetime) const;

  // Whether it was allocated inside an optimizer's step.
  bool is_of_optimizer(const Allocation& allocation) const;
  // Whether an optimizer of torch.optim makes it, and not one of the program.
  bool is_of_torch_optimizer(const Allocation& allocation) const;
  model::Layers& layers() { return layers_; }
  model::LayerId layer(const Allocation& allocation) {
    return layers_.of(device_->trace, allocation.lifetime);
  }

  // Events before which a backward begins; ascending.
  const std::vector<std::uint32_t>& backward_begins() const { return begins_; }
  // Whether a backward begins while the allocation is live.
  bool meets_backward(const Allocation& allocation) const;
  // False if no backward ran and none can follow: advice for training does not apply. Snapshots do
  // not show it.
  bool may_train() const { return may_train_; }
  // Whether the peak lies in a backward, or in a forward whose activations a backward uses.
  bool is_in_training() const { return is_in_training_; }

  // The event at which the allocation would die if it were freed at the end of the step that made
  // it; its own death if that is earlier. Requires has_steps().
  bool has_steps() const { return !spans().steps().empty(); }
  std::uint32_t death_after_step(const Allocation& allocation) const;
  // The number of the step that contains an event of the device, from 0; kNone: the last.
  std::size_t step(std::uint32_t event) const { return spans().step(event); }

  // How much the peak falls if each allocation dies at the event that death(const Allocation&)
  // returns: its own (`died`), an earlier one, or its birth if it is not made at all.
  template <typename Death>
  std::uint64_t saving(Death&& death) const {
    const std::uint64_t most = replay().peak_if([&](std::uint32_t row) {
      const Allocation each = allocation(row);
      return whatif::Absence{death(each), each.died};
    });
    return minus_or_zero(bytes(), most);
  }
  // How much it falls if the program does not make those for which is_absent(const Allocation&).
  template <typename IsAbsent>
  std::uint64_t saving_without(IsAbsent&& is_absent) const {
    std::vector<std::uint32_t> rows;
    for_each([&](const Allocation& each) {
      if (is_absent(each)) rows.push_back(each.lifetime);
    });
    return replay().never_made(rows);
  }
  // Whether the bytes are worth an explanation, and this share of the peak.
  bool is_much(std::uint64_t some, double share, std::uint64_t least = kLeastPeakBytes) const {
    return some >= least && is_at_least(some, share, bytes());
  }

 private:
  Peak(const Facts& facts, const DeviceFacts& device, const report::PointInTime& point);

  // Whether it is live until the first backward after its birth, which begins after the peak.
  bool awaits_backward(const Allocation& allocation) const;

  const Facts* facts_;
  const DeviceFacts* device_;
  const report::PointInTime* point_;
  const DeviceEvidence* known_;
  std::uint32_t event_ = 0;
  std::vector<Allocation> live_;
  std::vector<std::uint32_t> begins_;
  bool may_train_ = true;
  bool is_in_training_ = false;
  model::Layers layers_;
};

// In order of precedence.
enum class Kind : std::uint8_t {
  kMistake,  // the program can have the same result without it
  kUnused,   // no operator uses it again; why it is live is unknown
  kCause,    // why it is live; a mistake if no operator uses it again, else a fact
  kGrowth,   // it grows, maybe on purpose
  kFact      // where the bytes are
};

// One candidate explanation of what fills the peak.
struct Explanation {
  report::Finding finding = {};
  Parts parts = {};  // of Peak::live(), which it explains
  Kind kind = Kind::kFact;
  std::uint64_t bytes = 0;  // their total size

  Explanation() = default;
  explicit Explanation(Parts of) : parts(std::move(of)), bytes(bytes_of(parts)) {}
  void add(const Allocation& part) {
    parts.push_back(part);
    bytes += part.size_bytes;
  }
};
using Explanations = std::vector<Explanation>;

// The lifetimes that an explanation, or one of a kind, explains already, for a more general rule.
std::set<std::uint32_t> claimed(const Explanations& explanations, std::optional<Kind> kind = {});

// "50.0% of the peak on cpu".
std::string share_text(const Peak& peak, std::uint64_t bytes);
// "50.0% of the peak on cpu: 1.0 GiB of 2.0 GiB".
std::string amount_text(const Peak& peak, std::uint64_t bytes);
// ", called by Trainer.validate, main": user functions around the allocation's line; empty if there
// are none.
std::string callers_text(const Allocation& allocation);
// The line that allocated the most bytes of the parts, with those bytes.
std::pair<std::string, std::uint64_t> line_of_most(const Parts& parts);
// The same; where a package made most of it for the program, both lines:
// "transformers/models/llama/modeling_llama.py:197 (f), called at a.py:3 (g)".
std::string place_of_most(const Peak& peak, const Parts& parts);
// "3 tensors of [512, 512, 64] float32 by aten::sub", for the largest of the parts.
std::string parts_text(const Parts& parts);

// The same for each of the lines that allocated the most of the parts: "…, made at train.py:9 (f);
// …".
std::string lines_text(const Parts& parts);

// The calls in the user's code that lead to most of the parts, outermost first, while each has most
// of its caller's bytes: "train.py:9 (step) → dit.py:30 (forward)"; empty if there are none.
std::string path_text(const Parts& parts);

// Whether no operator uses half of the explained bytes again. False if uses are unknown.
bool is_mostly_unused(const Peak& peak, const Explanation& explanation);
// "No operator uses 3.0 MiB of it again." if that is most of the explained bytes; else empty.
std::string unused_text(const Peak& peak, const Explanation& explanation);
// The same for the memory of these lines that is live at the peak of the device.
std::string unused_text(const Facts& facts, const DeviceFacts& device,
                        const std::function<bool(model::LineId)>& is_of_lines);

#define PEAK_RULE(function, source) void function(Peak& peak, Explanations& out);
#include "report/findings.def"

}  // namespace plimsoll::findings

// The peak of a device, for the rules that explain what fills it: what is live at the peak, and how
// much lower the peak would be if some of it were freed earlier. Native recordings state
// categories, phases, layers and the beginning of each backward. PyTorch's snapshots state none of
// them: categories are inferred (engine/inferred_roles.h), and memory from before the history is
// included.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "findings/rules.h"
#include "model/layers.h"
#include "report/attribution.h"

namespace plimsoll::findings {

struct PeakAllocation {
  std::uint32_t lifetime = 0;  // row of the device's lifetimes
  std::uint32_t born = 0;      // event of the device; kNone: before the history of a snapshot
  std::uint32_t died = 0;      // kNone: never
  model::StackId stack;
  std::uint64_t size_bytes = 0;
};

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
  const evidence::Evidence& evidence() const { return evidence_->evidence; }
  const evidence::StackFacts& stacks() const { return evidence().stacks(); }
  const whatif::Replay& replay() const { return evidence_->replay; }
  const model::LastUses& uses() const { return evidence_->uses; }
  // Whether it is known that no operator uses it again after the peak.
  bool is_unused(const PeakAllocation& allocation) const {
    return uses().used_again(allocation.lifetime, event_) == model::UsedAgain::kNo;
  }

  // By birth, without memory that grows from step to step, which memory_growth reports.
  const std::vector<PeakAllocation>& live() const { return live_; }

  std::string_view category(const PeakAllocation& allocation) const {
    return trace().strings[trace().category(device_->trace, allocation.lifetime)];
  }
  // Where it was allocated; an empty site if that was before the history.
  const model::Site& site(const PeakAllocation& allocation) const {
    return trace().birth(device_->trace, allocation.lifetime);
  }
  model::LifetimeFlags flags(const PeakAllocation& allocation) const {
    return device_->trace.lifetimes.flags[allocation.lifetime];
  }
  // Only native recordings have phases, tensors, layers, and everything about backward and steps.
  model::Phase phase(const PeakAllocation& allocation) const { return site(allocation).phase; }
  // The classes of the operator that made it; none for memory from before the recording.
  evidence::OperatorSet op(const PeakAllocation& allocation) const {
    return evidence().op(allocation.lifetime);
  }
  const model::Tensor& tensor(const PeakAllocation& allocation) const {
    return trace().tensors[device_->trace.lifetimes.tensor[allocation.lifetime].index()];
  }
  model::LineId line(const PeakAllocation& allocation) const {
    return facts_->lines.line(allocation.stack);
  }
  bool has_line(const PeakAllocation& allocation) const {
    return facts_->lines.why(allocation.stack) == model::NoLine::kHasLine;
  }
  std::string line_label(const PeakAllocation& allocation) const {
    return facts_->lines.label(allocation.stack);
  }
  // Whether it was allocated inside an optimizer's step.
  bool is_of_optimizer(const PeakAllocation& allocation) const;
  // Whether an optimizer of torch.optim makes it, and not one of the program.
  bool is_of_torch_optimizer(const PeakAllocation& allocation) const;
  model::Layers& layers() { return layers_; }
  model::LayerId layer(const PeakAllocation& allocation) {
    return layers_.of(device_->trace, allocation.lifetime);
  }

  // Events before which a backward begins, or ends; ascending.
  const std::vector<std::uint32_t>& backward_begins() const { return begins_; }
  const std::vector<std::uint32_t>& backward_ends() const { return ends_; }
  // Whether a backward begins while the allocation is live.
  bool meets_backward(const PeakAllocation& allocation) const;
  // False if no backward ran and none can follow: advice for training does not apply. Snapshots do
  // not show it.
  bool may_train() const { return may_train_; }
  // Whether the peak lies in a backward, or in a forward whose activations a backward uses.
  bool is_in_training() const { return is_in_training_; }

  // The event at which the allocation would die if it were freed at the end of the step that made
  // it; its own death if that is earlier. Requires has_steps().
  bool has_steps() const { return !evidence().spans().steps().empty(); }
  std::uint32_t death_after_step(const PeakAllocation& allocation) const;
  // The number of the step that contains an event of the device, from 0; kNone: the last.
  std::size_t step(std::uint32_t event) const { return evidence().spans().step(event); }

  // Computes how much the peak falls if each allocation is absent between two events, which are
  // equal if it is never absent.
  struct Absence {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
  };
  using Absent = std::function<Absence(const PeakAllocation&)>;
  std::uint64_t saving_of_absence(const Absent& absent) const;
  // The same if each allocation dies at the event that `death` returns: its own (`died`), an
  // earlier one, or its birth if it is not made at all.
  using Death = std::function<std::uint32_t(const PeakAllocation&)>;
  std::uint64_t saving(const Death& death) const;
  // Calls each(const PeakAllocation&) for every allocation of the recording, by birth.
  void for_each(const std::function<void(const PeakAllocation&)>& each) const;

 private:
  Peak(const Facts& facts, const DeviceFacts& device, const report::PointInTime& point);

  // Whether it is live until the first backward after its birth, which begins after the peak.
  bool awaits_backward(const PeakAllocation& allocation) const;

  const Facts* facts_;
  const DeviceFacts* device_;
  const report::PointInTime* point_;
  const DeviceEvidence* evidence_;
  std::uint32_t event_ = 0;
  std::vector<PeakAllocation> live_;
  std::vector<std::uint32_t> begins_, ends_;
  bool may_train_ = true;
  bool is_in_training_ = false;
  model::Layers layers_;
};

// In order of precedence.
enum class Kind : std::uint8_t {
  kMistake,  // the program can have the same result without it
  kUnused,   // no operator uses it again; why it is live is unknown
  kCause,    // why it is live; a mistake if no operator uses it again, else a fact
  kFact      // where the bytes are
};

// One candidate explanation of what fills the peak.
struct Explanation {
  report::Finding finding;
  std::vector<std::uint32_t> parts;  // rows of Peak::live() that it explains
  std::uint64_t bytes = 0;           // their total size
  Kind kind = Kind::kFact;

  void add(const Peak& peak, std::uint32_t part) {
    parts.push_back(part);
    bytes += peak.live()[part].size_bytes;
  }
};
using Explanations = std::vector<Explanation>;

// Which rows of Peak::live() an explanation explains already, for a more general rule.
std::vector<bool> claimed(const Peak& peak, const Explanations& explanations);

// A smaller peak needs no explanation. Even a small trial of a large program has a few MiB.
inline constexpr std::uint64_t kLeastPeakBytes = std::uint64_t{4} << 20;
// The threshold for habits of most programs that cost little in small programs: gradients that are
// live through forward, the scratch of an optimizer.
inline constexpr std::uint64_t kLeastHabitBytes = std::uint64_t{16} << 20;
// Smaller tensors are scalars, counters or biases: explanations that count tensors ignore them.
inline constexpr std::uint64_t kSmallTensorBytes = 4096;
// What a mistake must cost to come before facts, and what a later explanation must add to the
// earlier ones.
inline constexpr double kLeastShareOfMistake = 0.15;
// Half of the peak: nothing else can be larger.
inline constexpr double kShareOfActivations = 0.5;
// Adam's state is half of parameters, gradients and state together; with activations it may be a
// third. Explanations of more bytes are reported first anyway.
inline constexpr double kShareOfState = 1.0 / 3.0;
// A place with a smaller share is one of many.
inline constexpr double kShareOfPlace = 0.4;

// "50.0% of the peak on cpu".
std::string share_text(const Peak& peak, std::uint64_t bytes);
// ", called by Trainer.validate, main": user functions around the allocation's line; empty if there
// are none.
std::string callers_text(const Peak& peak, const PeakAllocation& allocation);
// The line that allocated the most bytes of the parts, with those bytes.
std::pair<std::string, std::uint64_t> line_of_most(const Peak& peak,
                                                   const std::vector<std::uint32_t>& parts);
// "3 tensors of [512, 512, 64] float32 by aten::sub", for the largest of the parts.
std::string parts_text(const Peak& peak, const std::vector<std::uint32_t>& parts);

// The same for each of the lines that allocated the most of the parts: "…, made at train.py:9 (f);
// …".
std::string lines_text(const Peak& peak, const std::vector<std::uint32_t>& parts);

// The calls in the user's code that lead to most of the parts, outermost first, while each has most
// of its caller's bytes: "train.py:9 (step) → dit.py:30 (forward)"; empty if there are none.
std::string path_text(const Peak& peak, const std::vector<std::uint32_t>& parts);

#define PEAK_RULE(function, source) void function(Peak& peak, Explanations& out);
#include "report/findings.def"

}  // namespace plimsoll::findings

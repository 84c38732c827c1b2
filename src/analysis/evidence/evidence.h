// What is known about each allocation of a device, for the rules that judge its peak: where and
// what for it was made, in which step, round and forward pass, who freed it, and until when
// operators used it. A snapshot fills the same table, with more of it unknown.
//
// The table is built in two sweeps: one over the marks, one over the lifetimes.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/evidence/operators.h"
#include "analysis/evidence/passes.h"
#include "analysis/evidence/spans.h"
#include "analysis/evidence/stack_facts.h"
#include "base/categories.h"
#include "model/last_use.h"
#include "model/live_set.h"
#include "model/trace.h"
#include "model/user_line.h"

namespace plimsoll::analysis::evidence {

using base::Category;

// Who freed an allocation.
enum class Fate : std::uint8_t {
  kLive,       // nobody: it is live when the recording ends
  kOperator,   // the operator that made it, before it returned
  kCollector,  // Python's garbage collector
  kStream,     // the program; its block then waited for work on a stream
  kBackward,   // a backward that ran
  kProgram     // the program, outside backward
};

struct Row {
  std::uint32_t lifetime = 0;  // row of the device's lifetimes
  std::uint32_t born = 0;      // event of the device; kNone: before the recording
  std::uint32_t died = 0;      // kNone: never
  std::uint64_t size_bytes = 0;
  model::StackId stack;
  const model::Site* site = nullptr;  // where it was allocated; empty if that was not recorded
  std::uint32_t step = 0;
  std::uint32_t round = 0;  // see spans.h
  std::uint32_t pass = 0;   // of the root of its layer; 0: none
  Category category = Category::kUnknown;
  Fate fate = Fate::kLive;
  model::LifetimeFlags flags = model::LifetimeFlags::kNothing;
};

// What the names in a trace say, for all of its devices.
struct TraceFacts {
  TraceFacts(const model::Trace& trace, const model::UserLines& lines)
      : stacks(trace, lines), operators(trace) {}

  StackFacts stacks;
  Operators operators;
};

class Evidence {
 public:
  Evidence(const model::Trace& trace, const model::UserLines& lines, const TraceFacts& of_trace,
           const model::DeviceTrace& device);

  std::uint32_t size() const { return static_cast<std::uint32_t>(fates_.size()); }
  Row row(std::uint32_t lifetime) const;
  Fate fate(std::uint32_t lifetime) const { return fates_[lifetime]; }
  std::uint32_t pass(std::uint32_t lifetime) const { return passes_[lifetime]; }
  // Calls each(const Row&) for every allocation made in the recording, by birth.
  template <typename Each>
  void for_each(Each&& each) const {
    for (std::uint32_t id = device_.lifetimes.baseline_count; id < size(); ++id) each(row(id));
  }

  const model::Trace& trace() const { return trace_; }
  const model::DeviceTrace& device() const { return device_; }
  const Spans& spans() const { return spans_; }
  const StackFacts& stacks() const { return of_trace_.stacks; }
  const Operators& operators() const { return of_trace_.operators; }
  const model::LastUses& uses() const { return uses_; }

  model::LineId line(const Row& row) const { return lines_.line(row.stack); }
  bool has_line(const Row& row) const { return lines_.why(row.stack) == model::NoLine::kHasLine; }
  // What made it: the outermost operator; also the innermost; also, in backward, that of forward.
  OperatorSet op(std::uint32_t lifetime) const {
    return of_trace_.operators.of(trace_.birth(device_, lifetime).op);
  }
  OperatorSet called_ops(std::uint32_t lifetime) const {
    return of_trace_.operators.called_at(trace_.birth(device_, lifetime));
  }
  OperatorSet all_ops(std::uint32_t lifetime) const {
    return called_ops(lifetime) |
           of_trace_.operators.of(trace_.birth(device_, lifetime).forward_op);
  }
  // The root module of its layer; empty: outside all modules.
  std::string_view root(const Row& row) const { return root_of(trace_.strings[row.site->layer]); }
  // Of a round and of a step, how many end while it is live.
  std::uint32_t rounds_outlived(const Row& row) const { return spans_.round(row.died) - row.round; }
  std::uint32_t steps_outlived(const Row& row) const { return spans_.step(row.died) - row.step; }

 private:
  Fate fate_of(std::uint32_t lifetime) const;

  const model::Trace& trace_;
  const model::UserLines& lines_;
  const TraceFacts& of_trace_;
  const model::DeviceTrace& device_;
  Spans spans_;
  model::LastUses uses_;
  std::vector<std::pair<model::StringId, Category>> categories_;
  // By lifetime.
  std::vector<Fate> fates_;
  std::vector<std::uint32_t> passes_;
};

}  // namespace plimsoll::analysis::evidence

// What is known about each allocation of a device, for the rules that judge its peak: by what kind
// of operator and code it was made, in which forward pass, who freed it, and in which rounds and
// steps that was. Snapshots have no marks: there, rounds, steps and passes are unknown.
#pragma once

#include <cstdint>
#include <optional>

#include "analysis/evidence/operators.h"
#include "analysis/evidence/passes.h"
#include "analysis/evidence/spans.h"
#include "analysis/evidence/stack_facts.h"
#include "model/trace.h"
#include "model/user_line.h"

namespace plimsoll::analysis::evidence {

// Who freed an allocation.
enum class Fate : std::uint8_t {
  kLive,       // nobody: it is live when the recording ends
  kOperator,   // the operator that made it, before it returned
  kCollector,  // Python's garbage collector
  kStream,     // the program; its block then waited for work on a stream
  kBackward,   // a backward that ran
  kProgram     // the program, outside backward
};

// What the names in a trace say, for all of its devices.
struct TraceFacts {
  TraceFacts(const model::Trace& trace, const model::UserLines& lines)
      : stacks(trace, lines), operators(trace) {}

  StackFacts stacks;
  Operators operators;
};

// Lifetimes are rows of the device's lifetimes. Not thread-safe.
class Evidence {
 public:
  Evidence(const model::Trace& trace, const TraceFacts& of_trace, const model::DeviceTrace& device);

  const Spans& spans() const { return spans_; }
  const StackFacts& stacks() const { return of_trace_.stacks; }
  const Operators& operators() const { return of_trace_.operators; }

  Fate fate(std::uint32_t lifetime) const;
  // The number of the forward pass, of the root of its layer, that made it; 0: none.
  std::uint32_t pass(std::uint32_t lifetime) const;
  // What made it: the outermost operator; also the innermost; also, in backward, that of forward.
  OperatorSet op(std::uint32_t lifetime) const { return operators().of(site(lifetime).op); }
  OperatorSet called_ops(std::uint32_t lifetime) const {
    return operators().called_at(site(lifetime));
  }
  OperatorSet all_ops(std::uint32_t lifetime) const {
    return called_ops(lifetime) | operators().of(site(lifetime).forward_op);
  }

 private:
  const model::Site& site(std::uint32_t lifetime) const { return trace_.birth(device_, lifetime); }

  const model::Trace& trace_;
  const model::DeviceTrace& device_;
  const TraceFacts& of_trace_;
  Spans spans_;
  mutable std::optional<Passes> passes_;  // found when a rule first asks for one
};

}  // namespace plimsoll::analysis::evidence

// What is known about each allocation of a device, for the rules that judge its peak: by what kind
// of operator and code it was made, in which forward pass, who freed it, and in which rounds and
// steps that was. Snapshots have no marks: there, rounds, steps and passes are unknown.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

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

// A forward pass, as far as it is between the same two backwards.
struct Pass {
  std::string_view root;     // empty: code outside all layers
  std::uint32_t number = 0;  // 0: none
  std::uint32_t round = 0;
  friend auto operator<=>(const Pass&, const Pass&) = default;
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
  std::uint32_t pass(std::uint32_t lifetime) const { return pass_of(lifetime).number; }
  Pass pass_of(std::uint32_t lifetime) const;
  // The event at which the next pass of the root begins; kNone if there is none.
  std::uint32_t next_pass(const Pass& pass) const {
    return passes().begin(pass.root, pass.number + 1);
  }
  bool is_freed_by_backward(std::uint32_t lifetime) const;
  // Whether a backward frees it, or frees or last uses what its forward pass keeps, other than
  // its result.
  bool is_used_by_backward(std::uint32_t lifetime) const;
  // The same, or the recording ends before it is known.
  bool may_be_used_by_backward(std::uint32_t lifetime) const;
  // Whether a backward was the last to use most of its forward pass and left it, because the graph
  // was to be used again (retain_graph or create_graph).
  bool is_left_by_backward(std::uint32_t lifetime) const;
  // Whether the backward of its forward pass serves nobody: the gradients of the pass's module are
  // cleared before anything reads them, and those of other modules do not need the pass.
  bool is_used_in_vain(std::uint32_t lifetime) const;
  // Whether autograd keeps it: the operator that made it has built a node. If the recording does
  // not state that, whether its forward pass keeps most of what it makes.
  bool is_of_graph(std::uint32_t lifetime) const;
  // Whether memory ran out while it was live and before a backward began.
  bool meets_oom(std::uint32_t lifetime) const;
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
  const Passes& passes() const;
  struct PassUse {
    bool is_used = false;
    bool is_open = false;  // a backward may follow the recording
    bool is_left = false;
    bool keeps_most = false;
    bool is_in_vain = false;
  };
  // Where a pass begins and ends, in births, and the stack of its first allocation.
  struct PassSpan {
    std::uint32_t first = model::kNone, last = 0;
    model::StackId stack;
  };
  const PassUse& use_of(const Pass& pass) const;
  std::map<Pass, PassUse> find_uses() const;
  void find_uses_in_vain(const std::map<Pass, PassSpan>& spans,
                         std::map<Pass, PassUse>& uses) const;

  const model::Trace& trace_;
  const model::DeviceTrace& device_;
  const TraceFacts& of_trace_;
  Spans spans_;
  // Found when a rule first asks.
  mutable std::optional<Passes> passes_;
  mutable std::map<Pass, PassUse> uses_of_passes_;
};

}  // namespace plimsoll::analysis::evidence

// The memory that each backward of a recording frees, and the forward that it belongs to.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analysis/findings/peak.h"

namespace plimsoll::analysis::findings {

using evidence::root_of;

// Identifies the layer and the operator that allocated it.
std::uint64_t layer_operator(const Peak& peak, const PeakAllocation& allocation);

bool is_forward_activation(const Peak& peak, const PeakAllocation& allocation);

// Whether it is a forward activation that an autograd graph may keep: not one that is known to be
// made while autograd was off.
bool may_be_of_graph(const Peak& peak, const PeakAllocation& allocation);

// Whether it is known that none of the operators that made these has built a node, as in a model
// whose parameters need no gradient.
template <typename Allocations>
bool is_known_without_nodes(const Peak& peak, const Allocations& allocations) {
  return std::ranges::all_of(allocations, [&](const PeakAllocation& allocation) {
    const model::Autograd autograd = peak.site(allocation).autograd;
    return autograd == model::Autograd::kOff || autograd == model::Autograd::kOn;
  });
}

// The root modules without parameters, such as nn.CrossEntropyLoss. A graph that they are part of
// comes from what they get. Empty if no parameter has a name.
std::set<std::string_view> roots_without_parameters(const Peak& peak);

class BackwardUse {
 public:
  explicit BackwardUse(const Peak& peak);

  bool is_freed_by_backward(const PeakAllocation& allocation) const {
    return spans_.backward_at(allocation.died) != backwards().size();
  }
  // Whether a backward of the forward may run while `last`, the forward's last activation, is live.
  // It may if some backward runs through layers of the same root and frees nothing of a later
  // forward. A backward that frees at least `kept` activations of earlier forwards, where `kept` is
  // the number that this forward keeps, belongs to the earlier forwards.
  bool may_be_used(const PeakAllocation& last, std::size_t kept = kMany) const;
  bool is_before_last_backward(const PeakAllocation& allocation) const {
    return interval(allocation) + 1 == backwards().size();
  }
  // Whether memory ran out while it was live, before a backward began. Then its forward failed, or
  // the backward that would have used it never ran.
  bool is_of_failed_forward(const PeakAllocation& allocation) const;
  bool outlives_backward(const PeakAllocation& allocation) const;
  // The number of backwards that began before it was allocated: forwards with the same number are
  // between the same two backwards.
  std::size_t interval(const PeakAllocation& allocation) const { return interval(allocation.born); }
  std::size_t interval(std::uint32_t event) const { return spans_.round(event); }
  // The event at which the backward with this number ends; kNone if there is none, or it does not
  // end.
  std::uint32_t end(std::size_t backward) const {
    return backward < backwards().size() ? backwards()[backward].end : model::kNone;
  }

 private:
  static constexpr std::size_t kMany = static_cast<std::size_t>(-1);
  // How a backward uses the activations of a root.
  struct Use {
    bool is_run = false;            // it allocates for layers of the root
    std::uint32_t latest_born = 0;  // the latest birth among the root's activations that it frees
    std::size_t freed = 0;          // the number of those activations
  };
  std::string_view root(const PeakAllocation& allocation) const;
  static std::uint64_t key(std::uint32_t root, std::size_t backward) {
    return std::uint64_t{root} << 32 | backward;
  }
  std::span<const evidence::Span> backwards() const { return spans_.backwards(); }

  const Peak& peak_;
  const evidence::Spans& spans_;
  std::vector<std::uint32_t> ooms_;  // events at which memory ran out
  std::unordered_map<std::string_view, std::uint32_t> roots_;
  std::unordered_map<std::uint64_t, Use> uses_;  // by root and backward
};

}  // namespace plimsoll::analysis::findings

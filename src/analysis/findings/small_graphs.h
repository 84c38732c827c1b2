// Finds graphs without backward in small modules, whose forwards keep too few activations to judge
// by their number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/findings/backward_use.h"
#include "analysis/findings/peak.h"

namespace plimsoll::analysis::findings {

// The forwards of one root module that build graphs that no backward uses.
struct SmallGraphs {
  std::string root;
  std::size_t forwards = 0;
  std::size_t in_one_forward = 0;    // allocations
  std::vector<std::uint32_t> parts;  // rows of Peak::live(), by birth
  // The bytes of activations that, without a graph, would have been freed by the time of the peak.
  std::uint64_t freed_bytes = 0;
};

// A forward counts only if it certainly builds a graph: the first operator after it, outside all
// modules, is part of a graph. Its activations count if they outlive the forward, which those in
// local variables do not. Two more conditions exclude outputs, which are live without a graph too:
// the forward keeps as many tensors of each operator as a forward in training (or the recording has
// no backward at all), and the activations other than results are a large part of the peak.
std::vector<SmallGraphs> small_graphs(const Peak& peak, const BackwardUse& use);

}  // namespace plimsoll::analysis::findings

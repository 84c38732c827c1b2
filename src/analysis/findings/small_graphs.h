// Graphs without backward of small modules, whose forwards keep too few activations to judge by
// their number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/findings/backward_use.h"
#include "analysis/findings/peak.h"

namespace plimsoll::analysis::findings {

// The forwards of one root module that build graphs for no backward.
struct SmallGraphs {
  std::string root;
  std::size_t forwards = 0;
  std::size_t in_one_forward = 0;    // allocations
  std::vector<std::uint32_t> parts;  // rows of Peak::live(), by birth
  // Of the activations that would have been freed by the time of the peak without a graph.
  std::uint64_t freed_bytes = 0;
};

// A forward counts if it builds a graph for certain: the first operator after it, outside all
// modules, is part of a graph. Its activations count if they outlive the forward, which those in
// local variables do not. Two more conditions exclude outputs, which are live without a graph too:
// the forward keeps as many tensors of each operator as a forward in training (or the recording has
// no backward at all), and the activations other than results make a good part of the peak.
std::vector<SmallGraphs> small_graphs(const Peak& peak, const BackwardUse& use);

}  // namespace plimsoll::analysis::findings

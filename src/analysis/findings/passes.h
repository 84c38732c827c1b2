// The forward passes of root modules. Recordings that mark the calls of layers contain the passes.
// Otherwise a pass begins where the layers of a root allocate after other code has, at the layer
// and operator with which most passes of the root begin. Passes with nothing between them count as
// one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analysis/findings/peak.h"

namespace plimsoll::analysis::findings {

class Passes {
 public:
  explicit Passes(const Peak& peak);

  // The number of the pass of its root in which the allocation was made; 0: before the first.
  std::size_t of(const PeakAllocation& allocation) const;

 private:
  const Peak& peak_;
  std::unordered_map<std::string_view, std::vector<std::uint32_t>> begins_;  // by root, ascending
};

}  // namespace plimsoll::analysis::findings

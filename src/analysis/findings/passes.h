// The forward passes of root modules. Recordings that mark the calls of layers contain them.
// Otherwise a pass of a root begins where its layers allocate after something else has, at the
// layer and operator with which most of its passes begin. Passes with nothing between them count as
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

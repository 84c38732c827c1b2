// The forward passes of root modules. Recordings that mark the calls of layers contain the passes.
// Otherwise a pass begins where the layers of a root allocate after other code has, at the layer
// and operator with which most passes of the root begin; passes with nothing between them count as
// one.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/trace.h"

namespace plimsoll::analysis::evidence {

// The root module of a layer: "Net" for "Net.blocks.0".
inline std::string_view root_of(std::string_view layer) { return layer.substr(0, layer.find('.')); }

class Passes {
 public:
  Passes(const model::Trace& trace, const model::DeviceTrace& device);

  // The number of the pass of the layer's root that runs at the event; 0: before the first.
  std::uint32_t of(model::StringId layer, std::uint32_t event) const;

 private:
  using Begins = std::unordered_map<std::string_view, std::vector<std::uint32_t>>;
  static Begins marked(const model::Trace& trace, const model::DeviceTrace& device);
  static Begins inferred(const model::Trace& trace, const model::DeviceTrace& device);

  const model::Trace& trace_;
  Begins begins_;  // by root, ascending
};

}  // namespace plimsoll::analysis::evidence

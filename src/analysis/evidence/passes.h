// The forward passes of root modules. Recordings that mark the calls of layers contain the passes.
// Otherwise a pass begins where the layers of a root allocate after other code has, at the layer
// and operator with which most passes of the root begin. Where nothing is between two passes, the
// second begins when that call runs again, unless most passes repeat it.
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
  // The event at which the pass with this number of a root begins; kNone if it has fewer.
  std::uint32_t begin(std::string_view root, std::uint32_t number) const {
    const auto found = begins_.find(root);
    const bool is_known = found != begins_.end() && number <= found->second.size();
    return is_known && number > 0 ? found->second[number - 1] : model::kNone;
  }

 private:
  using Begins = std::unordered_map<std::string_view, std::vector<std::uint32_t>>;
  static Begins marked(const model::Trace& trace, const model::DeviceTrace& device);
  static Begins inferred(const model::Trace& trace, const model::DeviceTrace& device);

  const model::Trace& trace_;
  Begins begins_;  // by root, ascending
};

}  // namespace plimsoll::analysis::evidence

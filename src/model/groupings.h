// Groupings: the properties that allocations of a device have in common, with the names that tables
// and charts show. There is one rule for each dimension; a table applies it to the allocations live
// at one point, a chart to all of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "model/trace.h"
#include "model/user_line.h"

namespace plimsoll::model {

enum class Dimension : std::uint8_t {
  kCategory,
  kLayer,
  kLine,
  kOperator,
  kPhase,
  kStep,
  kStream,
  kPool,
  kDtype,
  kTensor,
};
const char* to_string(Dimension dimension);  // "category", "layer", ...
std::optional<Dimension> dimension_named(std::string_view name);

class Grouping {
 public:
  virtual ~Grouping() = default;
  // A number for the group of a lifetime (a row of device.lifetimes), from 0 in order of first use.
  virtual std::uint32_t group(std::size_t lifetime) = 0;
  virtual std::string name(std::uint32_t group) const = 0;
  virtual std::size_t size() const = 0;  // groups so far
};

// Null if the recording does not have this information (the report's table is then empty).
std::unique_ptr<Grouping> make_grouping(const Trace& trace, const DeviceTrace& device,
                                        const UserLines& lines, Dimension dimension);
// Cuts layers after `depth` names: at depth 2, "Net.blocks.0.mlp" counts towards "Net.blocks".
std::unique_ptr<Grouping> make_layer_grouping(const Trace& trace, const DeviceTrace& device,
                                              std::size_t depth);

}  // namespace plimsoll::model

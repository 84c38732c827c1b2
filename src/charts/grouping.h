// The groups of a chart: which lifetimes are one, in which order and colors they are shown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/groupings.h"
#include "model/trace.h"
#include "model/user_line.h"
#include "page/drawing.h"
#include "tiles/bands.h"

namespace plimsoll::charts {

// How a group is shown.
struct GroupStyle {
  std::size_t group = 0;  // row of the groups' names
  std::string label;
  page::Paint paint = page::Paint::kOther;
  bool is_hatched = false;

  page::Fill fill() const {
    return {paint, 1, is_hatched ? page::Paint::kBackground : page::Paint::kNone};
  }
};

// By category if the recording has them, else by line.
model::Dimension default_dimension(const model::Trace& trace, const model::DeviceTrace& device,
                                   const model::UserLines& lines);

// All groups; of layers, down to the depth that has few enough of them to be distinguished.
// nullopt if the recording lacks this information.
std::optional<tiles::Groups> groups_by(const model::Trace& trace, const model::DeviceTrace& device,
                                       const model::UserLines& lines, model::Dimension dimension);

// `bytes` of each group decide the order of groups other than categories and phases: largest first,
// "[everything else]" last. Categories are in the order of base::kStackOrder.
std::vector<GroupStyle> styles_of(const std::vector<std::string>& names,
                                  const std::vector<std::uint64_t>& bytes,
                                  model::Dimension dimension);

page::Paint paint_of_phase(std::string_view phase);

}  // namespace plimsoll::charts

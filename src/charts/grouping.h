// The groups of a chart: which lifetimes form a group, and the order and colors of groups.
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

struct GroupStyle {
  std::size_t group = 0;  // row of the groups' names
  std::string label;
  page::Paint paint = page::Paint::kOther;
  bool is_hatched = false;

  page::Fill fill() const {
    return {paint, 1, is_hatched ? page::Paint::kBackground : page::Paint::kNone};
  }
};

// Category if the recording has categories, else line.
model::Dimension default_dimension(const model::Trace& trace, const model::DeviceTrace& device,
                                   const model::UserLines& lines);

// Layers are grouped at the deepest level that has few enough of them to distinguish; other
// dimensions have all their groups. nullopt if the recording lacks this information.
std::optional<tiles::Groups> groups_by(const model::Trace& trace, const model::DeviceTrace& device,
                                       const model::UserLines& lines, model::Dimension dimension);

// Categories are in the order of base::kStackOrder, and phases have a fixed order too. Other groups
// are ordered by `bytes`, largest first, with "[everything else]" last.
std::vector<GroupStyle> styles_of(const std::vector<std::string>& names,
                                  const std::vector<std::uint64_t>& bytes,
                                  model::Dimension dimension);

page::Paint paint_of_phase(std::string_view phase);

}  // namespace plimsoll::charts

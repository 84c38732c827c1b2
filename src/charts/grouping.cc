#include "charts/grouping.h"

#include <algorithm>
#include <array>
#include <memory>

#include "base/categories.h"
#include "charts/frame.h"
#include "model/group_names.h"

namespace plimsoll::charts {
namespace {

using model::Dimension;
using page::Paint;

constexpr std::size_t kMostLayers = 12;
constexpr std::size_t kDeepest = 8;

// From the bottom up.
constexpr std::array<std::string_view, 5> kPhaseOrder = {"other", "data", "optimizer", "forward",
                                                         "backward"};

template <typename Names>
std::size_t place_in(const Names& names, std::string_view name) {
  return static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
}

std::size_t place_of_category(std::string_view name) {
  const auto found = std::ranges::find(
      base::kStackOrder, name, [](base::Category category) { return base::name_of(category); });
  return static_cast<std::size_t>(found - base::kStackOrder.begin());
}

bool is_before_recording(std::string_view name) { return name == model::kAllocatedBefore; }

std::optional<tiles::Groups> layer_groups(const model::Trace& trace,
                                          const model::DeviceTrace& device) {
  std::optional<tiles::Groups> best;
  for (std::size_t depth = 1; depth <= kDeepest; ++depth) {
    const auto grouping = model::make_layer_grouping(trace, device, depth);
    if (grouping == nullptr) return std::nullopt;
    tiles::Groups groups = tiles::groups_of(*grouping, device);
    if (best && groups.names.size() > kMostLayers) break;
    const bool is_deepest = best && groups.names.size() == best->names.size();
    best = std::move(groups);
    if (is_deepest && depth > 2) break;
  }
  return best;
}

GroupStyle style_of(std::size_t group, const std::string& name, Dimension dimension,
                    std::size_t& next_series) {
  GroupStyle style{group, short_name(name)};
  if (dimension == Dimension::kCategory) {
    style.label = spaced(style.label);
    style.paint = page::paint_of_category(name);
    style.is_hatched = page::is_hatched(style.paint);
  } else if (dimension == Dimension::kPhase) {
    style.paint = paint_of_phase(name);
  } else if (is_before_recording(name)) {
    style.paint = Paint::kUnknown;
    style.is_hatched = true;
  } else if (name != tiles::kEverythingElse) {
    style.paint = page::paint_of_series(next_series++);
  }
  return style;
}

}  // namespace

Dimension default_dimension(const model::Trace& trace, const model::DeviceTrace& device,
                            const model::UserLines& lines) {
  const bool has_categories =
      model::make_grouping(trace, device, lines, Dimension::kCategory) != nullptr;
  return has_categories ? Dimension::kCategory : Dimension::kLine;
}

std::optional<tiles::Groups> groups_by(const model::Trace& trace, const model::DeviceTrace& device,
                                       const model::UserLines& lines, Dimension dimension) {
  const auto grouping = model::make_grouping(trace, device, lines, dimension);
  if (grouping == nullptr) return std::nullopt;
  if (dimension == Dimension::kLayer) return layer_groups(trace, device);
  return tiles::groups_of(*grouping, device);
}

std::vector<GroupStyle> styles_of(const std::vector<std::string>& names,
                                  const std::vector<std::uint64_t>& bytes, Dimension dimension) {
  std::vector<std::size_t> order(names.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto key = [&](std::size_t group) -> std::size_t {
    const std::string& name = names[group];
    if (dimension == Dimension::kCategory) return place_of_category(name);
    if (dimension == Dimension::kPhase) return place_in(kPhaseOrder, name);
    if (is_before_recording(name)) return 0;
    return name == tiles::kEverythingElse ? 2 : 1;
  };
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return key(a) != key(b) ? key(a) < key(b) : bytes[a] > bytes[b];
  });
  std::vector<GroupStyle> styles;
  std::size_t next_series = 0;
  for (const std::size_t group : order) {
    styles.push_back(style_of(group, names[group], dimension, next_series));
  }
  return styles;
}

Paint paint_of_phase(std::string_view phase) {
  if (phase == "forward") return Paint::kActivation;
  if (phase == "backward") return Paint::kActivationGradient;
  if (phase == "optimizer") return Paint::kOptimizerState;
  if (phase == "data") return Paint::kInput;
  return Paint::kOther;
}

}  // namespace plimsoll::charts

// Parses the shapes of tensors as recordings write them: "[16, 2048]".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/oom/history.h"

namespace plimsoll::analysis::oom {

using Shape = std::vector<std::uint64_t>;

// Empty if the text is not a shape.
Shape parse_shape(std::string_view text);
std::string to_text(const Shape& shape);

// The shapes of the inputs that a step had allocated before an event, largest first.
std::vector<Shape> input_shapes(const History& history, const Step& step, std::uint32_t event);

// The first dimension that all inputs share; nullopt if they differ or are unknown.
std::optional<std::uint64_t> batch_size(const std::vector<Shape>& inputs);

}  // namespace plimsoll::analysis::oom

// The inputs of a step, by their shapes as recordings write them: "[16, 2048]".
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "analysis/oom/history.h"

namespace plimsoll::analysis::oom {

struct Inputs {
  std::string largest;  // its shape; empty if there is no input
  // The first dimension that all inputs share; nullopt if they differ or are unknown.
  std::optional<std::uint64_t> batch_size;
};

// Of the inputs that a step had allocated before an event and that are live then.
Inputs inputs_of(const History& history, const Step& step, std::uint32_t event);

}  // namespace plimsoll::analysis::oom

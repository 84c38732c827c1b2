// Interprets the recorder's rows of live allocations, as far as they can be known while live.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "plimsoll/recorder_c.h"
#include "sample/names.h"

namespace plimsoll::sample {

// An index into kCategories. Between operators there are no temporaries.
constexpr std::uint32_t index_of_category(std::string_view category) {
  return static_cast<std::uint32_t>(std::ranges::find(kCategories, category) - kCategories.begin());
}

inline std::uint32_t category_of(const plimsoll_live& row) {
  switch (row.role) {
    case PLIMSOLL_ROLE_PARAMETER:
      return index_of_category("parameter");
    case PLIMSOLL_ROLE_GRADIENT:
      return index_of_category("gradient");
    case PLIMSOLL_ROLE_OPTIMIZER_STATE:
      return index_of_category("optimizer_state");
    case PLIMSOLL_ROLE_BUFFER:
      return index_of_category("buffer");
    case PLIMSOLL_ROLE_INPUT:
      return index_of_category("input");
    case PLIMSOLL_ROLE_WORKSPACE:
      return index_of_category("workspace");
    default:
      break;
  }
  if (row.is_adopted != 0) return index_of_category("unknown");
  if (row.phase == PLIMSOLL_PHASE_FORWARD) return index_of_category("activation");
  return row.phase == PLIMSOLL_PHASE_BACKWARD ? index_of_category("activation_gradient")
                                              : index_of_category("other");
}

inline std::string text_of(std::uint32_t name) {
  std::size_t size_bytes = 0;
  const char* text = plimsoll_name_text(name, &size_bytes);
  return {text, size_bytes};
}

// "cuda:0"
inline std::string device_name(std::uint8_t type, std::int32_t ordinal) {
  switch (type) {
    case PLIMSOLL_DEVICE_CPU:
      return "cpu";
    case PLIMSOLL_DEVICE_CUDA:
      return "cuda:" + std::to_string(ordinal);
    case PLIMSOLL_DEVICE_HIP:
      return "hip:" + std::to_string(ordinal);
    case PLIMSOLL_DEVICE_XPU:
      return "xpu:" + std::to_string(ordinal);
    case PLIMSOLL_DEVICE_PINNED_HOST:
      return "pinned";
    default:
      return "other";
  }
}

}  // namespace plimsoll::sample

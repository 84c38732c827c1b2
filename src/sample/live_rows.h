// Interprets the recorder's rows of live allocations, as far as is possible while they are live.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/categories.h"
#include "base/recorder_names.h"
#include "plimsoll/recorder_c.h"

namespace plimsoll::sample {

constexpr base::Category category_of(const plimsoll_live& row) {
  return base::category_of(
      {.role = row.role, .phase = base::phase_of(row.phase), .is_adopted = row.is_adopted != 0});
}

inline std::string text_of(std::uint32_t name) {
  std::size_t size_bytes = 0;
  const char* text = plimsoll_name_text(name, &size_bytes);
  return {text, size_bytes};
}

// "cuda:0"
inline std::string device_name(const plimsoll_usage& device) {
  return base::device_name(base::device_type_of(device.device_type), device.ordinal);
}

}  // namespace plimsoll::sample

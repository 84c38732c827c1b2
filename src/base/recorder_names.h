// The names of phases, roles and device types by their numbers in plimsoll/recorder_c.h, which are
// also those in trace files. This is the only table of them, for dumps, tables, monitors and
// Python; recorder_names_test.cc in src/sample compares it with the header.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace plimsoll::base {

inline constexpr std::array<std::string_view, 5> kPhaseNames = {"other", "forward", "backward",
                                                                "optimizer", "data"};

// The first is for a tensor that has a name but none of the other roles.
inline constexpr std::array<std::string_view, 7> kRoleNames = {
    "known", "parameter", "gradient", "optimizer_state", "buffer", "input", "workspace"};

inline constexpr std::array<std::string_view, 6> kDeviceTypeNames = {"cpu", "cuda",        "hip",
                                                                     "xpu", "pinned_host", "other"};

}  // namespace plimsoll::base

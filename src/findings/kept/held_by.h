// What holds the memory of a finding, where a walk of the recorder saw it (analysis/holders/).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "findings/rules.h"

namespace plimsoll::findings {

// kInPlaceUnlessCycle: the first step knows what makes a cycle, so the edit of a cycle follows it.
enum class EditGoes : std::uint8_t {
  kBeforeTheSteps,
  kInPlaceOfTheFirst,
  kInPlaceUnlessCycle,
  kNowhere
};

// Names what holds most of these allocations of the device: in the title, in the evidence, and in a
// step with the saving of the first one, or less if others hold a part. Nothing if no walk knows
// it. `instead`: as in edit_text().
void name_holder(const Facts& facts, const DeviceFacts& device,
                 std::span<const std::uint32_t> lifetimes, EditGoes edit, report::Finding& finding,
                 std::string_view instead = {});

}  // namespace plimsoll::findings

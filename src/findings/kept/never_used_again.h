// Facts about what no operator uses again at the peak, for rules that explain the same bytes.
#pragma once

#include <functional>
#include <string>

#include "findings/peak/peak.h"

namespace plimsoll::findings {

// Whether no operator uses half of the explained bytes again. False if uses are unknown.
bool is_mostly_unused(const Peak& peak, const Explanation& explanation);

// "No operator uses 3.0 MiB of it again." if that is most of the explained bytes; else empty.
std::string unused_text(const Peak& peak, const Explanation& explanation);
// The same for the memory of these lines that is live at the peak of the device.
std::string unused_text(const Facts& facts, const DeviceFacts& device,
                        const std::function<bool(model::LineId)>& is_of_lines);

}  // namespace plimsoll::findings

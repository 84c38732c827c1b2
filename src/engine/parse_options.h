// Parses the user's text for a device or a point in time.
#pragma once

#include <string_view>

#include "analysis/pass.h"
#include "plimsoll/result.h"

namespace plimsoll::engine {

// "0", "cuda:1", "hip:0", "cpu".
Result<model::Device> parse_device(std::string_view text, const model::Trace& trace);
// "peak", "start", "end", "oom" (the last), "oom:2", "failure-or-peak", "1234" (event), "1.5s" /
// "300ms" / "20us" (since the first event).
Result<analysis::TimePoint> parse_point(std::string_view text);

}  // namespace plimsoll::engine

// What users write for a device and a moment, as values.
#pragma once

#include <string_view>

#include "analysis/pass.h"
#include "plimsoll/result.h"

namespace plimsoll::engine {

// "0", "cuda:1", "hip:0", "cpu".
Result<model::Device> parse_device(std::string_view text, const model::Trace& trace);
// "peak", "start", "end", "oom" (the last), "oom:2", "1234" (event), "1.5s" / "300ms" / "20us"
// (since the first event).
Result<analysis::Moment> parse_moment(std::string_view text);

}  // namespace plimsoll::engine

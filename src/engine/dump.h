// The records of a trace file as text (format/dump.h), from a path. gzip is taken off.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "plimsoll/result.h"

namespace plimsoll::engine {

// `write` takes whole lines and says false when it takes no more, which ends the dump early.
Status dump(const std::string& path, const std::function<bool(std::string_view)>& write);

}  // namespace plimsoll::engine

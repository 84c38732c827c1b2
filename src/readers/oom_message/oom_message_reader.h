// Reads text that contains an out-of-memory message of PyTorch: a log, or a message copied from
// one. Each message is an event; nothing else about the program is known.
#pragma once

#include <memory>

#include "readers/reader.h"

namespace plimsoll::readers::oom_message {

std::unique_ptr<Reader> make();

}  // namespace plimsoll::readers::oom_message

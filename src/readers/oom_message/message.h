// Finds PyTorch's out-of-memory messages in text, such as the log of a failed run, and the lines of
// the program that led to them. The forms are those of CUDACachingAllocator.cpp (in torch/csrc or
// c10) of PyTorch 0.4 to 2.13, CUDAMallocAsyncAllocator.cpp, XPUCachingAllocator.cpp, torch_npu,
// and MPSAllocator.mm.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/oom_message.h"
#include "readers/oom_message/traceback.h"

namespace plimsoll::readers::oom_message {

struct Found {
  model::OomMessage message;
  std::vector<CodeLine> traceback;  // innermost first; empty if the text has none
};

// Parses "79.15 GiB" at the start of the text into bytes. A unit like GB also means powers of 1024,
// as MPS prints it.
std::optional<std::uint64_t> size_at_start(std::string_view text);

// The messages that a program printed, in order.
std::vector<Found> find_messages(std::string_view text);

// Whether a sentence of the text quotes a message (place.h).
bool quotes_message(std::string_view text);

}  // namespace plimsoll::readers::oom_message

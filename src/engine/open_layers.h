// Opens a file in layers: decompresses it, selects the reader that recognizes its first bytes
// (never its name), and sets the reader's resource limits.
#pragma once

#include <cstdint>
#include <memory>

#include "plimsoll/result.h"
#include "readers/reader.h"

namespace plimsoll::engine {

struct Opened {
  std::unique_ptr<readers::ByteSource> source;
  const readers::Reader* reader = nullptr;
  std::uint64_t memory_bytes = 0;
};

Result<Opened> open_layers(std::unique_ptr<readers::ByteSource> source);

}  // namespace plimsoll::engine

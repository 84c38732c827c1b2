// The bytes of a file with gzip taken off, the reader that knows them by their first bytes (never
// by a name), and what it may spend.
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

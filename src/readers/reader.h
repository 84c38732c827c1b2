// Reader: turns the bytes of one format into TraceBuilder calls. Readers are independent of each
// other; engine/catalog.cc lists them and picks one by content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/diagnostics.h"
#include "base/progress.h"
#include "model/trace_builder.h"
#include "plimsoll/result.h"
#include "readers/byte_source.h"
#include "readers/side_data.h"

namespace plimsoll::readers {

enum class Confidence : std::uint8_t { kNo, kMaybe, kCertain };

// Limits on the resources that hostile input may use. Checked before memory is allocated.
struct Limits {
  std::uint64_t memory_bytes = std::uint64_t{1}
                               << 36;  // the engine sets it from the file and the machine
};

struct ReadContext {
  model::TraceBuilder& builder;
  base::Diagnostics& diagnostics;
  base::Progress& progress;
  Limits limits;
  SideData* side_data = nullptr;  // null: not needed
};

class Reader {
 public:
  virtual ~Reader() = default;
  virtual const char* name() const = 0;
  // `head` is the first few KiB (fewer if the file is shorter), after gzip decompression.
  virtual Confidence sniff(std::span<const std::byte> head) const = 0;
  // How many bytes of memory a legitimate file may need per byte.
  virtual std::uint64_t memory_factor() const { return 6; }
  virtual Status read(ByteSource& source, ReadContext& context) const = 0;
};

}  // namespace plimsoll::readers

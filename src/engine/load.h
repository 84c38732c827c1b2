// Loads a Trace from a path: opens the file, decompresses gzip, selects a reader by the first bytes
// (never by the name), and limits the resources that the reader may use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/diagnostics.h"
#include "base/progress.h"
#include "model/trace.h"
#include "plimsoll/result.h"

namespace plimsoll::engine {

// The name of the reader for PyTorch's snapshots.
inline constexpr const char* kTorchSnapshot = "torch_snapshot";

struct Loaded {
  model::Trace trace;
  base::Diagnostics diagnostics;
  std::uint64_t file_bytes = 0;
};

Result<Loaded> load(const std::string& path, base::Progress& progress);
// The same for bytes in memory; `name` replaces the path in messages.
Result<Loaded> load(std::span<const std::byte> bytes, const std::string& name,
                    base::Progress& progress);

}  // namespace plimsoll::engine

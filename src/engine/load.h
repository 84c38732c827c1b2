// From a path to a Trace: opens the file, takes gzip off, lets the readers look at the first bytes
// (never at the name), and bounds what the chosen one may spend.
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

// The name of the reader of PyTorch's snapshots.
inline constexpr const char* kTorchSnapshot = "torch_snapshot";

struct Loaded {
  model::Trace trace;
  base::Diagnostics diagnostics;
  std::uint64_t file_bytes = 0;
};

Result<Loaded> load(const std::string& path, base::Progress& progress);
// The same for bytes in memory; `name` stands for the path in messages.
Result<Loaded> load(std::span<const std::byte> bytes, const std::string& name,
                    base::Progress& progress);

}  // namespace plimsoll::engine

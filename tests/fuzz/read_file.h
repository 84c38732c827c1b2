// Reads the input of a fuzz target as a file. Its first byte sets the size of the pieces.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "accepted.h"
#include "base/check.h"
#include "readers/reader.h"

namespace plimsoll::fuzz {

// Returns nullopt if the reader refuses the file. Whatever it accepts must become a trace.
inline std::optional<model::Trace> read_file(const readers::Reader& reader,
                                             const std::uint8_t* data, std::size_t size) {
  if (size == 0) return std::nullopt;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  const std::size_t piece = data[0] < 64 ? data[0] + 1u : SIZE_MAX;
  static_cast<void>(reader.sniff(bytes.first(std::min<std::size_t>(bytes.size(), 4096))));
  base::Diagnostics diagnostics;
  base::Progress progress;
  model::TraceBuilder builder(diagnostics);
  readers::ReadContext context{builder, diagnostics, progress,
                               readers::Limits{.memory_bytes = 64 << 20}};
  const auto source = readers::view_memory(bytes, piece);
  if (!reader.read(*source, context)) return std::nullopt;
  accept();
  auto trace = builder.finish(reader.name(), progress);
  PLIMSOLL_CHECK(trace.ok());
  return std::move(*trace);
}

}  // namespace plimsoll::fuzz

// Finds the rank in the name of a file, for recordings that do not store it: PyTorch's snapshots
// and profiler traces.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll::engine {

// 3 for "rank3.pickle", "snap_rank-3.pickle" and "run/rank_3_memory.pickle"; nullopt for names
// without the word, and for folders.
std::optional<std::int64_t> rank_in_name(std::string_view path);

}  // namespace plimsoll::engine

#include "plimsoll/process_rank.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "base/launcher.h"

namespace plimsoll {
namespace {

// Set by a launcher; a world size of 0 means never set.
std::atomic<std::int64_t> g_rank{0};
std::atomic<std::int64_t> g_world_size{0};
std::atomic<bool> g_first_only{false};

std::optional<ProcessRank> known_rank() {
  if (const std::int64_t world_size = g_world_size.load(std::memory_order_acquire)) {
    return ProcessRank{.rank = g_rank.load(std::memory_order_relaxed), .world_size = world_size};
  }
  const auto rank = base::launched_rank();
  const auto world_size = base::launched_world_size();
  if (!rank || !world_size) return std::nullopt;
  return ProcessRank{.rank = *rank, .world_size = *world_size};
}

bool is_first_only() {
  if (g_first_only.load(std::memory_order_relaxed)) return true;
  const char* const which = std::getenv("PLIMSOLL_MONITOR_PRINT_RANKS");
  return which != nullptr && std::string_view(which) == "first";
}

}  // namespace

std::optional<ProcessRank> process_rank() {
  const std::optional<ProcessRank> known = known_rank();
  const bool is_one_of_several =
      known && known->world_size > 1 && known->rank >= 0 && known->rank < known->world_size;
  return is_one_of_several ? known : std::nullopt;
}

void set_process_rank(const ProcessRank& rank) {
  g_rank.store(rank.rank, std::memory_order_relaxed);
  g_world_size.store(rank.world_size, std::memory_order_release);
}

void print_first_rank_only() { g_first_only.store(true, std::memory_order_relaxed); }

std::string rank_folder(const std::string& folder) {
  const auto place = process_rank();
  if (!place) return folder;
  return (std::filesystem::path(folder) / ("rank" + std::to_string(place->rank))).string();
}

std::string with_rank(std::string_view text) {
  const auto place = process_rank();
  if (!place) return std::string(text);
  const std::string prefix = "[rank " + std::to_string(place->rank) + "] ";
  std::string named;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    named.append(prefix).append(text.substr(0, end));
    text.remove_prefix(end);
  }
  return named;
}

std::optional<std::string> printed_by_rank(std::string_view text) {
  const auto place = process_rank();
  if (place && place->rank != 0 && is_first_only()) return std::nullopt;
  return with_rank(text);
}

}  // namespace plimsoll

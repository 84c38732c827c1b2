// The rank of this process in a distributed run. Folders of logs and event files are named after
// it, and monitors print it before their lines. Any thread may call these functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plimsoll {

struct ProcessRank {
  std::int64_t rank = 0;
  std::int64_t world_size = 1;

  bool operator==(const ProcessRank&) const = default;
};

// The rank that was last set, or else the one in the environment variables RANK and WORLD_SIZE,
// which torchrun sets. nullopt if the run has a single process, or its ranks are unknown.
std::optional<ProcessRank> process_rank();

// Sets the rank, for launchers that do not set RANK, such as MPI. Takes precedence over the
// environment.
void set_process_rank(const ProcessRank& rank);

// From now on, only rank 0 prints the lines of monitors. Alerts and errors are always printed.
// PLIMSOLL_MONITOR_PRINT_RANKS=first in the environment has the same effect.
void print_first_rank_only();

// The folder of this rank: "FOLDER/rank1", or FOLDER itself if there is no rank.
std::string rank_folder(const std::string& folder);

// The text with the rank at the start of each line, "[rank 1] ..."; unchanged if there is no rank.
std::string with_rank(std::string_view text);

// The same for a line that a monitor prints; nullopt if this rank prints none.
std::optional<std::string> printed_by_rank(std::string_view text);

}  // namespace plimsoll

#include "monitor/log_finder.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "monitor/words.h"

namespace plimsoll::monitor {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kRank = "rank";

struct FoundLog {
  fs::path path;
  fs::file_time_type time;

  bool operator<(const FoundLog& other) const {
    return std::tie(time, path) < std::tie(other.time, other.path);
  }
};

bool is_text_log_name(const std::string& name) {
  return name.starts_with(kTextLogPrefix) && name.ends_with(kTextLogSuffix);
}

// Folders without runs, and with many files.
bool is_skipped(const std::string& name) {
  return name.starts_with('.') || name == "node_modules" || name == "site-packages" ||
         name == "__pycache__";
}

// "rank3" -> 3
std::optional<std::uint64_t> rank_of(const std::string& name) {
  if (!name.starts_with(kRank)) return std::nullopt;
  std::uint64_t rank = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kRank.size(), end, rank);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return rank;
}

class Search {
 public:
  explicit Search(const SearchLimits& limits)
      : limits_(limits), ends_(Clock::now() + std::chrono::nanoseconds(limits.time_ns)) {}

  void run(const fs::path& folder) {
    enter(folder, 0);
    while (!waiting_.empty() && !is_late()) {
      const auto [next, depth] = std::move(waiting_.front());
      waiting_.pop_front();
      read(next, depth);
    }
    is_complete = is_complete && waiting_.empty();
  }

  std::vector<FoundLog> logs;
  bool is_complete = true;

 private:
  bool is_late() const { return Clock::now() > ends_; }

  // Each folder once, by what it is: links may form loops.
  void enter(const fs::path& folder, int depth) {
    struct stat status{};
    if (::stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return;
    if (!seen_.emplace(status.st_dev, status.st_ino).second) return;
    if (depth <= limits_.depth) waiting_.emplace_back(folder, depth);
  }

  void read(const fs::path& folder, int depth) {
    std::error_code error;
    std::size_t entries = 0;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      if (++entries > limits_.entries_of_a_folder || is_late()) {
        is_complete = false;
        return;
      }
      const std::string name = entry->path().filename().string();
      std::error_code trouble;
      if (is_text_log_name(name)) {
        if (!entry->is_regular_file(trouble)) continue;
        const auto time = entry->last_write_time(trouble);
        if (!trouble) logs.push_back({entry->path(), time});
      } else if (entry->is_directory(trouble) && !is_skipped(name)) {
        enter(entry->path(), depth + 1);
      }
    }
  }

  SearchLimits limits_;
  Clock::time_point ends_;
  std::deque<std::pair<fs::path, int>> waiting_;
  std::set<std::pair<dev_t, ino_t>> seen_;
};

// The folder of a log without its rank, and the rank: "out/rank*/profiles", 3.
std::optional<std::pair<fs::path, std::uint64_t>> place_among_ranks(const fs::path& log) {
  std::optional<std::uint64_t> rank;
  fs::path place;
  for (const fs::path& part : log.parent_path()) {
    const auto here = rank_of(part.string());
    if (here && !rank) rank = here;
    place /= here ? fs::path(std::string(kRank) + "*") : part;
  }
  if (!rank) return std::nullopt;
  return std::pair(place, *rank);
}

}  // namespace

Result<LatestRun> find_latest_run(const std::string& folder, const SearchLimits& limits) {
  Search search(limits);
  search.run(fs::path(folder).lexically_normal());
  const auto newest = std::ranges::max_element(
      search.logs, [](const FoundLog& a, const FoundLog& b) { return a < b; });
  if (newest == search.logs.end()) {
    return make_error(
        ErrorCode::kNotFound,
        "there is no text log " + (fs::path(kProfilesFolder) / kTextLogPrefix).string() + "*" +
            std::string(kTextLogSuffix) + " in " + folder + " or " + std::to_string(limits.depth) +
            " folders below" + (search.is_complete ? "" : ", as far as it was searched") +
            ": train with profile_tensors on, or name the file or --dir");
  }
  LatestRun run;
  run.is_complete = search.is_complete;
  const auto place = place_among_ranks(newest->path);
  if (!place) {
    run.logs = {newest->path.string()};
    return run;
  }
  std::map<std::uint64_t, FoundLog> newest_of_rank;
  for (const FoundLog& log : search.logs) {
    const auto other = place_among_ranks(log.path);
    if (!other || other->first != place->first) continue;
    const auto [known, is_new] = newest_of_rank.try_emplace(other->second, log);
    if (!is_new && known->second < log) known->second = log;
  }
  for (const auto& [rank, log] : newest_of_rank) run.logs.push_back(log.path.string());
  return run;
}

}  // namespace plimsoll::monitor

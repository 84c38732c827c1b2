#include "logs/finder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "sample/names.h"
#include "text_log/format.h"

namespace plimsoll::logs {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRank = "rank";
constexpr std::size_t kMostLinesToSearch = 100'000;

bool is_text_log_name(const std::string& name) {
  return name.starts_with(text_log::kTextLogPrefix) && name.ends_with(text_log::kTextLogSuffix);
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

// A snapshot ends with an empty line. The first one is near the beginning.
bool has_sample(const fs::path& log) {
  std::ifstream file(log, std::ios::binary);
  std::string line;
  bool has_begun = false;
  for (std::size_t lines = 0; lines < kMostLinesToSearch && std::getline(file, line); ++lines) {
    if (line.ends_with('\r')) line.pop_back();
    if (has_begun && line.empty()) return true;
    has_begun = has_begun || line.starts_with("=== Iteration ");
  }
  return false;
}

// Null if there is none.
const FoundFile* newest_with_sample(const std::vector<FoundFile>& files) {
  std::vector<const FoundFile*> newest_first;
  for (const FoundFile& file : files) newest_first.push_back(&file);
  std::ranges::sort(newest_first, [](const FoundFile* a, const FoundFile* b) { return *b < *a; });
  const auto found = std::ranges::find_if(
      newest_first, [](const FoundFile* file) { return has_sample(file->path); });
  return found == newest_first.end() ? nullptr : *found;
}

}  // namespace

Result<LatestRun> find_latest_run(const std::string& folder, const SearchLimits& limits) {
  const FoundFiles search = find_files(folder, is_text_log_name, limits);
  const FoundFile* newest = search.newest();
  if (newest == nullptr) {
    return make_error(
        ErrorCode::kNotFound,
        "there is no text log " +
            (fs::path(text_log::kProfilesFolder) / text_log::kTextLogPrefix).string() + "*" +
            std::string(text_log::kTextLogSuffix) + " in " + folder + " or up to " +
            std::to_string(limits.depth) + " levels below" +
            (search.is_complete ? "" : ", as far as searched") +
            ": train with profile_tensors on, or name the file or --dir");
  }
  LatestRun run;
  run.is_complete = search.is_complete;
  const FoundFile* const usable = newest_with_sample(search.files);
  if (usable != nullptr && usable != newest) {
    run.skipped = newest->path.string();
    newest = usable;
  }
  const auto place = place_among_ranks(newest->path);
  if (!place) {
    run.logs = {newest->path.string()};
    return run;
  }
  std::map<std::uint64_t, FoundFile> newest_of_rank;
  for (const FoundFile& log : search.files) {
    const auto other = place_among_ranks(log.path);
    if (!other || other->first != place->first) continue;
    if (usable != nullptr && !has_sample(log.path)) continue;
    const auto [known, is_new] = newest_of_rank.try_emplace(other->second, log);
    if (!is_new && known->second < log) known->second = log;
  }
  for (const auto& [rank, log] : newest_of_rank) run.logs.push_back(log.path.string());
  return run;
}

}  // namespace plimsoll::logs

// Finds files by name in and below a folder, within limits, because a project may contain a data
// set of millions of files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace plimsoll::logs {

// Limits of a search.
struct SearchLimits {
  int depth = 6;                             // levels of folders below the first
  std::size_t entries_of_a_folder = 50'000;  // a data set of images is not a run
  std::int64_t time_ns = std::int64_t{5'000'000'000};
};

struct FoundFile {
  std::filesystem::path path;
  std::filesystem::file_time_type time;  // of the last write

  bool operator<(const FoundFile& other) const;  // older first
};

struct FoundFiles {
  std::vector<FoundFile> files;
  bool is_complete = true;  // false: a limit ended the search, and there may be more

  const FoundFile* newest() const;  // null: there is none
};

// Links to folders are followed, each folder once; hidden folders are skipped.
FoundFiles find_files(const std::string& folder, bool (*is_wanted)(const std::string& name),
                      const SearchLimits& limits = {});

}  // namespace plimsoll::logs

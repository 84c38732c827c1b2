#include "logs/file_search.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

namespace plimsoll::logs {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Folders that contain many files but no runs.
bool is_skipped(const std::string& name) {
  return name.starts_with('.') || name == "node_modules" || name == "site-packages" ||
         name == "__pycache__";
}

class Search {
 public:
  Search(bool (*is_wanted)(const std::string&), const SearchLimits& limits)
      : is_wanted_(is_wanted),
        limits_(limits),
        ends_(Clock::now() + std::chrono::nanoseconds(limits.time_ns)) {}

  FoundFiles run(const fs::path& folder) && {
    enter(folder, 0);
    while (!waiting_.empty() && !is_late()) {
      const auto [next, depth] = std::move(waiting_.front());
      waiting_.pop_front();
      read(next, depth);
    }
    found_.is_complete = found_.is_complete && waiting_.empty();
    return std::move(found_);
  }

 private:
  bool is_late() const { return Clock::now() > ends_; }

  // Visits each folder only once, identified by its device and inode, because links may form loops.
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
        found_.is_complete = false;
        return;
      }
      const std::string name = entry->path().filename().string();
      std::error_code trouble;
      if (is_wanted_(name)) {
        if (!entry->is_regular_file(trouble)) continue;
        const auto time = entry->last_write_time(trouble);
        if (!trouble) found_.files.push_back({entry->path(), time});
      } else if (entry->is_directory(trouble) && !is_skipped(name)) {
        enter(entry->path(), depth + 1);
      }
    }
  }

  bool (*const is_wanted_)(const std::string&);
  const SearchLimits limits_;
  const Clock::time_point ends_;
  FoundFiles found_;
  std::deque<std::pair<fs::path, int>> waiting_;
  std::set<std::pair<dev_t, ino_t>> seen_;
};

}  // namespace

bool FoundFile::operator<(const FoundFile& other) const {
  return std::tie(time, path) < std::tie(other.time, other.path);
}

const FoundFile* FoundFiles::newest() const {
  const auto found = std::max_element(files.begin(), files.end());
  return found == files.end() ? nullptr : &*found;
}

FoundFiles find_files(const std::string& folder, bool (*is_wanted)(const std::string& name),
                      const SearchLimits& limits) {
  return Search(is_wanted, limits).run(fs::path(folder).lexically_normal());
}

}  // namespace plimsoll::logs

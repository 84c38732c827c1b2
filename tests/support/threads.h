// The threads of this process.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace plimsoll::tests {

inline bool has_thread(std::string_view name) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string found;
    std::getline(std::ifstream(task.path() / "comm"), found);
    if (found == name) return true;
  }
  return false;
}

}  // namespace plimsoll::tests

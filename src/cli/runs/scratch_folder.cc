#include "cli/runs/scratch_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace plimsoll::cli {

Result<ScratchFolder> ScratchFolder::make() {
  std::error_code error;
  std::string path = std::filesystem::temp_directory_path(error).string() + "/plimsoll-XXXXXX";
  if (!error && ::mkdtemp(path.data()) != nullptr) return ScratchFolder(std::move(path));
  return make_error(ErrorCode::kInternal,
                    "cannot make a temporary folder: " +
                        (error ? error.message() : std::string(std::strerror(errno))));
}

ScratchFolder::ScratchFolder(ScratchFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})) {}

ScratchFolder::~ScratchFolder() {
  std::error_code error;
  if (!path_.empty()) std::filesystem::remove_all(path_, error);
}

}  // namespace plimsoll::cli

// A temporary folder that is removed with its files.
#pragma once

#include <string>
#include <utility>

#include "plimsoll/result.h"

namespace plimsoll::cli {

class ScratchFolder {
 public:
  static Result<ScratchFolder> make();
  ScratchFolder(ScratchFolder&& other) noexcept;
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder();

  const std::string& path() const { return path_; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;  // empty: moved from
};

}  // namespace plimsoll::cli

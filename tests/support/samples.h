// The folder of the real files that are too big for the repository: $PLIMSOLL_SAMPLES, or
// ../shared/samples next to the checkout. A test that needs them opens with
// PLIMSOLL_NEEDS_SAMPLES(): without them it is skipped, but under CI it fails if the parent folder
// exists.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace plimsoll::tests {

inline std::filesystem::path samples_folder() {
  if (const char* chosen = std::getenv("PLIMSOLL_SAMPLES")) return chosen;
  return std::filesystem::path(PLIMSOLL_SOURCE_DIR) / ".." / "shared" / "samples";
}

inline bool may_skip_samples() {
  return std::getenv("CI") == nullptr ||
         !std::filesystem::is_directory(samples_folder().parent_path());
}

}  // namespace plimsoll::tests

#define PLIMSOLL_NEEDS_SAMPLES()                                                     \
  if (!std::filesystem::is_directory(::plimsoll::tests::samples_folder())) {         \
    if (!::plimsoll::tests::may_skip_samples()) {                                    \
      FAIL() << "no samples in " << ::plimsoll::tests::samples_folder().string();    \
    }                                                                                \
    GTEST_SKIP() << "no samples in " << ::plimsoll::tests::samples_folder().string() \
                 << " (set PLIMSOLL_SAMPLES)";                                       \
  }                                                                                  \
  static_assert(true)

// Where tests find the real files that are too big for the repository: $PLIMSOLL_SAMPLES, or
// ../shared/samples beside the checkout. A test that needs them opens with
// PLIMSOLL_NEEDS_SAMPLES(), which skips it, and says why, where they are not there.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace plimsoll::tests {

inline std::filesystem::path samples_folder() {
  if (const char* chosen = std::getenv("PLIMSOLL_SAMPLES")) return chosen;
  return std::filesystem::path(PLIMSOLL_SOURCE_DIR) / ".." / "shared" / "samples";
}

}  // namespace plimsoll::tests

#define PLIMSOLL_NEEDS_SAMPLES()                                                   \
  if (!std::filesystem::is_directory(::plimsoll::tests::samples_folder()))         \
  GTEST_SKIP() << "no samples in " << ::plimsoll::tests::samples_folder().string() \
               << " (set PLIMSOLL_SAMPLES)"

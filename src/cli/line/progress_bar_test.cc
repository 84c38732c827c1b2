#include "cli/line/progress_bar.h"

#include <gtest/gtest.h>

namespace plimsoll::cli {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kMiB = 1 << 20;

TEST(ProgressLine, shows_share_bytes_and_time_left) {
  EXPECT_EQ(progress_line("reading", "big.pickle", 256 * kMiB, 1024 * kMiB, 2000ms),
            "reading big.pickle  [#####               ]  25%  256.0 MiB of 1.0 GiB, 6 s left");
}

TEST(ProgressLine, without_a_total_shows_only_what_is_done) {
  EXPECT_EQ(progress_line("reading", "pipe", 256 * kMiB, 0, 2000ms), "reading pipe  256.0 MiB");
}

TEST(ProgressLine, other_stages_count_no_bytes) {
  EXPECT_EQ(progress_line("timeline", "big.pickle", 3, 4, 3000ms),
            "timeline big.pickle  [###############     ]  75%, 1 s left");
}

}  // namespace
}  // namespace plimsoll::cli

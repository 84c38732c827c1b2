#include "record/peak_spans.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <vector>

namespace plimsoll::record {
namespace {

TEST(PeakSpans, peak_is_that_since_the_beginning_of_each_span) {
  PeakSpans spans;
  spans.see(0, 900);  // before any span: nobody's
  const std::uint64_t outer = spans.begin();
  spans.see(0, 100);
  spans.see(0, 500);
  const std::uint64_t inner = spans.begin();
  spans.see(0, 200);
  spans.see(0, 300);
  EXPECT_EQ(spans.peak(inner, 0), 300u);
  EXPECT_EQ(spans.peak(outer, 0), 500u);
  EXPECT_EQ(spans.peak(outer, 1), 0u);
}

TEST(PeakSpans, a_span_that_ends_leaves_its_peak_to_those_around_it) {
  PeakSpans spans;
  const std::uint64_t outer = spans.begin();
  const std::uint64_t inner = spans.begin();
  spans.see(3, 70);
  spans.end(inner);
  EXPECT_EQ(spans.peak(outer, 3), 70u);
  EXPECT_EQ(spans.peak(inner, 3), 0u);
  spans.end(inner);  // a second time does nothing
  spans.end(outer);
  EXPECT_TRUE(spans.is_empty());
}

TEST(PeakSpans, spans_that_nobody_ends_have_a_limit) {
  PeakSpans spans;
  for (std::size_t i = 0; i < PeakSpans::kMost; ++i) ASSERT_NE(spans.begin(), 0u);
  EXPECT_EQ(spans.begin(), 0u);
  EXPECT_EQ(spans.peak(0, 0), 0u);
}

// Against one that looks at every span at every allocation.
TEST(PeakSpans, random_spans_have_the_peaks_of_a_slow_reference) {
  std::mt19937 dice(7);
  PeakSpans spans;
  std::map<std::uint64_t, std::map<std::uint8_t, std::uint64_t>> slow;
  std::size_t compared = 0;
  for (int i = 0; i < 20'000; ++i) {
    const unsigned what = dice() % 8;
    if (what == 0 && slow.size() < 20) {
      slow[spans.begin()] = {};
    } else if (what == 1 && !slow.empty()) {
      const auto one = std::next(slow.begin(), static_cast<std::ptrdiff_t>(dice() % slow.size()));
      spans.end(one->first);
      slow.erase(one);
    } else {
      const auto device = static_cast<std::uint8_t>(dice() % 3);
      const std::uint64_t bytes = dice() % 1000;
      spans.see(device, bytes);
      for (auto& [id, peaks] : slow) peaks[device] = std::max(peaks[device], bytes);
    }
    for (auto& [id, peaks] : slow) {
      for (const std::uint8_t device : {std::uint8_t{0}, std::uint8_t{1}, std::uint8_t{2}}) {
        ASSERT_EQ(spans.peak(id, device), peaks[device]);
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 100'000u);
}

}  // namespace
}  // namespace plimsoll::record

#include "record/ledger/peak_spans.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "plimsoll/recorder_c.h"

namespace plimsoll::record {
namespace {

TEST(PeakSpans, the_peak_counts_from_the_beginning_of_each_span) {
  PeakSpans spans;
  spans.see(0, {.live_bytes = 900});  // before any span: ignored
  const std::uint64_t outer = spans.begin();
  spans.see(0, {.live_bytes = 100});
  spans.see(0, {.live_bytes = 500});
  const std::uint64_t inner = spans.begin();
  spans.see(0, {.live_bytes = 200});
  spans.see(0, {.live_bytes = 300});
  EXPECT_EQ(spans.peaks(inner, 0).live_bytes, 300u);
  EXPECT_EQ(spans.peaks(outer, 0).live_bytes, 500u);
  EXPECT_EQ(spans.peaks(outer, 1).live_bytes, 0u);
}

TEST(PeakSpans, reserved_bytes_have_a_peak_of_their_own) {
  PeakSpans spans;
  const std::uint64_t span = spans.begin();
  spans.see(2, {.live_bytes = 10, .reserved_bytes = 100});
  spans.see(2, {.live_bytes = 30, .reserved_bytes = 50});
  EXPECT_EQ(spans.peaks(span, 2).live_bytes, 30u);
  EXPECT_EQ(spans.peaks(span, 2).reserved_bytes, 100u);
}

TEST(PeakSpans, a_span_that_ends_passes_its_peak_to_enclosing_spans) {
  PeakSpans spans;
  const std::uint64_t outer = spans.begin();
  const std::uint64_t inner = spans.begin();
  spans.see(3, {.live_bytes = 70});
  spans.end(inner);
  EXPECT_EQ(spans.peaks(outer, 3).live_bytes, 70u);
  EXPECT_EQ(spans.peaks(inner, 3).live_bytes, 0u);
  spans.end(inner);  // a second call does nothing
  spans.end(outer);
  EXPECT_TRUE(spans.is_empty());
}

TEST(PeakSpans, spans_that_are_never_ended_are_limited) {
  PeakSpans spans;
  for (std::size_t i = 0; i < PeakSpans::kMost; ++i) ASSERT_NE(spans.begin(), 0u);
  EXPECT_EQ(spans.begin(), 0u);
  EXPECT_EQ(spans.peaks(0, 0).live_bytes, 0u);
}

DevicePeaks of_roles(std::uint64_t parameters, std::uint64_t rest, std::uint64_t serial) {
  UseBytes uses{};
  uses[PLIMSOLL_ROLE_PARAMETER] = parameters;
  uses[PLIMSOLL_ROLE_KNOWN] = rest;
  return {.live_bytes = parameters + rest, .uses = uses, .serial = serial};
}

TEST(PeakSpans, roles_are_those_of_the_peak) {
  PeakSpans spans;
  const std::uint64_t outer = spans.begin();
  spans.see(0, of_roles(10, 90, 5));
  const std::uint64_t inner = spans.begin();
  spans.see(0, of_roles(20, 30, 6));
  EXPECT_EQ(spans.peaks(outer, 0).uses[PLIMSOLL_ROLE_PARAMETER], 10u);
  EXPECT_EQ(spans.peaks(inner, 0).uses[PLIMSOLL_ROLE_PARAMETER], 20u);
  spans.see(0, of_roles(50, 70, 8));
  EXPECT_EQ(spans.peaks(outer, 0).uses[PLIMSOLL_ROLE_KNOWN], 70u);
  spans.end(inner);
  EXPECT_EQ(spans.peaks(outer, 0).uses[PLIMSOLL_ROLE_PARAMETER], 50u);
}

TEST(PeakSpans, roles_learned_later_apply_at_the_peak) {
  PeakSpans spans;
  const std::uint64_t outer = spans.begin();
  spans.see(0, of_roles(0, 100, 5));  // allocations 0 to 4
  const std::uint64_t inner = spans.begin();
  spans.see(0, of_roles(0, 80, 9));  // 4 is live, and one of 5 to 8
  const auto becomes = [&](std::uint64_t serial, std::uint64_t bytes) {
    spans.see(UseChange{serial, bytes, 0, PLIMSOLL_ROLE_KNOWN, PLIMSOLL_ROLE_GRADIENT});
  };
  becomes(4, 30);
  becomes(8, 7);
  becomes(9, 1000);  // it came after both peaks
  EXPECT_EQ(spans.peaks(inner, 0).uses[PLIMSOLL_ROLE_GRADIENT], 37u);
  EXPECT_EQ(spans.peaks(inner, 0).uses[PLIMSOLL_ROLE_KNOWN], 43u);
  EXPECT_EQ(spans.peaks(outer, 0).uses[PLIMSOLL_ROLE_GRADIENT], 30u);
  EXPECT_EQ(spans.peaks(outer, 0).uses[PLIMSOLL_ROLE_KNOWN], 70u);
}

// Compares with a reference that visits every span at every allocation.
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
      spans.see(device, {.live_bytes = bytes});
      for (auto& [id, peaks] : slow) peaks[device] = std::max(peaks[device], bytes);
    }
    for (auto& [id, peaks] : slow) {
      for (const std::uint8_t device : {std::uint8_t{0}, std::uint8_t{1}, std::uint8_t{2}}) {
        ASSERT_EQ(spans.peaks(id, device).live_bytes, peaks[device]);
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 100'000u);
}

TEST(PeakSpans, the_largest_that_end_after_a_peak_are_kept_until_the_next_peak) {
  PeakSpans spans;
  const std::uint64_t id = spans.begin();
  spans.see(0, of_roles(0, 100, 20));  // allocations 0 to 19
  for (std::uint64_t serial = 0; serial < 10; ++serial) {
    spans.see(Ended{.serial = serial, .size_bytes = 1 + serial * 7 % 10});
  }
  spans.see(Ended{.serial = 20, .size_bytes = 99});              // made after the peak
  spans.see(Ended{.serial = 1, .size_bytes = 99, .device = 1});  // of another device
  std::vector<std::uint64_t> sizes;
  for (const Ended& each : spans.peaks(id, 0).ended) sizes.push_back(each.size_bytes);
  EXPECT_EQ(sizes, (std::vector<std::uint64_t>{10, 9, 8, 7, 6}));
  spans.see(0, of_roles(0, 101, 30));
  const DevicePeaks next = spans.peaks(id, 0);
  EXPECT_EQ(next.ended.begin(), next.ended.end());
}

}  // namespace
}  // namespace plimsoll::record

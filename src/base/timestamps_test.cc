#include "base/timestamps.h"

#include <gtest/gtest.h>

namespace plimsoll::base {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

TEST(Timestamps, are_read_as_logs_write_them) {
  EXPECT_EQ(parse_time("1970-01-02T00:00:01.5Z"), 86401 * kSecond + kSecond / 2);
  EXPECT_EQ(parse_time("2026/04/25 16:06:06.780"), 1'777'133'166'780'000'000);
  EXPECT_EQ(parse_time("2025-09-08T17:26:50+08:00"), parse_time("2025-09-08T09:26:50Z"));
  EXPECT_EQ(parse_time("2025-09-08T17:26:50-0130"), parse_time("2025-09-08 18:56:50"));
  EXPECT_EQ(parse_time("1970-01-01T00:00:00.1234567899999"), 123'456'789);
}

TEST(Timestamps, are_rejected_if_they_are_invalid) {
  for (const char* text :
       {"", "2026", "2026-13-01T00:00:00", "2026-02-30T00:00:00", "2026-01-01T24:00:00",
        "2026-01-01T00:00:00Q", "2026-01-01T00:00:00+", "1969-12-31T23:59:59", "20260101T000000",
        "2026-01-01T00:00:00Z ", "-026-01-01T00:00:00", "9999-12-31T00:00:00"}) {
    EXPECT_EQ(parse_time(text), std::nullopt) << text;
  }
}

TEST(Timestamps, are_written_in_utc_and_read_back) {
  EXPECT_EQ(utc_text(1'795'192'813'125'999'999), "2026-11-20T16:40:13.125Z");
  EXPECT_EQ(parse_time(utc_text(1'795'192'813'125'000'000)), 1'795'192'813'125'000'000);
  EXPECT_EQ(utc_text(-5), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(local_stamp(1'795'192'813'125'999'999).size(), 15U);
}

}  // namespace
}  // namespace plimsoll::base

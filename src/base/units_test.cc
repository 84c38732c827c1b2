#include "base/units.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

namespace plimsoll::base {
namespace {

TEST(Units, bytes_have_one_decimal_above_a_kibibyte) {
  EXPECT_EQ(bytes_text(std::int64_t{0}), "0 B");
  EXPECT_EQ(bytes_text(std::int64_t{1023}), "1023 B");
  EXPECT_EQ(bytes_text(std::int64_t{1536}), "1.5 KiB");
  EXPECT_EQ(bytes_text(std::int64_t{20 << 20}), "20.0 MiB");
  EXPECT_EQ(bytes_text(std::int64_t{3} << 30), "3.0 GiB");
  EXPECT_EQ(bytes_text(std::int64_t{5} << 40), "5.0 TiB");
  EXPECT_EQ(bytes_text(-(std::int64_t{3} << 19)), "-1.5 MiB");
}

TEST(Units, no_size_is_1024_of_a_unit) {
  EXPECT_EQ(bytes_text((std::int64_t{1} << 20) - 1), "1.0 MiB");
  EXPECT_EQ(bytes_text((std::int64_t{1} << 30) - 1), "1.0 GiB");
  EXPECT_EQ(bytes_text(-((std::int64_t{1} << 40) - 1)), "-1.0 TiB");
  EXPECT_EQ(bytes_text((std::int64_t{1} << 30) - (52 << 10)), "1023.9 MiB");
}

TEST(Units, bytes_of_every_type_end_at_the_range_of_an_int64) {
  EXPECT_EQ(bytes_text(std::uint64_t{1536}), "1.5 KiB");
  EXPECT_EQ(bytes_text(1535.6), "1.5 KiB");
  EXPECT_EQ(bytes_text(-0.6), "-1 B");
  const std::string most = bytes_text(std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(bytes_text(std::numeric_limits<std::uint64_t>::max()), most);
  EXPECT_EQ(bytes_text(1e300), most);
  EXPECT_EQ(bytes_text(-1e300), "-" + most);
  EXPECT_EQ(bytes_text(std::numeric_limits<double>::infinity()), most);
}

TEST(Units, counts_are_grouped_by_thousands) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(1234567), "1,234,567");
  EXPECT_EQ(counted(1, "block"), "1 block");
  EXPECT_EQ(counted(0, "block"), "0 blocks");
  EXPECT_EQ(counted(1234, "block"), "1,234 blocks");
}

TEST(Units, durations_choose_their_unit) {
  EXPECT_EQ(format_duration(12), "12 ns");
  EXPECT_EQ(format_duration(1'500), "1.5 us");
  EXPECT_EQ(format_duration(1'500'000), "1.5 ms");
  EXPECT_EQ(format_duration(3'200'000'000), "3.2 s");
}

TEST(Units, times_are_utc) {
  EXPECT_EQ(format_utc(1'795'421'004'447'966'587), "2026-11-23 08:03:24 UTC");
  EXPECT_EQ(format_utc(-1'000'000'000), "1969-12-31 23:59:59 UTC");
}

TEST(Units, shares_are_percent) {
  EXPECT_EQ(format_percent(0.1234), "12.3%");
  EXPECT_EQ(format_percent(-0.0001), "0.0%");
  EXPECT_EQ(format_percent(0.0006), "0.1%");
}

TEST(Units, parse_bytes_reads_numbers_with_and_without_units) {
  EXPECT_EQ(parse_bytes("65536"), 65536);
  EXPECT_EQ(parse_bytes("0"), 0);
  EXPECT_EQ(parse_bytes("7 B"), 7);
  EXPECT_EQ(parse_bytes("64KiB"), 65536);
  EXPECT_EQ(parse_bytes("48 MB"), 48 << 20);
  EXPECT_EQ(parse_bytes("48 MiB"), 48 << 20);
  EXPECT_EQ(parse_bytes("6.4 MiB"), 6710886);  // rounded down
  EXPECT_EQ(parse_bytes("1.5 TiB"), std::int64_t{3} << 39);
  EXPECT_EQ(parse_bytes("9007199254740993"), 9007199254740993);  // exact above 2^53
  EXPECT_EQ(parse_bytes(" .5 kib "), 512);
  EXPECT_EQ(parse_bytes("1 mb"), 1 << 20);
}

TEST(Units, a_size_that_is_too_large_is_called_that) {
  EXPECT_EQ(parse_bytes("8388606 TiB"), std::int64_t{8388606} << 40);
  for (const char* const text : {"8388607 TiB", "9223372036854775807", "99999999999999999999 B"}) {
    EXPECT_EQ(size_error(text), "is too large; the largest size is 8388606 TiB") << text;
  }
  EXPECT_EQ(size_error("48 XB"),
            "is not a size; write bytes, or a number with KiB, MiB, GiB or TiB");
  EXPECT_EQ(size_error("99999999999999999999 XB"), size_error("48 XB"));
}

TEST(Units, parse_bytes_rejects_anything_else) {
  for (const char* const text : {"",
                                 " ",
                                 "-1",
                                 "+1",
                                 "1.5",
                                 "1.5 B",
                                 "1. MiB",
                                 ".",
                                 ". MiB",
                                 ".5",
                                 "-.5 MiB",
                                 "1.-5 MiB",
                                 "1.1234567 MiB",
                                 "1 miib",
                                 "0x10",
                                 "1e6",
                                 "1,000",
                                 "MiB",
                                 "1 XB",
                                 "9223372036854775808",
                                 "8388608 TiB",
                                 "99999999999999999 TB",
                                 "1 MiB/s"}) {
    EXPECT_EQ(parse_bytes(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace plimsoll::base

#include "readers/kineto/number_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace plimsoll::readers::kineto {
namespace {

TEST(NumberText, microseconds_keep_every_nanosecond) {
  EXPECT_EQ(nanoseconds_of_microseconds("1419247333400.919"), 1419247333400919);
  EXPECT_EQ(nanoseconds_of_microseconds("1623142623460121"), 1623142623460121000);
  EXPECT_EQ(nanoseconds_of_microseconds("9007199254740993.1"), 9007199254740993100);
  EXPECT_EQ(nanoseconds_of_microseconds("0"), 0);
  EXPECT_EQ(nanoseconds_of_microseconds("0.5"), 500);
  EXPECT_EQ(nanoseconds_of_microseconds("-1.25"), -1250);
}

TEST(NumberText, digits_below_a_nanosecond_are_dropped) {
  EXPECT_EQ(nanoseconds_of_microseconds("1.0009999999999999999999999999"), 1000);
  EXPECT_EQ(nanoseconds_of_microseconds("0.0001"), 0);
}

TEST(NumberText, exponents_are_understood) {
  EXPECT_EQ(nanoseconds_of_microseconds("1.5e3"), 1500000);
  EXPECT_EQ(nanoseconds_of_microseconds("1.5E+3"), 1500000);
  EXPECT_EQ(nanoseconds_of_microseconds("1500e-3"), 1500);
  EXPECT_EQ(nanoseconds_of_microseconds("0e999999"), 0);
}

TEST(NumberText, invalid_or_oversized_times_are_rejected) {
  for (const char* text : {"", "-", "abc", "1.5x", "1e", "1e1.5", "9e18", "1e999999", "Infinity",
                           "9999999999999999999999", "9223372036854776"}) {
    EXPECT_EQ(nanoseconds_of_microseconds(text), std::nullopt) << text;
  }
}

TEST(NumberText, whole_numbers_fit_or_are_rejected) {
  EXPECT_EQ(whole_number("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(whole_number("128184607182336"), 128184607182336);
  for (const char* text : {"", "1.5", "12a", "18446744073709551615", "9223372036854775808"}) {
    EXPECT_EQ(whole_number(text), std::nullopt) << text;
  }
}

TEST(NumberText, addresses_keep_their_bits) {
  EXPECT_EQ(bits_of_number("18446744073709551615"), -1);
  EXPECT_EQ(bits_of_number("128184607182336"), 128184607182336);
  EXPECT_EQ(bits_of_number("18446744073709551616"), std::nullopt);
}

}  // namespace
}  // namespace plimsoll::readers::kineto

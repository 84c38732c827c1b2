#include "format/checksum.h"

#include <string_view>

#include <gtest/gtest.h>

namespace plimsoll::format {
namespace {

std::uint64_t hash_of(std::string_view text) { return xxh64(std::as_bytes(std::span(text))); }

// Values produced by the reference implementation.
TEST(Checksum, agrees_with_xxhash) {
  EXPECT_EQ(hash_of(""), 0xEF46DB3751D8E999u);
  EXPECT_EQ(hash_of("a"), 0xD24EC4F1A98C6E5Bu);
  EXPECT_EQ(hash_of("abc"), 0x44BC2CF5AD770999u);
  EXPECT_EQ(hash_of("xxhash"), 0x32DD38952C4BC720u);
  EXPECT_EQ(hash_of("Nobody inspects the spammish repetition"), 0xFBCEA83C8A378BF1u);
}

TEST(Checksum, is_the_low_half_of_the_hash) {
  const std::string_view text = "abc";
  EXPECT_EQ(checksum(std::as_bytes(std::span(text))), 0xAD770999u);
}

}  // namespace
}  // namespace plimsoll::format

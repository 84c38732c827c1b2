#include "comparison/digest_file.h"

#include <cstdint>
#include <string>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fields.h"
#include "base/json_writer.h"

namespace plimsoll::comparison {
namespace {

using report::Digest;
using testing::HasSubstr;

std::string text_of(const Digest& digest) {
  return base::json_text([&](base::JsonWriter& json) { base::write_json(json, digest); });
}

Digest made() {
  Digest digest;
  digest.source.rank = 3;
  digest.points.push_back({.device = "cpu", .name = "peak", .bytes = 300, .step = 2});
  digest.points.back().unused = {.bytes = 200, .steps = "all"};
  report::DigestKey& key = digest.keys.emplace_back();
  key.device = "cpu";
  key.category = "activation";
  key.layer = "Net.*";
  digest.rows.push_back({.key = 0, .bytes = 300, .count = 2, .instances = 2});
  digest.rows.back().uneven.push_back({"Net.0", 200, 1});
  return digest;
}

TEST(DigestFile, what_is_written_is_read_again) {
  const std::string text = text_of(made());
  EXPECT_TRUE(is_digest(text));
  const auto digest = parse_digest(text, "a.json");
  ASSERT_TRUE(digest.ok()) << digest.error().message;
  EXPECT_EQ(text_of(*digest), text);
}

TEST(DigestFile, an_earlier_version_has_no_last_uses) {
  std::string text = text_of(made());
  const std::size_t begin = text.find(",\n      \"unused\": {");
  ASSERT_NE(begin, text.npos) << text;
  text.erase(begin, text.find('}', begin) + 1 - begin);
  const auto digest = parse_digest(text, "a.json");
  ASSERT_TRUE(digest.ok()) << digest.error().message;
  EXPECT_FALSE(digest->points[0].unused.has_value());
}

TEST(DigestFile, other_files_are_no_digest) {
  EXPECT_FALSE(is_digest(""));
  EXPECT_FALSE(is_digest("{"));
  EXPECT_FALSE(is_digest("{\"schema_version\": \"1.0\"}"));
  EXPECT_FALSE(is_digest("PLIMSOLL"));
}

TEST(DigestFile, damage_is_an_error_with_its_place) {
  const auto error_of = [](const std::string& text) {
    const auto digest = parse_digest(text, "a.json");
    return digest.ok() ? "read" : digest.error().message;
  };
  EXPECT_THAT(error_of("{\"digest_version\": "), HasSubstr("a.json: not JSON at byte "));
  EXPECT_THAT(error_of("{\"digest_version\": 1}"), HasSubstr("not a digest of version 1.4"));
  Digest digest = made();
  digest.rows[0].bytes = 299;
  EXPECT_EQ(error_of(text_of(digest)), "a.json: the rows of point peak sum to 299 bytes, not 300");
  digest = made();
  digest.rows[0].key = 7;
  EXPECT_THAT(error_of(text_of(digest)), HasSubstr("refers to point 0 and key 7 of 1 and 1"));
  digest = made();
  digest.rows[0].bytes = digest.points[0].bytes = std::int64_t{1} << 62;
  EXPECT_EQ(error_of(text_of(digest)), "a.json: its rows have more than 2^60 bytes");
  digest = made();
  digest.rows.push_back({.bytes = 0});
  EXPECT_EQ(error_of(text_of(digest)), "a.json: two rows of the digest have point 0 and key 0");
  for (const auto& [point, least, most] :
       {std::tuple(std::uint64_t{1}, std::int64_t{0}, std::int64_t{0}),
        std::tuple(std::uint64_t{0}, std::int64_t{2}, std::int64_t{1}),
        std::tuple(std::uint64_t{0}, INT64_MIN, INT64_MAX)}) {
    digest = made();
    digest.repeats.emplace().ranges.push_back(
        {.point = point, .least_bytes = least, .most_bytes = most});
    EXPECT_THAT(error_of(text_of(digest)), HasSubstr("has an invalid point, key or size"));
  }
  for (const std::int64_t bytes : {std::int64_t{-1}, std::int64_t{1} << 60, INT64_MAX}) {
    digest = made();
    digest.points[0].unused->bytes = bytes;
    EXPECT_THAT(error_of(text_of(digest)), HasSubstr("are negative, or more than 2^60"));
  }
  digest = made();
  digest.digest_version = "2.0";
  EXPECT_THAT(error_of(text_of(digest)), HasSubstr("a digest of version 2.0"));
}

}  // namespace
}  // namespace plimsoll::comparison

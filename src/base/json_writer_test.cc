#include "base/json_writer.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include <gtest/gtest.h>

namespace plimsoll::base {
namespace {

std::string written(const std::function<void(JsonWriter&)>& write,
                    JsonWriter::Style style = JsonWriter::Style::kCompact) {
  std::string text;
  JsonWriter json([&](std::string_view piece) { return text += piece, true; }, style);
  write(json);
  EXPECT_TRUE(json.finish());
  return text;
}

std::string string_of(std::string_view text) {
  return written([&](JsonWriter& json) { json.string(text); });
}

void nested(JsonWriter& json) {
  json.begin_object();
  json.key("list");
  json.begin_array();
  json.number(std::int64_t{-1});
  json.boolean(true);
  json.null();
  json.end_array();
  json.key("empty");
  json.begin_object();
  json.end_object();
  json.end_object();
}

TEST(JsonWriter, nests_with_commas_where_they_belong) {
  EXPECT_EQ(written(nested), R"({"list":[-1,true,null],"empty":{}})");
}

TEST(JsonWriter, indents_for_people) {
  EXPECT_EQ(written(nested, JsonWriter::Style::kIndented),
            "{\n  \"list\": [\n    -1,\n    true,\n    null\n  ],\n  \"empty\": {}\n}");
}

TEST(JsonWriter, writes_numbers_exactly) {
  EXPECT_EQ(written([](JsonWriter& json) {
              json.begin_array();
              json.number(std::numeric_limits<std::uint64_t>::max());
              json.number(std::numeric_limits<std::int64_t>::min());
              json.number(0.1);
              json.number(std::nan(""));
              json.number(std::numeric_limits<double>::infinity());
              json.end_array();
            }),
            "[18446744073709551615,-9223372036854775808,0.1,null,null]");
}

TEST(JsonWriter, escapes_characters_that_json_forbids) {
  EXPECT_EQ(string_of("a\"b\\c\n\r\t\x01\x7f"), R"("a\"b\\c\n\r\t\u0001\u007f")");
}

// A person who reads or prints the file must see everything in it.
TEST(JsonWriter, escapes_invisible_characters) {
  EXPECT_EQ(string_of("\u202Ea\u200F\u0085\U000E0041"), R"("\u202ea\u200f\u0085\udb40\udc41")");
  EXPECT_EQ(string_of("\u2066\uFEFF\u00AD"), R"("\u2066\ufeff\u00ad")");
}

TEST(JsonWriter, keeps_utf8_and_replaces_other_bytes) {
  EXPECT_EQ(string_of("\u00e9\u20ac\U0001F600"), "\"\u00e9\u20ac\U0001F600\"");
  EXPECT_EQ(string_of("\xff"), "\"\uFFFD\"");
  EXPECT_EQ(string_of("\xc3"), "\"\uFFFD\"");                      // truncated
  EXPECT_EQ(string_of("\xed\xa0\x80"), "\"\uFFFD\uFFFD\uFFFD\"");  // a surrogate
  EXPECT_EQ(string_of("\xc0\xaf"), "\"\uFFFD\uFFFD\"");            // an overlong form
}

TEST(JsonWriter, a_sink_that_returns_false_ends_the_output) {
  int calls = 0;
  JsonWriter json([&](std::string_view) { return ++calls, false; });
  json.begin_array();
  for (int i = 0; i < 100'000; ++i) json.number(std::int64_t{i});
  json.end_array();
  EXPECT_FALSE(json.finish());
  EXPECT_FALSE(json.ok());
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace plimsoll::base

// JSON for tests: checks that it is well-formed, and parses it. A small tree over RapidJSON's event
// parser (its own tree does not compile with newer Clangs).
#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <rapidjson/encodedstream.h>
#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

namespace plimsoll::tests {

class JsonValue {
 public:
  enum class Kind : std::uint8_t { kNull, kBool, kNumber, kString, kArray, kObject };
  Kind kind = Kind::kNull;
  std::string text;  // the text of a string or a number
  std::vector<JsonValue> items;
  std::map<std::string, JsonValue, std::less<>> members;

  bool is_null() const { return kind == Kind::kNull; }
  bool is_string() const { return kind == Kind::kString; }
  bool is_array() const { return kind == Kind::kArray; }
  std::size_t size() const { return items.size(); }
  bool has(std::string_view key) const { return members.contains(key); }
  const JsonValue& operator[](std::string_view key) const {
    static const JsonValue kMissing;
    const auto found = members.find(key);
    if (found == members.end()) ADD_FAILURE() << "no member " << key;
    return found == members.end() ? kMissing : found->second;
  }
  const JsonValue& operator[](std::size_t item) const { return items.at(item); }
  std::int64_t integer() const { return std::strtoll(text.c_str(), nullptr, 10); }
  double number() const { return std::strtod(text.c_str(), nullptr); }
};

// Builds the tree from RapidJSON's events.
class JsonTree : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, JsonTree> {
 public:
  explicit JsonTree(JsonValue& root) : open_{&root} {}

  bool Null() { return leaf(JsonValue::Kind::kNull, ""); }
  bool Bool(bool value) { return leaf(JsonValue::Kind::kBool, value ? "true" : "false"); }
  bool RawNumber(const char* text, rapidjson::SizeType len, bool) {
    return leaf(JsonValue::Kind::kNumber, std::string(text, len));
  }
  bool String(const char* text, rapidjson::SizeType len, bool) {
    return leaf(JsonValue::Kind::kString, std::string(text, len));
  }
  bool Key(const char* text, rapidjson::SizeType len, bool) {
    key_.assign(text, len);
    return true;
  }
  bool StartObject() { return open(JsonValue::Kind::kObject); }
  bool EndObject(rapidjson::SizeType) { return close(); }
  bool StartArray() { return open(JsonValue::Kind::kArray); }
  bool EndArray(rapidjson::SizeType) { return close(); }

 private:
  JsonValue& place() {
    JsonValue& parent = *open_.back();
    if (parent.kind == JsonValue::Kind::kObject) return parent.members[key_];
    if (parent.kind != JsonValue::Kind::kArray) return parent;  // the root
    return parent.items.emplace_back();
  }
  bool leaf(JsonValue::Kind kind, std::string text) {
    JsonValue& value = place();
    value.kind = kind;
    value.text = std::move(text);
    return true;
  }
  bool open(JsonValue::Kind kind) {
    JsonValue& value = place();
    value.kind = kind;
    open_.push_back(&value);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::vector<JsonValue*> open_;
  std::string key_;
};

// Parses one JSON document in UTF-8. Returns the error; empty if there is none.
inline std::string read_json(std::string_view text, JsonValue& root) {
  constexpr unsigned kFlags =
      rapidjson::kParseValidateEncodingFlag | rapidjson::kParseNumbersAsStringsFlag;
  rapidjson::MemoryStream bytes(text.data(), text.size());
  rapidjson::EncodedInputStream<rapidjson::UTF8<>, rapidjson::MemoryStream> stream(bytes);
  rapidjson::Reader reader;
  JsonTree tree(root);
  const auto result = reader.Parse<kFlags>(stream, tree);
  if (!result.IsError()) return {};
  return std::string(rapidjson::GetParseError_En(result.Code())) + " at byte " +
         std::to_string(result.Offset());
}

inline std::string json_flaw(std::string_view text) {
  JsonValue root;
  return read_json(text, root);
}

inline JsonValue parsed_json(std::string_view text) {
  JsonValue root;
  EXPECT_EQ(read_json(text, root), "") << text;
  return root;
}

}  // namespace plimsoll::tests

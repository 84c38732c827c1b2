#include "comparison/digest_file.h"

#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace plimsoll::comparison {
namespace {

constexpr std::uint64_t kMostOfAllRows = std::uint64_t{1} << 60;
constexpr std::size_t kDeepest = 16;  // a digest has five levels

// A JSON value. A kind that a digest never contains is kOther.
struct JsonValue {
  enum class Kind : std::uint8_t { kOther, kNull, kText, kNumber, kNegative, kArray, kObject };
  Kind kind = Kind::kOther;
  std::string text = {};
  std::uint64_t number = 0;           // kNegative: as a signed number
  std::string key = {};               // of a member of an object
  std::vector<JsonValue> items = {};  // of an array or an object

  const JsonValue* find(std::string_view name) const {
    for (const JsonValue& item : items) {
      if (item.key == name) return &item;
    }
    return nullptr;
  }
};

// Builds a JsonValue from RapidJSON's events. A handler returns false to stop the parser.
class JsonBuilder : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, JsonBuilder> {
 public:
  using Kind = JsonValue::Kind;

  JsonValue take() { return std::move(root_); }

  bool Default() { return add({}); }
  bool Null() { return add({.kind = Kind::kNull}); }
  bool Int(int value) { return Int64(value); }
  bool Uint(unsigned value) { return Uint64(value); }
  bool Int64(std::int64_t value) {
    const Kind kind = value < 0 ? Kind::kNegative : Kind::kNumber;
    return add({.kind = kind, .number = static_cast<std::uint64_t>(value)});
  }
  bool Uint64(std::uint64_t value) { return add({.kind = Kind::kNumber, .number = value}); }
  bool String(const char* text, rapidjson::SizeType size, bool) {
    return add({.kind = Kind::kText, .text = std::string(text, size)});
  }
  bool Key(const char* text, rapidjson::SizeType size, bool) {
    keys_.back().assign(text, size);
    return true;
  }
  bool StartArray() { return open(Kind::kArray); }
  bool StartObject() { return open(Kind::kObject); }
  bool EndArray(rapidjson::SizeType) { return close(); }
  bool EndObject(rapidjson::SizeType) { return close(); }

 private:
  bool open(Kind kind) {
    if (open_.size() == kDeepest) return false;
    open_.push_back({.kind = kind});
    keys_.emplace_back();
    return true;
  }
  bool close() {
    JsonValue value = std::move(open_.back());
    open_.pop_back();
    keys_.pop_back();
    return add(std::move(value));
  }
  bool add(JsonValue value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return true;
    }
    value.key = std::move(keys_.back());
    open_.back().items.push_back(std::move(value));
    return true;
  }

  std::vector<JsonValue> open_;    // the arrays and objects around the next value
  std::vector<std::string> keys_;  // of each, the key of its next member
  JsonValue root_;
};

// Reads a value by the field list of its type; false if the JSON has another type.
template <typename T>
bool read_value(const JsonValue& json, T& out) {
  using Kind = JsonValue::Kind;
  if constexpr (base::HasFields<T>) {
    if (json.kind != Kind::kObject) return false;
    bool is_valid = true;
    base::for_each_field<T>([&](const auto& field) {
      if (!is_valid) return;
      const JsonValue* const value = json.find(field.name);
      using Member = std::remove_cvref_t<decltype(out.*(field.member))>;
      if (value == nullptr && base::IsOptional<Member>::value) return;  // added in a later version
      is_valid = value != nullptr && read_value(*value, out.*(field.member));
    });
    return is_valid;
  } else if constexpr (base::IsOptional<T>::value) {
    return json.kind == Kind::kNull || read_value(json, out.emplace());
  } else if constexpr (base::IsVector<T>::value) {
    if (json.kind != Kind::kArray) return false;
    for (const JsonValue& each : json.items) {
      if (!read_value(each, out.emplace_back())) return false;
    }
    return true;
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    out = json.number;
    return json.kind == Kind::kNumber;
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    out = static_cast<std::int64_t>(json.number);
    return json.kind == Kind::kNegative || (json.kind == Kind::kNumber && json.number <= kMost);
  } else {
    static_assert(std::is_same_v<T, std::string>);
    out = json.text;
    return json.kind == Kind::kText;
  }
}

Error unreadable(const std::string& name, const std::string& why) {
  return make_error(ErrorCode::kCorrupt, name + ": " + why);
}

Status check_ranges(const report::Digest& digest, const std::string& name) {
  if (!digest.repeats) return {};
  constexpr auto kMost = static_cast<std::int64_t>(kMostOfAllRows);  // so most - least fits
  for (const report::DigestRange& range : digest.repeats->ranges) {
    const bool has_key = !range.key || *range.key < digest.keys.size();
    const bool is_range = range.least_bytes <= range.most_bytes && range.least_bytes > -kMost &&
                          range.most_bytes < kMost;
    if (range.point < digest.points.size() && has_key && is_range) continue;
    return unreadable(name, "a range of the digest has an invalid point, key or size");
  }
  return {};
}

// Checks that the rows of each point sum to its bytes, so that differences do too, and that no sum
// of differences overflows.
Status check(const report::Digest& digest, const std::string& name) {
  std::vector<std::uint64_t> sums(digest.points.size());
  std::uint64_t all = 0;
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
  for (const report::DigestRow& row : digest.rows) {
    if (row.point >= digest.points.size() || row.key >= digest.keys.size()) {
      return unreadable(name, "a row of the digest refers to point " + std::to_string(row.point) +
                                  " and key " + std::to_string(row.key) + " of " +
                                  std::to_string(digest.points.size()) + " and " +
                                  std::to_string(digest.keys.size()));
    }
    if (!seen.emplace(row.point, row.key).second) {
      return unreadable(name, "two rows of the digest have point " + std::to_string(row.point) +
                                  " and key " + std::to_string(row.key));
    }
    const auto bytes = static_cast<std::uint64_t>(row.bytes);
    sums[row.point] += bytes;
    all += std::min(row.bytes < 0 ? -bytes : bytes, kMostOfAllRows);
    if (all >= kMostOfAllRows) return unreadable(name, "its rows have more than 2^60 bytes");
  }
  for (std::size_t point = 0; point < sums.size(); ++point) {
    const auto& unused = digest.points[point].unused;
    if (unused && static_cast<std::uint64_t>(unused->bytes) >= kMostOfAllRows) {
      return unreadable(name, "the unused bytes of a point are negative, or more than 2^60");
    }
    const std::int64_t bytes = digest.points[point].bytes;
    if (sums[point] == static_cast<std::uint64_t>(bytes)) continue;
    return unreadable(name, "the rows of point " + digest.points[point].name + " sum to " +
                                std::to_string(static_cast<std::int64_t>(sums[point])) +
                                " bytes, not " + std::to_string(bytes));
  }
  return {};
}

// The size of the UTF-8 byte order mark with which editors on Windows begin a file.
std::size_t mark_size(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.starts_with(kMark) ? kMark.size() : 0;
}

}  // namespace

bool is_digest(std::string_view begin) {
  begin.remove_prefix(mark_size(begin));
  const std::size_t brace = begin.find_first_not_of(" \t\r\n");
  if (brace == std::string_view::npos || begin[brace] != '{') return false;
  const std::size_t key = begin.find_first_not_of(" \t\r\n", brace + 1);
  return key != std::string_view::npos && begin.substr(key).starts_with("\"digest_version\"");
}

Result<report::Digest> parse_digest(const std::string& text, const std::string& name) {
  JsonBuilder builder;
  rapidjson::Reader reader;
  const std::size_t mark = mark_size(text);
  rapidjson::MemoryStream stream(text.data() + mark, text.size() - mark);
  const auto parsed = reader.Parse<rapidjson::kParseIterativeFlag>(stream, builder);
  if (parsed.IsError()) {
    return unreadable(name, "not JSON at byte " + std::to_string(parsed.Offset()) + ": " +
                                rapidjson::GetParseError_En(parsed.Code()));
  }
  report::Digest digest;
  if (!read_value(builder.take(), digest)) {
    return unreadable(name, "not a digest of version " + std::string(report::kDigestVersion) +
                                ": a key is missing or has another type");
  }
  if (!digest.digest_version.starts_with("1.")) {
    return make_error(ErrorCode::kUnsupported,
                      name + ": a digest of version " + digest.digest_version +
                          ", but this Plimsoll reads version 1; make it again with plimsoll export "
                          "--to digest");
  }
  PLIMSOLL_TRY(check(digest, name));
  PLIMSOLL_TRY(check_ranges(digest, name));
  report::bound_names(digest);
  return digest;
}

}  // namespace plimsoll::comparison

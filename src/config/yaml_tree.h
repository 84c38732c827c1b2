// A YAML document whose values stay text, because each option decides what "yes" or "0x10" means.
// Python's reader (config.py) follows the same rules.
//
// One document in UTF-8. Aliases refer to their targets and copy nothing; keys are scalars; among
// duplicate keys the last one wins; `<<` merges. Custom tags (!include) are an error.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plimsoll/result.h"

namespace plimsoll::config {

struct YamlValue {
  enum class Kind : unsigned char { kNothing, kText, kList, kMap };
  using Pair = std::pair<const YamlValue*, const YamlValue*>;

  Kind kind = Kind::kNothing;
  std::string text;
  bool is_plain = false;  // not quoted
  std::vector<const YamlValue*> items;
  std::vector<Pair> pairs;  // in document order, `<<` included
  int line = 0;             // from 1
  int column = 0;
};

class YamlTree {
 public:
  YamlTree(YamlTree&&) = default;  // not copyable: values point to each other
  YamlTree& operator=(YamlTree&&) = default;

  static constexpr std::size_t kMostBytes = std::size_t{16} << 20;
  static constexpr std::size_t kMostPairs = 100'000;     // of one map, including merged ones
  static constexpr std::size_t kMostSteps = 10'000'000;  // maps and pairs that entries() visits

  // `name` replaces the path in errors, before line and column.
  static Result<YamlTree> parse(std::string_view yaml, const std::string& name);

  const YamlValue& root() const { return *root_; }
  // A map's keys and values, merged, each key once, in order of first appearance.
  Result<std::vector<YamlValue::Pair>> entries(const YamlValue& map) const;
  // An error at the position of a value.
  Error error(ErrorCode code, const YamlValue& at, const std::string& sentence) const;

 private:
  friend class YamlBuilder;
  YamlTree() = default;
  Status read(std::string_view yaml);
  Status check_end(std::string_view yaml) const;
  std::string name_;
  std::deque<YamlValue> values_;  // a deque, for stable addresses
  const YamlValue* root_ = nullptr;
  mutable std::size_t steps_ = 0;  // aliases make a small text a large tree
  int block_column_ = -1;          // column of the root, if that is a map without braces
};

}  // namespace plimsoll::config

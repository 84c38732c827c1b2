// A YAML document as values that stay the text they were written as: what "yes" or "0x10" means is
// the business of the option that has it. Python's reader (config.py) keeps to the same rules.
//
// One document in UTF-8. Aliases lead to what they name and copy nothing; keys are
// scalars; of a key that stands twice the later one counts; `<<` merges. Tags of the program's own
// (!include) are an error.
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
  bool is_plain = false;  // not in quotes
  std::vector<const YamlValue*> items;
  std::vector<Pair> pairs;  // as they stand there, `<<` among them
  int line = 0;             // from 1
  int column = 0;
};

class YamlTree {
 public:
  YamlTree(YamlTree&&) = default;  // not copied: values point at each other
  YamlTree& operator=(YamlTree&&) = default;

  static constexpr std::size_t kMostBytes = std::size_t{16} << 20;
  static constexpr std::size_t kMostPairs = 100'000;  // of one map, with all that is merged into it
  static constexpr std::size_t kMostSteps = 10'000'000;  // maps and pairs that entries() visits

  // `name` stands for the text in errors, before line and column.
  static Result<YamlTree> parse(std::string_view yaml, const std::string& name);

  const YamlValue& root() const { return *root_; }
  // A map's keys and values, merged, each key once, in the order of their first standing.
  Result<std::vector<YamlValue::Pair>> entries(const YamlValue& map) const;
  // An error at a value's place.
  Error error(ErrorCode code, const YamlValue& at, const std::string& sentence) const;

 private:
  friend class YamlBuilder;
  YamlTree() = default;
  Status read(std::string_view yaml);
  Status check_end(std::string_view yaml) const;
  std::string name_;
  std::deque<YamlValue> values_;  // whose addresses stay
  const YamlValue* root_ = nullptr;
  mutable std::size_t steps_ = 0;  // aliases make a small text a large tree
  int block_column_ = -1;          // of the root, where that is a map without braces
};

}  // namespace plimsoll::config

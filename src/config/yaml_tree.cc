#include "config/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>

#include "base/utf8.h"

namespace plimsoll::config {
namespace {

constexpr std::string_view kStandard = "tag:yaml.org,2002:";
constexpr std::array<std::string_view, 12> kStandardTags = {"null",   "bool", "int",   "float",
                                                            "str",    "seq",  "map",   "timestamp",
                                                            "binary", "omap", "pairs", "set"};
constexpr int kDeepestMerge = 100;
constexpr std::size_t kDeepest = 300;  // yaml-cpp itself allows 500

std::string place(const std::string& name, int line, int column) {
  return name + ":" + std::to_string(line) + ":" + std::to_string(column) + ": ";
}

// The characters that YAML allows in text: no control characters except tab, line feed, carriage
// return and NEL.
bool is_allowed(std::string_view sequence) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(sequence[i]); };
  if (sequence.size() == 1) {
    return byte(0) == '\t' || byte(0) == '\n' || byte(0) == '\r' ||
           (byte(0) >= 0x20 && byte(0) < 0x7F);
  }
  if (sequence.size() == 2 && byte(0) == 0xC2) return byte(1) == 0x85 || byte(1) >= 0xA0;
  return sequence != "\xEF\xBF\xBE" && sequence != "\xEF\xBF\xBF";  // U+FFFE, U+FFFF
}

Status check_characters(std::string_view yaml, const std::string& name) {
  int line = 1;
  int column = 1;
  while (!yaml.empty()) {
    const std::size_t length = base::utf8_sequence_length(yaml);
    if (length == 0 || !is_allowed(yaml.substr(0, length))) {
      return make_error(ErrorCode::kCorrupt,
                        place(name, line, column) + "invalid YAML: " +
                            (length == 0 ? "this is not UTF-8" : "a control character"));
    }
    const bool is_end = yaml.front() == '\n';
    line += is_end ? 1 : 0;
    column = is_end ? 1 : column + 1;
    yaml.remove_prefix(length);
  }
  return {};
}

// yaml-cpp accepts the end of the text as the end of a quoted string.
bool is_closed(std::string_view yaml, int position) {
  const auto at = static_cast<std::size_t>(std::max(position, 0));
  if (at >= yaml.size() || (yaml[at] != '\'' && yaml[at] != '"')) return true;  // not in quotes
  const char quote = yaml[at];
  for (std::size_t i = at + 1; i < yaml.size(); ++i) {
    if (yaml[i] == '\\' && quote == '"') {
      ++i;
    } else if (yaml[i] == quote) {
      if (quote == '"' || i + 1 == yaml.size() || yaml[i + 1] != quote) return true;
      ++i;  // '' within single quotes
    }
  }
  return false;
}

// The number of the last line that has content.
int last_line(std::string_view yaml) {
  const std::size_t last = yaml.find_last_not_of(" \t\r\n");
  return 1 + static_cast<int>(std::ranges::count(yaml.substr(0, last), '\n'));
}

// "?" is the tag of a plain value, "!" that of a quoted one.
bool is_known_tag(std::string_view tag) {
  if (tag.empty() || tag == "?" || tag == "!") return true;
  if (!tag.starts_with(kStandard)) return false;
  return std::ranges::find(kStandardTags, tag.substr(kStandard.size())) != kStandardTags.end();
}

}  // namespace

// Receives yaml-cpp's events. Throws yaml-cpp's exceptions.
class YamlBuilder : public YAML::EventHandler {
 public:
  YamlBuilder(YamlTree& tree, std::string_view yaml) : tree_(tree), yaml_(yaml) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) throw YAML::ParserException(mark, "a second document begins here");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(YamlValue::Kind::kNothing, mark, "", anchor);
  }
  void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
    if (!names_.insert(name).second) {
      throw YAML::ParserException(mark, "the anchor '" + name + "' is defined twice");
    }
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) throw YAML::ParserException(mark, "an alias without an anchor");
    put(*found->second);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    if (tag != "?" && !is_closed(yaml_, mark.pos)) {
      throw YAML::ParserException(mark, "the quotes are never closed");
    }
    YamlValue& value = add(YamlValue::Kind::kText, mark, tag, anchor);
    value.text = text;
    value.is_plain = tag == "?";
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open(YamlValue::Kind::kList, mark, tag, anchor);
  }
  void OnSequenceEnd() override { open_.pop_back(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    const bool is_root = open_.empty();
    if (is_root && style == YAML::EmitterStyle::Block) tree_.block_column_ = mark.column;
    open(YamlValue::Kind::kMap, mark, tag, anchor);
  }
  void OnMapEnd() override { open_.pop_back(); }

 private:
  struct Open {
    YamlValue* value;
    const YamlValue* key;  // key of a map, whose value comes next
  };

  void open(YamlValue::Kind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor) {
    if (open_.size() == kDeepest) throw YAML::ParserException(mark, "nested too deeply");
    open_.push_back({&add(kind, mark, tag, anchor), nullptr});
  }

  YamlValue& add(YamlValue::Kind kind, const YAML::Mark& mark, const std::string& tag,
                 YAML::anchor_t anchor) {
    if (!is_known_tag(tag)) {
      throw YAML::ParserException(mark, "the tag '" + tag + "' is not supported");
    }
    YamlValue& value = tree_.values_.emplace_back();
    value.kind = kind;
    value.line = mark.line + 1;
    value.column = mark.column + 1;
    if (anchor != YAML::NullAnchor) anchors_[anchor] = &value;
    put(value);
    return value;
  }

  // Adds the value to the open list or map, or at the top level.
  void put(const YamlValue& value) {
    if (open_.empty()) {
      tree_.root_ = &value;
      return;
    }
    Open& around = open_.back();
    if (around.value->kind == YamlValue::Kind::kList) {
      around.value->items.push_back(&value);
    } else if (around.key == nullptr) {
      if (value.kind == YamlValue::Kind::kList || value.kind == YamlValue::Kind::kMap) {
        throw YAML::ParserException(
            {}, "line " + std::to_string(value.line) + ": a key is a list or a mapping");
      }
      around.key = &value;
    } else {
      // yaml-cpp produces this for a superfluous comma.
      if (around.key->kind == YamlValue::Kind::kNothing && value.kind == around.key->kind) {
        throw YAML::ParserException({},
                                    "line " + std::to_string(value.line) + ": a key is missing");
      }
      around.value->pairs.emplace_back(around.key, &value);
      around.key = nullptr;
    }
  }

  YamlTree& tree_;
  std::string_view yaml_;
  int documents_ = 0;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, const YamlValue*> anchors_;
  std::set<std::string> names_;  // anchors
};

Result<YamlTree> YamlTree::parse(std::string_view yaml, const std::string& name) {
  if (yaml.size() > kMostBytes) {
    return make_error(ErrorCode::kLimit, name + ": is larger than 16 MiB");
  }
  PLIMSOLL_TRY(check_characters(yaml, name));
  constexpr std::string_view kMark = "\xEF\xBB\xBF";  // the UTF-8 byte order mark, which is ignored
  if (yaml.starts_with(kMark)) yaml.remove_prefix(kMark.size());
  YamlTree tree;
  tree.name_ = name;
  PLIMSOLL_TRY(tree.read(yaml));
  PLIMSOLL_TRY(tree.check_end(yaml));
  return tree;
}

// yaml-cpp silently skips a last line that is a word without a colon, which is a common mistake. If
// another line follows, it reports the error.
Status YamlTree::check_end(std::string_view yaml) const {
  const bool ends_itself = yaml.starts_with("...") || yaml.find("\n...") != std::string_view::npos;
  if (block_column_ < 0 || ends_itself) return {};
  std::string longer(yaml);
  longer += "\n" + std::string(static_cast<std::size_t>(block_column_), ' ') + "end: ~\n";
  YamlTree probe;
  probe.name_ = name_;
  if (probe.read(longer) && probe.root().pairs.size() == root().pairs.size() + 1) return {};
  return make_error(ErrorCode::kCorrupt,
                    place(name_, last_line(yaml), 1) +
                        "invalid YAML at the end, probably a name without a colon");
}

Status YamlTree::read(std::string_view yaml) {
  YamlBuilder builder(*this, yaml);
  try {
    std::istringstream stream{std::string(yaml)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    const bool has_place = !error.mark.is_null();
    return make_error(
        ErrorCode::kCorrupt,
        (has_place ? place(name_, error.mark.line + 1, error.mark.column + 1) : name_ + ": ") +
            "invalid YAML: " + error.msg);
  } catch (const std::exception& error) {
    return make_error(ErrorCode::kCorrupt, name_ + ": invalid YAML: " + error.what());
  }
  if (root_ == nullptr) root_ = &values_.emplace_back();
  return {};
}

Error YamlTree::error(ErrorCode code, const YamlValue& at, const std::string& sentence) const {
  return make_error(code, place(name_, at.line, at.column) + sentence);
}

namespace {

using Pairs = std::vector<YamlValue::Pair>;

bool is_merge(const YamlValue& key) {
  return key.kind == YamlValue::Kind::kText && key.is_plain && key.text == "<<";
}

// Pairs merged into a map precede its own, so that its own win; among several merged maps the first
// wins.
const char* append(const YamlValue& map, Pairs& pairs, std::size_t& steps, int depth) {
  if (map.kind != YamlValue::Kind::kMap) return "<< does not merge a mapping";
  steps += 1 + map.pairs.size();
  if (steps > YamlTree::kMostSteps) return "aliases repeat too much";
  if (depth > kDeepestMerge) return "<< merges too deeply";
  for (const auto& [key, value] : map.pairs) {
    if (!is_merge(*key)) continue;
    if (value->kind == YamlValue::Kind::kList) {
      for (auto item = value->items.rbegin(); item != value->items.rend(); ++item) {
        if (const char* problem = append(**item, pairs, steps, depth + 1)) return problem;
      }
    } else if (const char* problem = append(*value, pairs, steps, depth + 1)) {
      return problem;
    }
  }
  for (const YamlValue::Pair& pair : map.pairs) {
    if (is_merge(*pair.first)) continue;
    if (pairs.size() == YamlTree::kMostPairs) return "<< merges too much";
    pairs.push_back(pair);
  }
  return nullptr;
}

}  // namespace

Result<Pairs> YamlTree::entries(const YamlValue& map) const {
  Pairs all;
  if (const char* problem = append(map, all, steps_, 0))
    return error(ErrorCode::kCorrupt, map, problem);
  Pairs once;
  std::map<std::pair<YamlValue::Kind, std::string_view>, std::size_t> places;
  for (const YamlValue::Pair& pair : all) {
    const auto [known, is_new] =
        places.try_emplace({pair.first->kind, pair.first->text}, once.size());
    if (is_new) {
      once.push_back(pair);
    } else {
      once[known->second].second = pair.second;
    }
  }
  return once;
}

}  // namespace plimsoll::config

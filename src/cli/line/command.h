// Command: one subcommand of `plimsoll` as data: its arguments, its help, its function. Parsing,
// help and docs/cli.md are generated from it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll::cli {

enum class Count : std::uint8_t { kOne, kAtMostOne, kOneOrMore, kAny };

inline bool takes_several(Count count) {
  return count == Count::kOneOrMore || count == Count::kAny;
}
inline bool may_be_missing(Count count) {
  return count == Count::kAtMostOne || count == Count::kAny;
}

enum class Takes : std::uint8_t {
  kAnything,
  kRecording,  // a path, or "latest"
};

struct Positional {
  std::string name;  // "FILE"
  std::string help;
  Count count = Count::kOne;
  Takes takes = Takes::kAnything;
  std::vector<std::string> choices = {};  // empty: any
};

struct Option {
  std::string name;        // "--top"
  std::string short_name;  // "-o"; may be empty
  std::string value;       // "N"; empty: a switch
  std::string help;
  std::vector<std::string> choices = {};  // empty: any
  bool is_list = false;                   // may be repeated, and given as a,b,c
  bool is_required = false;
};

// The arguments that the user gave, by name of option or positional.
class Arguments {
 public:
  bool has(const std::string& name) const { return values_.count(name) != 0; }
  // The value, or the alternative if none was given.
  std::string value(const std::string& name, const std::string& alternative = {}) const {
    const auto found = values_.find(name);
    return found == values_.end() || found->second.empty() ? alternative : found->second.back();
  }
  std::vector<std::string> values(const std::string& name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? std::vector<std::string>{} : found->second;
  }
  void set(const std::string& name, std::vector<std::string> values) {
    values_[name] = std::move(values);
  }

 private:
  std::map<std::string, std::vector<std::string>> values_;
};

// A list under the options: examples, formats.
struct Section {
  std::string title;
  std::vector<std::pair<std::string, std::string>> rows;
};

struct Command {
  std::string name;
  std::string summary;      // one line
  std::string description;  // one paragraph
  std::vector<Positional> positionals;
  std::vector<Option> options;
  std::vector<Section> sections;
  int (*run)(const Arguments&) = nullptr;  // the exit code
  // Replaces `run` if most of the arguments belong to another program. The words are unparsed.
  int (*run_words)(const std::vector<std::string>&) = nullptr;
};

}  // namespace plimsoll::cli

#include "cli/line/command_line.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "base/suggestion.h"
#include "cli/line/other_tools.h"

namespace plimsoll::cli {
namespace {

Error usage_error(const Command& command, const std::string& sentence) {
  return make_error(ErrorCode::kInvalidArgument,
                    sentence + " (plimsoll " + command.name + " --help)");
}

// `which` is an Option or a Positional.
Status check_choices(const Command& command, const auto& which,
                     const std::vector<std::string>& given) {
  if (which.choices.empty()) return {};
  for (const std::string& value : given) {
    if (std::ranges::find(which.choices, value) != which.choices.end()) continue;
    const std::string instead = value_instead_of(which.name, value);
    return usage_error(command,
                       which.name + " " + value + " is not one of " + base::joined(which.choices) +
                           (instead.empty() ? base::did_you_mean(value, which.choices) : instead));
  }
  return {};
}

// "a FILE", "an AFTER"
std::string with_article(const std::string& name) {
  constexpr std::string_view kVowels = "AEIOU";
  return (kVowels.find(name.front()) == kVowels.npos ? "a " : "an ") + name;
}

// "a,b" -> "a", "b". Empty parts are dropped.
std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> values;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    if (end > 0) values.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return values;
}

// Parses the words in one pass: the value of an option is the rest of its word or the next word,
// whatever that begins with. Everything else is positional.
class Parser {
 public:
  Parser(const Command& command, const std::vector<std::string>& words)
      : command_(command), words_(words) {}

  Result<Arguments> parse() {
    for (; next_ < words_.size(); ++next_) {
      const std::string& word = words_[next_];
      if (word == "--") {
        positionals_.insert(positionals_.end(), words_.begin() + offset(next_ + 1), words_.end());
        break;
      }
      if (word.size() < 2 || word[0] != '-') {  // "-" is a file name
        positionals_.push_back(word);
      } else {
        PLIMSOLL_TRY(word.starts_with("--") ? take_long(word) : take_short(word));
      }
    }
    PLIMSOLL_TRY(distribute_positionals());
    for (const Option& option : command_.options) PLIMSOLL_TRY(check(option));
    return std::move(arguments_);
  }

 private:
  static std::ptrdiff_t offset(std::size_t index) { return static_cast<std::ptrdiff_t>(index); }

  // "--name", "--name=value"
  Status take_long(const std::string& word) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const auto option = std::ranges::find(command_.options, name, &Option::name);
    if (option == command_.options.end()) return unknown(name);
    return take(*option,
                equals == word.npos ? std::nullopt : std::optional(word.substr(equals + 1)));
  }
  // "-o", "-ovalue"
  Status take_short(const std::string& word) {
    const std::string name = word.substr(0, 2);
    const auto option = std::ranges::find(command_.options, name, &Option::short_name);
    if (option == command_.options.end()) return unknown(word.substr(0, word.find('=')));
    return take(*option, word.size() == 2 ? std::nullopt : std::optional(word.substr(2)));
  }

  Status unknown(const std::string& name) const {
    std::vector<std::string> known = {"--help"};
    for (const Option& option : command_.options) known.push_back(option.name);
    const std::string instead = option_instead_of(command_, name);
    return usage_error(command_, "plimsoll " + command_.name + " has no option " + name +
                                     (instead.empty() ? base::did_you_mean(name, known) : instead));
  }

  Status take(const Option& option, std::optional<std::string> value) {
    if (option.value.empty()) {
      if (value) return usage_error(command_, option.name + " takes no value");
      arguments_.set(option.name, {});
      return {};
    }
    if (!value) {
      if (++next_ == words_.size()) return usage_error(command_, option.name + " needs a value");
      value = words_[next_];
    }
    std::vector<std::string> values = arguments_.values(option.name);
    if (!option.is_list) {
      if (!values.empty()) return usage_error(command_, option.name + " is given more than once");
      if (value->empty()) {
        return usage_error(command_,
                           option.name + " \"\" is empty: it takes " + with_article(option.value));
      }
      arguments_.set(option.name, {*std::move(value)});
      return {};
    }
    const std::vector<std::string> more = split(*value);
    if (more.empty()) {
      return usage_error(command_, option.name + " \"" + *value + "\" names no " + option.value);
    }
    values.insert(values.end(), more.begin(), more.end());
    arguments_.set(option.name, std::move(values));
    return {};
  }

  // The first positional that accepts several words gets all that are left over.
  Status distribute_positionals() {
    std::size_t taken = 0;
    for (const Positional& positional : command_.positionals) {
      const std::size_t left = positionals_.size() - taken;
      const std::size_t count =
          takes_several(positional.count) ? left : std::min<std::size_t>(left, 1);
      const auto begin = positionals_.begin() + offset(taken);
      const std::vector<std::string> given(begin, begin + offset(count));
      if (given.empty() && !may_be_missing(positional.count)) {
        return usage_error(command_,
                           "plimsoll " + command_.name + " needs " + with_article(positional.name));
      }
      PLIMSOLL_TRY(check_choices(command_, positional, given));
      if (!given.empty()) arguments_.set(positional.name, given);
      taken += count;
    }
    if (taken == positionals_.size()) return {};
    if (!command_.positionals.empty()) {
      return usage_error(command_, "plimsoll " + command_.name + " takes one " +
                                       command_.positionals.back().name + ", not more");
    }
    return usage_error(command_, "\"" + positionals_[taken] +
                                     "\" is an unexpected argument of plimsoll " + command_.name);
  }

  Status check(const Option& option) const {
    if (option.is_required && !arguments_.has(option.name)) {
      return usage_error(
          command_, "plimsoll " + command_.name + " needs " + option.name + " " + option.value);
    }
    return check_choices(command_, option, arguments_.values(option.name));
  }

  const Command& command_;
  const std::vector<std::string>& words_;
  std::size_t next_ = 0;
  std::vector<std::string> positionals_;
  Arguments arguments_;
};

}  // namespace

Result<Arguments> parse(const Command& command, const std::vector<std::string>& words) {
  return Parser(command, words).parse();
}

}  // namespace plimsoll::cli

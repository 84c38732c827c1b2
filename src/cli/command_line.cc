#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "base/suggestion.h"

namespace plimsoll::cli {
namespace {

// The variables that CLI11 fills while it parses.
struct Slots {
  std::map<std::string, std::vector<std::string>> values;
  std::map<std::string, bool> switches;
};

Error usage_error(const Command& command, const std::string& sentence) {
  return make_error(ErrorCode::kInvalidArgument,
                    sentence + " (plimsoll " + command.name + " --help)");
}

void declare(CLI::App& app, const Option& option, Slots& slots) {
  const std::string names =
      option.short_name.empty() ? option.name : option.short_name + "," + option.name;
  if (option.value.empty()) {
    app.add_flag(names, slots.switches[option.name]);
    return;
  }
  CLI::Option* declared = app.add_option(names, slots.values[option.name]);
  declared->expected(1)->allow_extra_args(false);
  if (option.is_list) {
    declared->delimiter(',')->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
}

// `which` is an option, or a positional.
Status check_choices(const Command& command, const auto& which,
                     const std::vector<std::string>& given) {
  if (which.choices.empty()) return {};
  for (const std::string& value : given) {
    if (std::ranges::find(which.choices, value) != which.choices.end()) continue;
    return usage_error(command, which.name + " " + value + " is not one of " +
                                    base::joined(which.choices) +
                                    base::did_you_mean(value, which.choices));
  }
  return {};
}

Status check_unknown(const Command& command, const std::vector<std::string>& unknown) {
  if (unknown.empty()) return {};
  const std::string word = unknown.front().substr(0, unknown.front().find('='));
  if (!word.starts_with("-")) {
    return usage_error(command,
                       "\"" + word + "\" is an unexpected argument of plimsoll " + command.name);
  }
  std::vector<std::string> known = {"--help"};
  for (const Option& option : command.options) known.push_back(option.name);
  return usage_error(command, "plimsoll " + command.name + " has no option " + word +
                                  base::did_you_mean(word, known));
}

// An empty value between commas would make CLI11 consume the next argument.
Status check_lists(const Command& command, const std::vector<std::string>& words) {
  for (const Option& option : command.options) {
    if (!option.is_list) continue;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const bool is_next = words[i] == option.name && i + 1 < words.size();
      const std::string prefix = option.name + "=";
      if (!is_next && !words[i].starts_with(prefix)) continue;
      const std::string value = is_next ? words[i + 1] : words[i].substr(prefix.size());
      if (value.find_first_not_of(',') == std::string::npos)
        return usage_error(command, option.name + " \"" + value + "\" names no " + option.value);
    }
  }
  return {};
}

Status check_positionals(const Command& command, const Slots& slots) {
  for (const Positional& positional : command.positionals) {
    const auto& given = slots.values.at(positional.name);
    if (given.size() > 1 && !takes_several(positional.count)) {
      return usage_error(
          command, "plimsoll " + command.name + " takes one " + positional.name + ", not more");
    }
    if (given.empty() && !may_be_missing(positional.count)) {
      return usage_error(command, "plimsoll " + command.name + " needs a " + positional.name);
    }
    PLIMSOLL_TRY(check_choices(command, positional, given));
  }
  return {};
}

Result<Arguments> gather(const Command& command, const CLI::App& app, Slots& slots) {
  PLIMSOLL_TRY(check_unknown(command, app.remaining()));
  PLIMSOLL_TRY(check_positionals(command, slots));
  for (const Option& option : command.options) {
    if (option.value.empty()) continue;
    const auto& given = slots.values[option.name];
    if (std::ranges::find(given, "") != given.end())
      return usage_error(command, option.name + " \"\" is empty: it takes a " + option.value);
    PLIMSOLL_TRY(check_choices(command, option, given));
    if (option.is_required && slots.values[option.name].empty()) {
      return usage_error(command,
                         "plimsoll " + command.name + " needs " + option.name + " " + option.value);
    }
  }
  Arguments arguments;
  for (auto& [name, values] : slots.values) {
    if (!values.empty()) arguments.set(name, std::move(values));
  }
  for (const auto& [name, is_on] : slots.switches) {
    if (is_on) arguments.set(name, {});
  }
  return arguments;
}

}  // namespace

Result<Arguments> parse(const Command& command, const std::vector<std::string>& words) {
  CLI::App app;
  Slots slots;
  app.set_help_flag();  // main answers --help
  app.allow_extras();
  for (const Positional& positional : command.positionals) {
    CLI::Option* declared = app.add_option(positional.name, slots.values[positional.name]);
    if (!takes_several(positional.count)) declared->expected(0, 1);
  }
  for (const Option& option : command.options) declare(app, option, slots);
  const auto dashes = std::ranges::find(words, "--");
  PLIMSOLL_TRY(check_lists(command, {words.begin(), dashes}));
  std::vector<std::string> reversed(words.begin(), dashes);
  std::ranges::reverse(reversed);
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string text = error.what();
    const std::string name = text.substr(0, text.find(':'));
    const bool is_missing = text.find("missing") != std::string::npos;
    return usage_error(command,
                       name + (is_missing ? " needs a value" : " is given more than once"));
  } catch (const CLI::ParseError& error) {
    return usage_error(command, error.what());
  }
  // what follows `--` is positional, whatever it begins with
  if (dashes != words.end() && !command.positionals.empty()) {
    auto& names = slots.values[command.positionals.front().name];
    names.insert(names.end(), dashes + 1, words.end());
  }
  return gather(command, app, slots);
}

}  // namespace plimsoll::cli

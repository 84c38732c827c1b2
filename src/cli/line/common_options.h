// Options shared by several commands.
#pragma once

#include <algorithm>
#include <cstddef>
#include <ranges>
#include <string>
#include <vector>

#include "cli/line/command.h"
#include "plimsoll/result.h"
#include "text/style.h"

namespace plimsoll::cli {

// A recording: its path, or "latest".
Positional recording_positional(const std::string& help, Count count = Count::kOne);

Option color_option();  // --color
text::Color chosen_color(const Arguments& arguments);

// The checked value of --top.
Result<std::size_t> chosen_top(const Arguments& arguments, std::size_t if_not_given);

// --fail-on, which takes a severity or one of `ids`.
Option fail_on_option(const std::ranges::input_range auto& ids) {
  Option option{"--fail-on",
                "",
                "WHAT",
                "Exit with status 1 if there is a finding of at least this severity, or with this "
                "id; several as a,b.",
                {"info", "warning", "critical"},
                true};
  option.choices.insert(option.choices.end(), std::begin(ids), std::end(ids));
  return option;
}

// Whether one of the findings (each with an id and a severity) matches --fail-on.
template <typename Finding>
bool is_to_fail_on(const std::vector<Finding>& findings, const Arguments& arguments) {
  using Severity = decltype(Finding::severity);
  const auto is_meant = [](const Finding& finding, const std::string& word) {
    for (const auto least : {Severity::kInfo, Severity::kWarning, Severity::kCritical}) {
      if (word == to_string(least)) return finding.severity >= least;
    }
    return word == finding.id;
  };
  return std::ranges::any_of(arguments.values("--fail-on"), [&](const std::string& word) {
    return std::ranges::any_of(findings,
                               [&](const Finding& finding) { return is_meant(finding, word); });
  });
}

}  // namespace plimsoll::cli

// The file that plimsoll export --redact writes for the sender: each pseudonym and its text.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/result.h"
#include "plimsoll/session.h"

namespace plimsoll::cli {

// One line for each: the pseudonym, a tab, and the text, in which tabs, newlines and backslashes
// are escaped.
std::string names_text(const NameMap& names);

// Reads such a text. `path` names it in messages.
Result<NameMap> read_names(std::string_view text, const std::string& path);

// Replaces the pseudonyms in `text`, as whole words, by their texts.
std::string decoded(std::string_view text, const NameMap& names);

}  // namespace plimsoll::cli

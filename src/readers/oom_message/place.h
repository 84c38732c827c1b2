// Whether a program printed a message, or a sentence, a comment or a program's source quotes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace plimsoll::readers::oom_message {

// A message with figures in a comment was copied from a run; one without them is prose.
enum class Figures : std::uint8_t { kNone, kSome };

// Whether the message that begins at `at` is where programs print messages: at the start of its
// line, behind what loggers and launchers put there, behind the class of an exception or a label
// that names a failure, or as the value of a field.
bool is_printed(std::string_view text, std::size_t at, Figures figures);

// Whether a text such as "Training failed" names a failure.
bool names_failure(std::string_view text);

}  // namespace plimsoll::readers::oom_message

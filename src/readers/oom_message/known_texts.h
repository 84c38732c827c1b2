// Finds messages about memory that other programs than PyTorch's allocator print: inference
// servers, libraries, launchers, and the kernel. known_table.cc is the list, as data.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "model/oom_message.h"

namespace plimsoll::readers::oom_message {

// A text that some program prints. The pattern begins with a literal of at least eight characters,
// which is searched for as it is. In the rest, a space also matches the end of a line with what
// loggers and quotations put there. Captures:
//   {name|size}    a number with its unit: 2.00 GiB, 640MiB, 4096 bytes
//   {name|bytes}   a number of bytes; also KiB, MiB and GiB, for numbers without a unit
//   {name|number}  any other number
//   {name|text}    up to the literal that follows, within a line
// A number may have a parenthesis before it. {requested}, {total}, {free}, {limit} and {device} are
// also figures of the message. Title and evidence name captures in braces: {total}.
//
// A pattern that is a single name must be stated as a status (is_stated): documentation, comments
// and settings mention the name, too.
struct Explanation {
  model::DeviceType device;
  std::string_view title;
  std::string_view evidence;
  std::array<std::string_view, 3> steps;  // the rest is empty
};
struct KnownPattern {
  std::string_view pattern;
  Explanation means;
};

// More specific texts come before those that a program prints as a consequence.
std::span<const KnownPattern> known_patterns();

struct FoundKnown {
  model::OomMessage message;  // with its part `known`
  std::size_t at = 0;         // where the text begins
};

// Returns the first known text in the order of the table for each kind of device, as it occurs
// last. Linear in the size of the text.
std::vector<FoundKnown> find_known_texts(std::string_view text);

}  // namespace plimsoll::readers::oom_message

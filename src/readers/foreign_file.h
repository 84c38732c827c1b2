// Describes files that users pass to Plimsoll by mistake, or because another memory tool wrote
// them: what they are, and which command reads them.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace plimsoll::readers {

// Returns one or two sentences about a file that no reader accepts, from its first bytes; empty if
// unknown.
std::string foreign_file(std::span<const std::byte> head);

}  // namespace plimsoll::readers

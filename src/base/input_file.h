// Opens files that are read from beginning to end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

namespace plimsoll::base {

struct CloseInput {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using InputFile = std::unique_ptr<std::FILE, CloseInput>;

// Returns null and sets errno if the file cannot be opened. Reading waits for pipes, but never for
// a kernel file whose content is yet to come, such as /proc/kmsg: it then fails with EAGAIN.
InputFile open_input(const std::string& path);

// What is left of the file, or more than `most_bytes` of it. Returns nullopt and sets errno if
// reading fails.
std::optional<std::string> read_rest(std::FILE* file, std::size_t most_bytes = SIZE_MAX);

}  // namespace plimsoll::base

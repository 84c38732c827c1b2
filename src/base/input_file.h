// Files that are read from the beginning to the end.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

namespace plimsoll::base {

struct CloseInput {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using InputFile = std::unique_ptr<std::FILE, CloseInput>;

// Null with errno if it cannot be opened. Reading never waits for a kernel file with content yet to
// come, such as /proc/kmsg: it fails with EAGAIN. Pipes are waited for.
InputFile open_input(const std::string& path);

}  // namespace plimsoll::base

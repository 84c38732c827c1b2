#include "engine/trace_file.h"

#include <array>
#include <cstddef>
#include <cstdio>

#include "base/input_file.h"
#include "format/block.h"

namespace plimsoll::engine {

bool is_trace_file(const std::string& path) {
  std::array<std::byte, format::kMagic.size()> head{};
  const base::InputFile file = base::open_input(path);
  return file != nullptr && std::fread(head.data(), 1, head.size(), file.get()) == head.size() &&
         format::has_magic(head);
}

}  // namespace plimsoll::engine

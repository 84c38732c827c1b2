#include "engine/trace_file.h"

#include <array>
#include <cstddef>
#include <fstream>

#include "format/block.h"

namespace plimsoll::engine {

bool is_trace_file(const std::string& path) {
  std::array<std::byte, format::kMagic.size()> head{};
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(head.data()), static_cast<std::streamsize>(head.size()));
  return file.gcount() == static_cast<std::streamsize>(head.size()) && format::has_magic(head);
}

}  // namespace plimsoll::engine

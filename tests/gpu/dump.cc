// Prints the records of a trace file as text (src/format/dump.h) without the engine: needs only g++
// and src/format. Usage: dump FILE
#include "format/dump.h"

#include <cstddef>
#include <cstdio>
#include <span>
#include <string_view>
#include <vector>

int main(int count, char** words) {
  std::FILE* const file = count == 2 ? std::fopen(words[1], "rb") : nullptr;
  if (file == nullptr) return std::fputs("usage: dump FILE\n", stderr), 2;
  plimsoll::format::Dump dump(
      [](std::string_view lines) { std::fwrite(lines.data(), 1, lines.size(), stdout); });
  std::vector<std::byte> piece(1 << 18);
  bool is_readable = true;
  while (is_readable) {
    const std::size_t size = std::fread(piece.data(), 1, piece.size(), file);
    if (size == 0) break;
    is_readable = dump.push(std::span(piece).first(size));
  }
  std::fclose(file);
  if (is_readable && dump.finish()) return 0;
  return std::fprintf(stderr, "%s\n", dump.error().c_str()), 1;
}

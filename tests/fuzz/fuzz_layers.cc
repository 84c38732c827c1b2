// Decodes the encodings around a file: gzip, and base64 in a page. Reads to the end in pieces of
// odd sizes. The output is limited, because a few bytes of gzip may expand to gigabytes.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "accepted.h"
#include "readers/byte_source.h"
#include "readers/torch_snapshot/html_source.h"

namespace {

using namespace plimsoll;

// The number of bytes; nullopt after an error.
std::size_t drain(readers::ByteSource& source) {
  std::array<std::byte, 257> piece{};
  std::size_t total = 0;
  while (total < (std::size_t{1} << 22)) {
    const auto got = source.read(piece);
    if (!got.ok()) return 0;
    if (*got == 0) break;
    total += *got;
  }
  return total;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto gzip = readers::gunzip(readers::view_memory(bytes, 13));
  if (drain(*gzip) > 0) plimsoll::fuzz::accept();
  const auto page = readers::view_memory(bytes, 7);
  const auto pickle = readers::torch_snapshot::unpack_html(*page);
  if (drain(*pickle) > 0) plimsoll::fuzz::accept();
  return 0;
}

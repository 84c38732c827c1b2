// The layers that bytes may be wrapped in: gzip, and base64 in a page. Read to the end in pieces of
// odd sizes; what comes out is bounded here, since a few bytes of gzip may stand for gigabytes.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "readers/byte_source.h"
#include "readers/torch_snapshot/html_source.h"

namespace {

using namespace plimsoll;

void drain(readers::ByteSource& source) {
  std::array<std::byte, 257> piece{};
  for (std::size_t total = 0; total < (std::size_t{1} << 22);) {
    const auto got = source.read(piece);
    if (!got.ok() || *got == 0) return;
    total += *got;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto gzip = readers::gunzip(readers::view_memory(bytes, 13));
  drain(*gzip);
  const auto page = readers::view_memory(bytes, 7);
  const auto pickle = readers::torch_snapshot::unpack_html(*page);
  drain(*pickle);
  return 0;
}

#include "readers/plain_source.h"

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace plimsoll::readers {

Result<std::unique_ptr<ByteSource>> open_plain(const std::string& path) {
  constexpr std::size_t kGzipMagicBytes = 2;
  PLIMSOLL_TRY_ASSIGN(std::unique_ptr<ByteSource> source, open_file(path));
  std::vector<std::byte> head(kGzipMagicBytes);
  std::size_t size = 0;
  while (size < head.size()) {
    PLIMSOLL_TRY_ASSIGN(const std::size_t got, source->read(std::span(head).subspan(size)));
    if (got == 0) break;
    size += got;
  }
  head.resize(size);
  const bool is_gzip = head == std::vector{std::byte{0x1f}, std::byte{0x8b}};
  source = prepend(std::move(head), std::move(source));
  return is_gzip ? gunzip(std::move(source)) : std::move(source);
}

}  // namespace plimsoll::readers

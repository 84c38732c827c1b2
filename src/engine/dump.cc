#include "engine/dump.h"

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "format/dump.h"
#include "readers/byte_source.h"

namespace plimsoll::engine {
namespace {

using readers::ByteSource;

constexpr std::size_t kPieceBytes = 1 << 18;
constexpr std::size_t kGzipMagicBytes = 2;

Result<std::unique_ptr<ByteSource>> open_plain(const std::string& path) {
  PLIMSOLL_TRY_ASSIGN(std::unique_ptr<ByteSource> source, readers::open_file(path));
  std::vector<std::byte> head(kGzipMagicBytes);
  std::size_t size = 0;
  while (size < head.size()) {
    PLIMSOLL_TRY_ASSIGN(const std::size_t got, source->read(std::span(head).subspan(size)));
    if (got == 0) break;
    size += got;
  }
  head.resize(size);
  const bool is_gzip = head == std::vector{std::byte{0x1f}, std::byte{0x8b}};
  source = readers::prepend(std::move(head), std::move(source));
  return is_gzip ? readers::gunzip(std::move(source)) : std::move(source);
}

}  // namespace

Status dump(const std::string& path, const std::function<bool(std::string_view)>& write) {
  PLIMSOLL_TRY_ASSIGN(const std::unique_ptr<ByteSource> source, open_plain(path));
  bool is_taken = true;
  format::Dump dump([&](std::string_view lines) { is_taken = is_taken && write(lines); });
  std::vector<std::byte> piece(kPieceBytes);
  bool is_readable = true;
  while (is_taken && is_readable) {
    auto got = source->read(piece);
    if (!got) {
      static_cast<void>(dump.finish());
      return make_error(got.error().code, path + ": " + got.error().message);
    }
    if (*got == 0) break;
    is_readable = dump.push(std::span(piece).first(*got));
  }
  if (is_taken && is_readable) is_readable = dump.finish();
  if (!is_readable) return make_error(ErrorCode::kUnsupported, path + ": " + dump.error());
  return {};
}

}  // namespace plimsoll::engine

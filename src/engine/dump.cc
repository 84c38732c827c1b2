#include "engine/dump.h"

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "format/dump.h"
#include "readers/plain_source.h"

namespace plimsoll::engine {
namespace {

constexpr std::size_t kDumpPieceBytes = 1 << 18;

}  // namespace

Status dump(const std::string& path, const std::function<bool(std::string_view)>& write) {
  PLIMSOLL_TRY_ASSIGN(const std::unique_ptr<readers::ByteSource> source, readers::open_plain(path));
  bool is_taken = true;
  format::Dump dump([&](std::string_view lines) { is_taken = is_taken && write(lines); });
  std::vector<std::byte> piece(kDumpPieceBytes);
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

#include "engine/open_layers.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comparison/digest_file.h"
#include "engine/catalog.h"
#include "readers/foreign_file.h"

namespace plimsoll::engine {
namespace {

using readers::ByteSource;
using readers::Confidence;
using readers::Reader;

constexpr std::size_t kHeadBytes = 1 << 16;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// Reads until `head` is full or the source ends.
Result<std::vector<std::byte>> read_head(ByteSource& source) {
  std::vector<std::byte> head(kHeadBytes);
  std::size_t size = 0;
  while (size < head.size()) {
    auto got = source.read(std::span(head).subspan(size));
    if (!got) return std::move(got).error();
    if (*got == 0) break;
    size += *got;
  }
  head.resize(size);
  return head;
}

bool is_gzip(std::span<const std::byte> head) {
  return head.size() >= 2 && head[0] == std::byte{0x1f} && head[1] == std::byte{0x8b};
}

const Reader* pick_reader(std::span<const std::byte> head) {
  const Reader* best = nullptr;
  Confidence confidence = Confidence::kNo;
  for (const auto& reader : catalog().readers) {
    const Confidence this_one = reader->sniff(head);
    if (this_one > confidence) {
      best = reader.get();
      confidence = this_one;
    }
  }
  return best;
}

Error unknown_format(std::span<const std::byte> head) {
  const std::string what = readers::foreign_file(head);
  return make_error(ErrorCode::kUnsupported,
                    (what.empty() ? "unknown file format" : what) +
                        ". Plimsoll reads its own recordings, PyTorch memory snapshots (.pickle, "
                        ".html), torch.profiler traces (.json), also compressed with gzip, and "
                        "text with an out-of-memory message");
}

// A file may make the reader use memory in proportion to its size (much more if it is compressed),
// but never more than most of the machine's memory.
std::uint64_t memory_limit(const Reader& reader, std::uint64_t file_bytes, bool is_compressed) {
  const auto pages = static_cast<std::uint64_t>(std::max(0L, ::sysconf(_SC_PHYS_PAGES)));
  const auto page_bytes = static_cast<std::uint64_t>(std::max(0L, ::sysconf(_SC_PAGESIZE)));
  const std::uint64_t wanted =
      512 * kMiB + file_bytes * (is_compressed ? 64 : reader.memory_factor());
  const std::uint64_t machine = pages * page_bytes / 10 * 8;
  return machine == 0 ? wanted : std::min(wanted, machine);
}

}  // namespace

Result<Opened> open_layers(std::unique_ptr<ByteSource> source) {
  const std::uint64_t bytes = source->size_hint();
  PLIMSOLL_TRY_ASSIGN(std::vector<std::byte> head, read_head(*source));
  if (head.empty()) return make_error(ErrorCode::kCorrupt, "the file is empty");
  const bool is_compressed = is_gzip(head);
  if (is_compressed) {
    source = readers::gunzip(readers::prepend(std::move(head), std::move(source)));
    PLIMSOLL_TRY_ASSIGN(head, read_head(*source));
    if (head.empty()) return make_error(ErrorCode::kCorrupt, "the gzip file is empty");
  }
  if (comparison::is_digest({reinterpret_cast<const char*>(head.data()), head.size()})) {
    return make_error(
        ErrorCode::kUnsupported,
        "this is a digest: only plimsoll diff, check and report --against read it, and "
        "only from a file");
  }
  const Reader* const reader = pick_reader(head);
  if (reader == nullptr) return unknown_format(head);
  source = readers::prepend(std::move(head), std::move(source));
  return Opened{std::move(source), reader, memory_limit(*reader, bytes, is_compressed)};
}

}  // namespace plimsoll::engine

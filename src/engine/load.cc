#include "engine/load.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "engine/catalog.h"
#include "model/trace_builder.h"

namespace plimsoll::engine {
namespace {

using readers::ByteSource;
using readers::Confidence;
using readers::Reader;

constexpr std::size_t kHeadBytes = 1 << 16;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

Error about(const std::string& path, Error error) {
  error.message = path + ": " + error.message;
  return error;
}

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
  std::string bytes;
  for (std::byte byte : head.first(std::min<std::size_t>(head.size(), 8))) {
    std::array<char, 8> text{};
    std::snprintf(text.data(), text.size(), " %02x", static_cast<unsigned>(byte));
    bytes += text.data();
  }
  return make_error(
      ErrorCode::kUnsupported,
      "no reader knows this file (it begins with" + bytes +
          "). Plimsoll reads its own recordings, PyTorch memory snapshots (.pickle, .html) and "
          "torch.profiler traces (.json), also compressed with gzip");
}

// A file may make us spend memory in proportion to itself (much more if it is compressed), never
// more than most of what the machine has.
std::uint64_t memory_limit(const Reader& reader, std::uint64_t file_bytes, bool is_compressed) {
  const auto pages = static_cast<std::uint64_t>(std::max(0L, ::sysconf(_SC_PHYS_PAGES)));
  const auto page_bytes = static_cast<std::uint64_t>(std::max(0L, ::sysconf(_SC_PAGESIZE)));
  const std::uint64_t wanted =
      512 * kMiB + file_bytes * (is_compressed ? 64 : reader.memory_factor());
  const std::uint64_t machine = pages * page_bytes / 10 * 8;
  return machine == 0 ? wanted : std::min(wanted, machine);
}

Result<Loaded> load_unchecked(std::unique_ptr<ByteSource> source, const std::string& path,
                              base::Progress& progress) {
  Loaded loaded;
  loaded.file_bytes = source->size_hint();
  PLIMSOLL_TRY_ASSIGN(std::vector<std::byte> head, read_head(*source));
  if (head.empty()) return about(path, make_error(ErrorCode::kCorrupt, "the file is empty"));
  const bool is_compressed = is_gzip(head);
  if (is_compressed) {
    source = readers::gunzip(readers::prepend(std::move(head), std::move(source)));
    auto inner = read_head(*source);
    if (!inner) return about(path, std::move(inner).error());
    head = std::move(*inner);
    if (head.empty())
      return about(path, make_error(ErrorCode::kCorrupt, "the gzip file holds nothing"));
  }
  const Reader* reader = pick_reader(head);
  if (reader == nullptr) return about(path, unknown_format(head));

  source = readers::prepend(std::move(head), std::move(source));
  model::TraceBuilder builder(loaded.diagnostics);
  readers::ReadContext context{
      builder, loaded.diagnostics, progress,
      readers::Limits{memory_limit(*reader, loaded.file_bytes, is_compressed)}};
  if (Status status = reader->read(*source, context); !status) {
    return about(path, std::move(status).error());
  }
  auto trace = builder.finish(reader->name(), progress);
  if (!trace) return about(path, std::move(trace).error());
  loaded.trace = std::move(*trace);
  return loaded;
}

Result<Loaded> load_source(Result<std::unique_ptr<ByteSource>> source, const std::string& path,
                           base::Progress& progress) {
  if (!source) return std::move(source).error();
  try {
    return load_unchecked(std::move(*source), path, progress);
  } catch (const std::bad_alloc&) {
    return make_error(ErrorCode::kLimit, path + ": the machine has not enough memory to read it");
  }
}

}  // namespace

Result<Loaded> load(const std::string& path, base::Progress& progress) {
  return load_source(readers::open_file(path), path, progress);
}

Result<Loaded> load(std::span<const std::byte> bytes, const std::string& name,
                    base::Progress& progress) {
  return load_source(readers::view_memory(bytes), name, progress);
}

}  // namespace plimsoll::engine

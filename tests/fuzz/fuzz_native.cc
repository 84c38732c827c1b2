// Feeds bytes to the reader of Plimsoll's own trace files. The first byte sets the size of the
// pieces and the form of the rest: a file, or payloads (a kind, two bytes of length, and that many
// bytes) that are put into blocks with valid checksums, which a fuzzer would never find.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "accepted.h"
#include "base/check.h"
#include "format/block.h"
#include "format/dump.h"
#include "format/wire.h"
#include "readers/native/native_reader.h"

namespace {

using Bytes = std::vector<std::byte>;

Bytes in_blocks(std::span<const std::byte> payloads) {
  using namespace plimsoll::format;
  Bytes file(kPreludeBytes);
  write_prelude(file.data(), {});
  while (payloads.size() >= 3) {
    BlockHead head;
    head.kind = static_cast<BlockKind>(payloads[0]);
    const auto wanted = std::size_t{load<std::uint16_t>(payloads.data() + 1)};
    payloads = payloads.subspan(3);
    const auto payload = payloads.first(std::min(wanted, payloads.size()));
    payloads = payloads.subspan(payload.size());
    head.payload_bytes = static_cast<std::uint32_t>(payload.size());
    Bytes block(kBlockHeadBytes);
    block.insert(block.end(), payload.begin(), payload.end());
    write_block_head(block.data(), head);
    file.insert(file.end(), block.begin(), block.end());
  }
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plimsoll;
  if (size == 0) return 0;
  const std::span<const std::byte> given(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  constexpr unsigned kInBlocks = 0x80;
  const bool is_in_blocks = (data[0] & kInBlocks) != 0;
  const Bytes bytes = is_in_blocks ? in_blocks(given) : Bytes(given.begin(), given.end());
  const unsigned pieces = data[0] & ~kInBlocks;
  const std::size_t piece = pieces < 64 ? pieces + 1u : SIZE_MAX;

  format::Dump dump([](std::string_view) {});
  if (dump.push(bytes)) static_cast<void>(dump.finish());

  const auto reader = readers::native::make();
  static_cast<void>(reader->sniff(std::span(bytes).first(std::min<std::size_t>(bytes.size(), 64))));
  base::Diagnostics diagnostics;
  base::Progress progress;
  model::TraceBuilder builder(diagnostics);
  readers::SideData side_data;
  readers::ReadContext context{builder, diagnostics, progress,
                               readers::Limits{.memory_bytes = 64 << 20}, &side_data};
  const auto source = readers::view_memory(bytes, piece);
  if (!reader->read(*source, context).ok()) return 0;
  std::size_t attached_bytes = 0;
  for (const readers::Attachment& each : side_data.attachments) attached_bytes += each.bytes.size();
  PLIMSOLL_CHECK(attached_bytes <= bytes.size());
  const auto trace = builder.finish(reader->name(), progress);
  PLIMSOLL_CHECK(trace.ok());
  std::size_t lifetimes = 0, allocs = 0;
  for (const auto& device : trace->devices) {
    lifetimes += device.lifetimes.size() - device.lifetimes.baseline_count;
    for (const model::Action action : device.events.action) {
      allocs += action == model::Action::kAlloc ? 1u : 0u;
    }
    for (const model::SiteId site : device.events.site) {
      PLIMSOLL_CHECK(site.index() < trace->sites.size());
    }
  }
  PLIMSOLL_CHECK(lifetimes == allocs);
  const bool is_whole = std::ranges::none_of(diagnostics.all(), [](const base::Diagnostic& each) {
    const std::string_view name = each.kind->name;
    return name == "corrupt_block" || name == "file_cut" || name == "undefined";
  });
  if (allocs > 0 && is_whole) fuzz::accept();
  return 0;
}

#include "record/output/kept_blocks.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "format/block.h"
#include "format/definition_decoder.h"

namespace plimsoll::record {
namespace {

void append(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

// Collects the blocks of the base.
class Collector final : public format::BlockOutput {
 public:
  void write(const format::FinishedBlock& block) noexcept override try {
    append(bytes, block.bytes);
  } catch (...) {
    is_complete = false;
  }

  std::vector<std::byte> bytes;
  bool is_complete = true;
};

}  // namespace

struct KeptBlocks::Fold : format::NoEvents {
  explicit Fold(KeptBlocks& kept) : kept_(kept) {}

  void on_alloc(const format::Alloc& alloc) {
    ++kept_.evicted_events_;
    note(alloc.time_ns);
    BaseRow row;
    row.alloc = alloc;
    row.is_used = true;
    kept_.base_.insert(row);
  }
  void on_free(const format::Free& free) {
    if (free.serial != format::kNoSerial) ++kept_.evicted_events_;
    note(free.time_ns);
    if (const BaseRow* row = find(free.serial)) kept_.base_.erase(row);
  }
  void on_free_requested(const format::FreeRequested& free) {
    ++kept_.evicted_events_;
    BaseRow* row = find(free.serial);
    if (row == nullptr) return;
    row->requested = free;
    row->is_pending = true;
  }
  void on_segment(const format::Segment& segment) {
    ++kept_.evicted_events_;
    kept_.base_segments_.apply(segment);
  }
  void on_out_of_memory(const format::OutOfMemory&) { ++kept_.evicted_events_; }
  void on_mark(const format::Mark& mark) { note(mark.time_ns); }
  void on_tag(const format::Tag& tag) {
    if (BaseRow* row = find(tag.serial)) row->tensor = tag.tensor;
  }
  void on_set_phase(const format::SetPhase& set_phase) {
    BaseRow* row = find(set_phase.serial);
    if (row == nullptr) return;
    row->phase = set_phase.phase;
    row->has_phase = true;
  }
  void on_dropped(const format::Dropped& dropped) {
    const std::uint64_t before = kept_.dropped_.count;
    kept_.dropped_ = dropped;
    kept_.dropped_.count += before;
  }

 private:
  void note(std::int64_t time_ns) {
    kept_.evicted_until_ns_ = std::max(kept_.evicted_until_ns_, time_ns);
  }
  BaseRow* find(std::uint64_t serial) { return kept_.base_.find(serial); }
  KeptBlocks& kept_;
};

void KeptBlocks::add(const format::FinishedBlock& block) {
  switch (block.kind) {
    case format::BlockKind::kDefinitions:
      append(definitions_, block.bytes);
      return;
    case format::BlockKind::kEnd:
      append(end_, block.bytes);
      return;
    case format::BlockKind::kAttachment:
      return add_attachment(block.bytes);
    case format::BlockKind::kFileState:
      return;
    case format::BlockKind::kEvents:
      break;
  }
  blocks_.push_back({{block.bytes.begin(), block.bytes.end()}, block.events});
  events_ += block.events;
  while (max_events_ != 0 && events_ - blocks_.front().events >= max_events_) evict_front();
}

// If several attachments share a name, the last one counts: earlier ones are dropped.
void KeptBlocks::add_attachment(std::span<const std::byte> block) {
  const auto piece = format::read_attachment(block.subspan(format::kBlockHeadBytes));
  if (!piece) return;
  std::vector<std::byte>& bytes = attachments_[std::string(piece->name)];
  if (piece->offset == 0) {
    has_replaced_attachment_ = has_replaced_attachment_ || !bytes.empty();
    bytes.clear();
  }
  append(bytes, block);
}

void KeptBlocks::evict_front() {
  const Block& block = blocks_.front();
  Fold fold(*this);
  decoder_.decode(std::span(block.bytes).subspan(format::kBlockHeadBytes), fold);
  events_ -= block.events;
  evicted_ += block.events;
  blocks_.pop_front();
}

// A state in the base at one point in time: exactly one pointer is set.
struct KeptBlocks::TimePoint {
  std::int64_t time_ns = 0;
  const format::Segment* segment = nullptr;
  const BaseRow* born = nullptr;
  const BaseRow* given_back = nullptr;
};

// The states in order of time; allocations are then also in order of serial.
std::vector<KeptBlocks::TimePoint> KeptBlocks::points(std::span<const BaseRow> rows) const {
  std::vector<TimePoint> all;
  base_segments_.for_each([&](const format::Segment& segment) {
    all.push_back({.time_ns = segment.time_ns, .segment = &segment});
  });
  std::int64_t born_ns = INT64_MIN;
  for (const BaseRow& row : rows) {
    born_ns = std::max(born_ns, row.alloc.time_ns);
    all.push_back({.time_ns = born_ns, .born = &row});
    if (!row.is_pending) continue;
    all.push_back({.time_ns = std::max(born_ns, row.requested.time_ns), .given_back = &row});
  }
  std::ranges::stable_sort(all, {}, &TimePoint::time_ns);
  return all;
}

void KeptBlocks::encode_base(format::Encoder& encoder) const {
  std::vector<BaseRow> rows;
  rows.reserve(base_.size());
  base_.for_each([&](const BaseRow& row) { rows.push_back(row); });
  std::sort(rows.begin(), rows.end(),
            [](const BaseRow& a, const BaseRow& b) { return a.key() < b.key(); });
  encoder.evicted({evicted_events_});
  if (dropped_.count > 0) encoder.dropped(dropped_);
  for (const TimePoint& point : points(rows)) {
    if (point.segment != nullptr) encoder.segment(*point.segment);
    if (point.given_back != nullptr) encoder.free_requested(point.given_back->requested);
    if (point.born == nullptr) continue;
    const BaseRow& row = *point.born;
    encoder.alloc(row.alloc);
    if (row.tensor != 0) encoder.tag({row.alloc.serial, row.tensor});
    if (row.has_phase) encoder.set_phase({row.alloc.serial, row.phase});
  }
  encoder.flush();
}

std::byte* KeptBlocks::assemble(const format::FileState& state, std::size_t& size_bytes) const {
  Collector base;
  if (evicted_ > 0) {
    format::Encoder encoder(base);
    encode_base(encoder);
    if (!base.is_complete || encoder.lost() > 0) return nullptr;
  }
  std::array<std::byte, format::kPreludeBytes> prelude;
  format::Encoder::prelude(prelude.data());
  const auto state_block = format::encode_file_state(state);

  size_bytes =
      prelude.size() + state_block.size() + definitions_.size() + base.bytes.size() + end_.size();
  for (const Block& block : blocks_) size_bytes += block.bytes.size();
  for (const auto& [name, bytes] : attachments_) size_bytes += bytes.size();
  auto* const whole = static_cast<std::byte*>(std::malloc(size_bytes));
  if (whole == nullptr) return nullptr;
  std::byte* at = whole;
  const auto put = [&at](std::span<const std::byte> bytes) {
    if (!bytes.empty()) std::memcpy(at, bytes.data(), bytes.size());
    at += bytes.size();
  };
  put(prelude);
  put(state_block);
  put(definitions_);
  put(base.bytes);
  for (const Block& block : blocks_) put(block.bytes);
  for (const auto& [name, bytes] : attachments_) put(bytes);
  put(end_);
  return whole;
}

}  // namespace plimsoll::record

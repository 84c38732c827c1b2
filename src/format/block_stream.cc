#include "format/block_stream.h"

#include <algorithm>

#include "format/checksum.h"

namespace plimsoll::format {
namespace {

bool is_known(BlockKind kind) {
  switch (kind) {
#define PLIMSOLL_BLOCK(name, number, word) case BlockKind::name:
#include "format/records.def"
    return true;
  }
  return false;
}

}  // namespace

void BlockStream::push(std::span<const std::byte> piece) { piece_ = piece; }

std::span<const std::byte> BlockStream::at_hand() const {
  return kept_.empty() ? piece_ : std::span(kept_).subspan(kept_done_);
}

bool BlockStream::want(std::size_t bytes) {
  if (at_hand().size() >= bytes) return true;
  kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(kept_done_));
  kept_done_ = 0;
  const auto taken = piece_.first(std::min(piece_.size(), bytes - kept_.size()));
  kept_.insert(kept_.end(), taken.begin(), taken.end());
  piece_ = piece_.subspan(taken.size());
  return kept_.size() >= bytes;
}

void BlockStream::skip(std::size_t bytes) {
  offset_ += bytes;
  if (kept_.empty()) {
    piece_ = piece_.subspan(bytes);
    return;
  }
  kept_done_ += bytes;
  if (kept_done_ < kept_.size()) return;
  kept_.clear();
  kept_done_ = 0;
}

bool BlockStream::take_prelude() {
  if (!want(kPreludeBytes)) {
    const auto head = at_hand();
    const bool may_be_ours = head.size() < kMagic.size() ? !is_finished_ : has_magic(head);
    if (!may_be_ours) {
      kind_ = Kind::kNoTrace;
    } else if (is_finished_) {
      kind_ = Kind::kTrace;
      cut_off(0);
    }
    return false;
  }
  const auto prelude = read_prelude(at_hand().data());
  if (prelude) {
    prelude_ = *prelude;
    kind_ = prelude->oldest_readable > kVersion ? Kind::kTooNew : Kind::kTrace;
  } else {
    damage_.is_prelude_damaged = has_magic(at_hand());
    kind_ = damage_.is_prelude_damaged ? Kind::kTrace : Kind::kNoTrace;
  }
  skip(kPreludeBytes);
  return kind_ == Kind::kTrace;
}

// Counts the damage when the file ends inside a block, or inside data where a block should be.
void BlockStream::cut_off(std::uint32_t events) {
  if (!is_lost_) {
    damage_.cut_bytes = at_hand().size();
    damage_.cut_events = events;
  }
  skip(at_hand().size());
}

// Finds the next valid head, however far ahead; returns nothing if more bytes are needed.
std::optional<BlockHead> BlockStream::take_head() {
  while (want(kBlockHeadBytes)) {
    if (auto head = read_block_head(at_hand().data())) {
      is_lost_ = false;
      return head;
    }
    if (!is_lost_) damage_.add(offset_, 0);
    is_lost_ = true;
    const auto bytes = at_hand();
    const auto next =
        std::find(bytes.begin() + 1, bytes.end(), static_cast<std::byte>(kMarker.front()));
    skip(static_cast<std::size_t>(next - bytes.begin()));
  }
  if (is_finished_ && !at_hand().empty()) cut_off(0);
  return {};
}

std::optional<Block> BlockStream::next() {
  skip(returned_bytes_);
  returned_bytes_ = 0;
  if (kind_ == Kind::kUnknown) static_cast<void>(take_prelude());
  if (kind_ != Kind::kTrace) {
    if (kind_ != Kind::kUnknown) piece_ = {};
    return {};
  }
  while (const auto head = take_head()) {
    const std::size_t bytes = kBlockHeadBytes + head->payload_bytes;
    if (!want(bytes)) {
      if (is_finished_) cut_off(head->events);
      return {};
    }
    const auto payload = at_hand().subspan(kBlockHeadBytes, head->payload_bytes);
    if (checksum(payload) != head->payload_checksum) {
      damage_.add(offset_, head->events);
    } else if (is_known(head->kind)) {
      returned_bytes_ = bytes;
      return Block{*head, offset_, payload};
    } else {
      ++damage_.unknown_kinds;
    }
    skip(bytes);
  }
  return {};
}

}  // namespace plimsoll::format

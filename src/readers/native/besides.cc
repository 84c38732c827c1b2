#include "readers/native/besides.h"

#include <algorithm>
#include <utility>

#include "plimsoll/recorder_c.h"
#include "readers/native/definitions.h"
#include "readers/native/diagnostics.h"

namespace plimsoll::readers::native {

void Besides::on_piece(const format::AttachmentPiece& piece) {
  if (beside_ == nullptr) return;
  const bool continues =
      open_ && open_->id == piece.id && open_->total_bytes == piece.total_bytes &&
      open_->attachment.format == piece.name && open_->attachment.bytes.size() == piece.offset;
  if (!continues) {
    if (open_) {
      cut();
    } else if (piece.offset != 0) {
      diagnostics_.add(kAttachmentCut, 1, piece.name);
    }
    if (piece.offset != 0) return;
    open_.emplace(Open{piece.id, piece.total_bytes, {std::string(piece.name), {}}});
  }
  attached_bytes_ += piece.bytes.size();
  std::vector<std::byte>& bytes = open_->attachment.bytes;
  bytes.insert(bytes.end(), piece.bytes.begin(), piece.bytes.end());
  if (bytes.size() == open_->total_bytes) close();
}

void Besides::close() {
  const auto before =
      std::ranges::find(beside_->attachments, open_->attachment.format, &Attachment::format);
  if (before == beside_->attachments.end() && beside_->attachments.size() == kMostFormats) {
    return cut();
  }
  if (before == beside_->attachments.end()) {
    beside_->attachments.push_back(std::move(open_->attachment));
  } else {
    attached_bytes_ -= before->bytes.size();
    before->bytes = std::move(open_->attachment.bytes);
  }
  open_.reset();
}

void Besides::cut() {
  diagnostics_.add(kAttachmentCut, 1, open_->attachment.format);
  attached_bytes_ -= open_->attachment.bytes.size();
  open_.reset();
}

void Besides::finish() {
  if (open_) cut();
}

void Besides::on_doing(const format::Mark& mark, model::StringId name) {
  if (beside_ == nullptr) return;
  Doing& doing = threads_[mark.thread];
  doing.thread = mark.thread;
  doing.time_ns = mark.time_ns;
  if (mark.kind == PLIMSOLL_MARK_LAYER) doing.layer = name;
  if (mark.kind == PLIMSOLL_MARK_OPERATOR) doing.op = name;
  if (mark.kind == PLIMSOLL_MARK_PHASE) {
    doing.phase = phase_of(static_cast<std::uint8_t>(std::min<std::uint64_t>(mark.value, 255)));
  }
  beside_->doings.push_back(doing);
}

std::uint64_t Besides::memory_bytes() const {
  if (beside_ == nullptr) return 0;
  return attached_bytes_ + beside_->doings.memory_bytes() + threads_.size() * kThreadBytes;
}

}  // namespace plimsoll::readers::native

#include "readers/native/side_records.h"

#include <algorithm>
#include <utility>

#include "plimsoll/recorder_c.h"
#include "readers/native/definitions.h"
#include "readers/native/diagnostics.h"

namespace plimsoll::readers::native {

void SideRecords::on_piece(const format::AttachmentPiece& piece) {
  if (side_data_ == nullptr) return;
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

void SideRecords::close() {
  const auto before =
      std::ranges::find(side_data_->attachments, open_->attachment.format, &Attachment::format);
  if (before == side_data_->attachments.end() && side_data_->attachments.size() == kMostFormats) {
    return cut();
  }
  if (before == side_data_->attachments.end()) {
    side_data_->attachments.push_back(std::move(open_->attachment));
  } else {
    attached_bytes_ -= before->bytes.size();
    before->bytes = std::move(open_->attachment.bytes);
  }
  open_.reset();
}

void SideRecords::cut() {
  diagnostics_.add(kAttachmentCut, 1, open_->attachment.format);
  attached_bytes_ -= open_->attachment.bytes.size();
  open_.reset();
}

void SideRecords::finish() {
  if (open_) cut();
}

void SideRecords::on_activity(const format::Mark& mark, model::StringId name) {
  if (side_data_ == nullptr) return;
  ThreadActivity& activity = threads_[mark.thread];
  activity.thread = mark.thread;
  activity.time_ns = mark.time_ns;
  if (mark.kind == PLIMSOLL_MARK_LAYER) activity.layer = name;
  if (mark.kind == PLIMSOLL_MARK_OPERATOR) activity.op = name;
  if (mark.kind == PLIMSOLL_MARK_PHASE) {
    activity.phase =
        base::phase_of(static_cast<std::uint8_t>(std::min<std::uint64_t>(mark.value, 255)));
  }
  side_data_->activities.push_back(activity);
}

std::uint64_t SideRecords::memory_bytes() const {
  if (side_data_ == nullptr) return 0;
  return attached_bytes_ + side_data_->activities.memory_bytes() + threads_.size() * kThreadBytes;
}

}  // namespace plimsoll::readers::native

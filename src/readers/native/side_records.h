// Reassembles attachments from their pieces, and turns marks of thread activity into rows.
#pragma once

#include <cstdint>
#include <optional>

#include <tsl/robin_map.h>

#include "base/diagnostics.h"
#include "format/records.h"
#include "model/ids.h"
#include "readers/side_data.h"

namespace plimsoll::readers::native {

class SideRecords {
 public:
  // `side_data` is null if the caller does not need it.
  SideRecords(SideData* side_data, base::Diagnostics& diagnostics)
      : side_data_(side_data), diagnostics_(diagnostics) {}

  void on_piece(const format::AttachmentPiece& piece);
  // Call after the last record.
  void finish();

  // One of PLIMSOLL_MARK_LAYER, _OPERATOR and _PHASE; `name` is the name of the mark's id.
  void on_activity(const format::Mark& mark, model::StringId name);

  std::uint64_t memory_bytes() const;

 private:
  struct Open {
    std::uint64_t id = 0;
    std::uint64_t total_bytes = 0;
    Attachment attachment;
  };
  void close();
  void cut();

  static constexpr std::uint64_t kThreadBytes = 96;
  static constexpr std::size_t kMostFormats = 16;

  SideData* side_data_;
  base::Diagnostics& diagnostics_;
  std::optional<Open> open_;
  std::uint64_t attached_bytes_ = 0;
  tsl::robin_map<std::uint32_t, ThreadActivity> threads_;
};

}  // namespace plimsoll::readers::native

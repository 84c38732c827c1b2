// Besides: puts the pieces of attachments together again, and marks of what threads do into rows.
#pragma once

#include <cstdint>
#include <optional>

#include <tsl/robin_map.h>

#include "base/diagnostics.h"
#include "format/records.h"
#include "model/ids.h"
#include "readers/beside.h"

namespace plimsoll::readers::native {

class Besides {
 public:
  // `beside` is null where nobody wants them.
  Besides(Beside* beside, base::Diagnostics& diagnostics)
      : beside_(beside), diagnostics_(diagnostics) {}

  void on_piece(const format::AttachmentPiece& piece);
  // Nothing more will come.
  void finish();

  // One of PLIMSOLL_MARK_LAYER, _OPERATOR and _PHASE; `name` is what a name's id stands for.
  void on_doing(const format::Mark& mark, model::StringId name);

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

  Beside* beside_;
  base::Diagnostics& diagnostics_;
  std::optional<Open> open_;
  std::uint64_t attached_bytes_ = 0;
  tsl::robin_map<std::uint32_t, Doing> threads_;
};

}  // namespace plimsoll::readers::native

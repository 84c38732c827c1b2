// What is live at the peak of a device and no operator uses again (docs/last-use.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/units.h"

namespace plimsoll::report {

// Why a line's memory outlives its last use; each kind has its own next step.
enum class UnusedKind : std::uint8_t {
  kKept,              // for more than two steps
  kGradients,         // between the optimizer's step and the next zero_grad()
  kOutputInBackward,  // made in forward, live while backward runs
  kLocal              // within a step
};
inline const char* to_string(UnusedKind kind) {
  switch (kind) {
    case UnusedKind::kKept:
      return "kept";
    case UnusedKind::kGradients:
      return "gradients";
    case UnusedKind::kOutputInBackward:
      return "output_in_backward";
    case UnusedKind::kLocal:
      return "local";
  }
  return "local";
}

// What a program reads after its recording is unknown: whether most of the bytes that no operator
// uses again are live when the recording ends.
inline bool is_most_at_end(std::uint64_t at_end_bytes, std::uint64_t unused_bytes) {
  return at_end_bytes >= unused_bytes / 2 && at_end_bytes > 0;
}

// What to say if the bytes at the peak that are not known to be used again are too few to matter.
inline std::string all_used_text(std::uint64_t unused_bytes, std::uint64_t unknown_bytes) {
  const std::uint64_t rest = unused_bytes + unknown_bytes;
  const std::string what = rest == 0 ? "every byte" : "all but " + base::bytes_text(rest);
  return what + " at the peak is " + (unknown_bytes > 0 ? "known to be " : "") + "used again.";
}

struct UnusedRow {
  std::string line;
  UnusedKind kind = UnusedKind::kLocal;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::uint64_t certain_bytes = 0;
  bool is_bounded = false;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"line", &UnusedRow::line, "The line that allocated it, as in by_line."},
        Field{"kind", &UnusedRow::kind,
              "kept (for more than two steps), gradients (until the next zero_grad), "
              "output_in_backward (made in forward, live while backward runs) or local (within a "
              "step)."},
        Field{"bytes", &UnusedRow::bytes, "Live bytes at the peak that no operator uses again."},
        Field{"count", &UnusedRow::count, "Number of these allocations."},
        Field{"certain_bytes", &UnusedRow::certain_bytes,
              "Part of bytes: no operator has used it for longer than anything that the line makes "
              "by the same operator goes between two uses."},
        Field{"is_bounded", &UnusedRow::is_bounded,
              "Whether the line fills a buffer of constant length, which frees its oldest entry "
              "first."});
  }
};

struct LastUse {
  std::uint64_t live_bytes = 0;
  std::uint64_t unused_bytes = 0;
  std::uint64_t unknown_bytes = 0;
  std::uint64_t reachable_peak_bytes = 0;
  std::uint64_t certain_saving_bytes = 0;
  std::uint64_t kept_bytes = 0;
  std::uint64_t kept_saving_bytes = 0;
  bool is_sampled = false;
  bool is_all_used = false;
  std::string text = {};
  std::vector<UnusedRow> rows = {};

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"live_bytes", &LastUse::live_bytes, "Live bytes at the peak."},
        Field{"unused_bytes", &LastUse::unused_bytes,
              "Part of live_bytes: no operator uses it again."},
        Field{"unknown_bytes", &LastUse::unknown_bytes,
              "Part of live_bytes: it is unknown whether it is used again. Parameters, buffers, "
              "optimizer state, workspaces, buffers of collectives and memory that waits for a "
              "stream are in neither part."},
        Field{"reachable_peak_bytes", &LastUse::reachable_peak_bytes,
              "The peak if all memory were freed when it was last used. What a running node of "
              "autograd uses ends with the node."},
        Field{"certain_saving_bytes", &LastUse::certain_saving_bytes,
              "How much lower the peak would be if the lines with certain_bytes freed all their "
              "memory at its last use, except for buffers of constant length."},
        Field{"kept_bytes", &LastUse::kept_bytes,
              "Bytes of the rows of kind kept with at least 3 allocations, except for buffers of "
              "constant length."},
        Field{"kept_saving_bytes", &LastUse::kept_saving_bytes,
              "How much lower the peak would be if these lines freed all their memory at its last "
              "use."},
        Field{"is_sampled", &LastUse::is_sampled, "Whether uses were observed only in some steps."},
        Field{"is_all_used", &LastUse::is_all_used,
              "Whether unused_bytes and unknown_bytes are too small to matter."},
        Field{"text", &LastUse::text, "The answer as a sentence."},
        Field{"rows", &LastUse::rows,
              "unused_bytes by line and kind, largest first, without rows below 0.1 % of "
              "live_bytes."});
  }
};

}  // namespace plimsoll::report

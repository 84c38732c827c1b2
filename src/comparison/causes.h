// Explains the rows of a point. Each cause claims rows that no earlier cause has claimed, so the
// causes sum to the same bytes as the rows.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "comparison/alignment.h"
#include "comparison/diff.h"
#include "report/digest.h"

namespace plimsoll::comparison {

// A pair of keys at a point. A missing side counts as 0 bytes.
struct PairAtPoint {
  const report::DigestKey* before_key = nullptr;  // null: only in the second digest
  const report::DigestKey* after_key = nullptr;
  const report::DigestRow* before = nullptr;  // null: nothing live at the point
  const report::DigestRow* after = nullptr;
  std::string layer;  // as ModulePairs names it
  Pairing pairing = Pairing::kUnpaired;
  bool is_within_range = false;  // equal runs differ by as much: no cause

  std::int64_t before_bytes() const { return before == nullptr ? 0 : before->bytes; }
  std::int64_t after_bytes() const { return after == nullptr ? 0 : after->bytes; }
  std::int64_t difference() const { return after_bytes() - before_bytes(); }
  std::uint64_t before_count() const { return before == nullptr ? 0 : before->count; }
  std::uint64_t after_count() const { return after == nullptr ? 0 : after->count; }
  const report::DigestKey& key() const { return after_key != nullptr ? *after_key : *before_key; }
};

struct Explained {
  // Largest first, after one with the sign of the sum; peak_moved is the last.
  std::vector<DiffCause> causes;
  std::vector<std::int64_t> of_row;  // index of the row's cause; -1: everything else
  std::int64_t everything_else_bytes = 0;
};

struct ExplainOptions {
  std::int64_t least_bytes = 1;  // smaller causes are merged into everything_else_bytes
  // The title of peak_moved, if the points are at different moments of a step; else empty. If other
  // causes explain the difference, this cause has the rows that differ only therefore.
  std::string moved = {};
};

Explained explain(const std::vector<PairAtPoint>& rows, const report::Digest& before,
                  const report::Digest& after, const Alignment& alignment, ExplainOptions options);

}  // namespace plimsoll::comparison

// The difference between two digests: for each point in time that both have, the rows that differ
// and the causes that explain them. If only one has a device, the other has 0 bytes there.
//
// Invariant: the causes of a point and its everything_else_bytes sum to after_bytes - before_bytes,
// to the byte. So do its rows, with the difference of the peaks' phases. Exchanging the digests
// negates every row.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "base/finding.h"
#include "report/digest.h"

namespace plimsoll::comparison {

// A key whose bytes differ at a point.
struct DiffRow {
  std::string category;
  std::string layer;
  std::string op;
  std::string function;
  std::string place;
  std::string pairing;
  std::int64_t before_bytes = 0;
  std::int64_t after_bytes = 0;
  std::uint64_t before_count = 0;
  std::uint64_t after_count = 0;
  std::int64_t difference_bytes = 0;
  std::optional<std::uint64_t> cause = {};

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"category", &DiffRow::category, "The category."},
        Field{"layer", &DiffRow::layer, "The layer, its indices replaced by *."},
        Field{"operator", &DiffRow::op, "The outermost operator."},
        Field{"function", &DiffRow::function, "The function of the line."},
        Field{"place", &DiffRow::place, "The line: model.py:69 (Attention.forward)."},
        Field{"pairing", &DiffRow::pairing,
              "same, or what differs between the keys that were paired: text, renamed, function, "
              "moved, phase, operator, owner (the parameters or gradients of a layer, made by "
              "another "
              "line), "
              "dtype, category; unpaired: only one recording has the key."},
        Field{"before_bytes", &DiffRow::before_bytes, "Live bytes in the first recording."},
        Field{"after_bytes", &DiffRow::after_bytes, "Live bytes in the second recording."},
        Field{"before_count", &DiffRow::before_count, "Live allocations in the first recording."},
        Field{"after_count", &DiffRow::after_count, "Live allocations in the second recording."},
        Field{"difference_bytes", &DiffRow::difference_bytes, "after_bytes - before_bytes."},
        Field{"cause", &DiffRow::cause,
              "Index into the causes of the point; null: in everything_else_bytes."});
  }
};

// An explanation of one or more rows.
struct DiffCause {
  std::string id;
  std::string title;
  std::string subject;
  std::string place;
  std::int64_t difference_bytes = 0;
  std::uint64_t rows = 0;
  bool is_assumed = false;
  std::vector<FindingHolder> holders = {};
  std::vector<FindingHolder> holders_before = {};
  // "held by metrics.history now"; empty if the holder is the same, or unknown.
  std::string held = {};
  std::string edit = {};  // ends what the holder holds
  // Without what is computed from it, if that may be computed from another cause.
  std::int64_t own_bytes = 0;
  // Of the row with the largest difference, for the next step.
  std::string category;
  bool is_foreach = false;     // only the later recording updates all parameters together there
  bool is_known_line = false;  // the earlier recording has the line, too

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"id", &DiffCause::id,
              "kept_each_step, graph_kept, module_added, module_removed, scaled, dtype_changed, "
              "size_changed, now_saved, "
              "no_longer_saved, longer_lived, shorter_lived, more_kept, fewer_kept, replaced, new, "
              "removed, grew, shrank or peak_moved."},
        Field{"title", &DiffCause::title, "The cause, without its bytes."},
        Field{"subject", &DiffCause::subject, "The layer, category or function that changed."},
        Field{"place", &DiffCause::place,
              "The line with the largest difference; of size_changed, the line that creates the "
              "parameters; may be empty."},
        Field{"difference_bytes", &DiffCause::difference_bytes, "Bytes that it explains."},
        Field{"rows", &DiffCause::rows, "Number of rows that it explains."},
        Field{"is_assumed", &DiffCause::is_assumed,
              "Whether rows were paired that are only assumed to be the same."},
        Field{"holders", &DiffCause::holders,
              "What holds most of its bytes in the second recording, most bytes first; empty if "
              "no walk of the recorder knows it, and for digests."},
        Field{"holders_before", &DiffCause::holders_before, "The same in the first recording."},
        Field{"held", &DiffCause::held,
              "What changed: held by metrics.history now; was held by cache. Without now if the "
              "first recording did not look for holders. Empty if nothing changed."});
  }
};

// How much of a point no operator uses again.
struct DiffUnused {
  std::int64_t before_bytes = 0;
  std::int64_t after_bytes = 0;
  std::int64_t difference_bytes = 0;
  bool is_sampled = false;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"before_bytes", &DiffUnused::before_bytes, "Bytes in the first recording."},
        Field{"after_bytes", &DiffUnused::after_bytes, "Bytes in the second recording."},
        Field{"difference_bytes", &DiffUnused::difference_bytes, "after_bytes - before_bytes."},
        Field{"is_sampled", &DiffUnused::is_sampled,
              "Whether a recording has uses of only some steps, so its bytes may be too low."});
  }
};

struct DiffPoint {
  std::string device;
  std::string name;
  std::int64_t before_bytes = 0;
  std::int64_t after_bytes = 0;
  std::int64_t difference_bytes = 0;
  std::optional<DiffUnused> unused;
  std::string compared_with;
  std::vector<DiffCause> causes;
  std::int64_t everything_else_bytes = 0;
  std::vector<DiffRow> rows;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"device", &DiffPoint::device, "The device."},
        Field{"name", &DiffPoint::name, "The point, as in a digest: peak, forward, step end, ..."},
        Field{"before_bytes", &DiffPoint::before_bytes, "Live bytes in the first recording."},
        Field{"after_bytes", &DiffPoint::after_bytes, "Live bytes in the second recording."},
        Field{"difference_bytes", &DiffPoint::difference_bytes, "after_bytes - before_bytes."},
        Field{"unused", &DiffPoint::unused,
              "What no operator uses again at the peak; null for other points, and unless both "
              "recordings have uses of memory."},
        Field{"compared_with", &DiffPoint::compared_with,
              "If the peaks are in different phases: the point of the first recording whose rows "
              "are compared, which is the highest of the second peak's phase; the cause peak_moved "
              "is its difference from the first peak. Else empty."},
        Field{"causes", &DiffPoint::causes,
              "The causes, largest first, except that the first has the sign of the difference."},
        Field{"everything_else_bytes", &DiffPoint::everything_else_bytes,
              "Bytes of the differences that are too small for a cause, or by which equal runs "
              "differ."},
        Field{"rows", &DiffPoint::rows, "The keys whose bytes differ, largest difference first."});
  }
};

struct Diff {
  report::DigestSource before;
  report::DigestSource after;
  std::vector<Finding> findings;
  std::vector<std::string> notes;
  std::vector<DiffPoint> points;

  // The largest growth of any point; 0 if none grew.
  std::int64_t growth_bytes() const;
  // Whether part of a recording is missing, so that totals and growth may be wrong.
  bool is_incomplete() const { return before.incomplete || after.incomplete; }

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"before", &Diff::before, "The first recording."},
        Field{"after", &Diff::after, "The second recording."},
        Field{"findings", &Diff::findings,
              "recording_incomplete if part of a recording is missing; then what grew or shrank, "
              "and why, the peak first."},
        Field{"notes", &Diff::notes, "What makes the recordings hard to compare."},
        Field{
            "points", &Diff::points,
            "The points in time that both have. If only one recording has a device, the other has "
            "0 bytes there."});
  }
};

struct DiffOptions {
  std::string at = {};             // only this point: "peak", "step end"; empty: all
  std::size_t most_evidence = 10;  // causes listed in a finding
  double negligible = 0.001;       // smaller shares of a point's bytes are "everything else"
  // Whether a device that one recording lacks has 0 bytes there. Not if the devices were paired: a
  // run on a GPU also allocates on the host, whose memory has no counterpart in a run on the CPU.
  bool compares_devices_of_one = true;
};

Diff compare(const report::Digest& before, const report::Digest& after,
             const DiffOptions& options = {});

// The id of the finding about an incomplete recording.
inline constexpr const char* kRecordingIncomplete = "recording_incomplete";

// Returns the finding about a point, with at most `most_evidence` of its causes.
Finding finding_of(const DiffPoint& point, std::size_t most_evidence);
// "No operator uses 80.0 MiB of the peak again, 68.0 MiB more than before."; empty if this is
// unknown or unchanged.
std::string unused_text(const DiffPoint& point);
// "size of Net.mlp: [512, 128] → [768, 128], at train.py:33 (Mlp.forward)". The holder, if it is
// another one, is part of it.
std::string cause_text(const DiffCause& cause);

}  // namespace plimsoll::comparison

// A digest: what was live at a few points of a recording, by keys that survive edits of the
// program. It is small enough to be kept in a repository, and two digests can be compared without
// their recordings (src/comparison/diff.h).
//
// Invariant: the rows of a point sum to its bytes, to the byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "plimsoll/finding.h"
#include "plimsoll/version.h"

namespace plimsoll::report {

inline constexpr const char* kDigestVersion = "1.4";

// The hash of a line whose text is omitted: "#90ab…", 16 digits.
inline constexpr char kHashMark = '#';
inline constexpr std::size_t kHashTextSize = 17;

struct DigestSource {
  std::string path;
  std::string format;
  std::optional<std::int64_t> rank = {};
  std::string command = {};
  std::string python = {};
  std::string torch = {};
  std::string plimsoll = PLIMSOLL_VERSION;
  std::uint64_t steps = 0;
  std::optional<std::string> threads = {};
  std::optional<std::string> mode = {};
  std::optional<std::string> incomplete = {};

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"path", &DigestSource::path, "Path of the recording, as the user gave it."},
        Field{"format", &DigestSource::format, "Format of the recording."},
        Field{"rank", &DigestSource::rank,
              "Rank of the process in a distributed run; null if unknown or not distributed."},
        Field{"command", &DigestSource::command,
              "The recorded command line; empty if the file does not have it. The same holds for "
              "python and torch."},
        Field{"python", &DigestSource::python, "Version of Python."},
        Field{"torch", &DigestSource::torch, "Version of PyTorch."},
        Field{"plimsoll", &DigestSource::plimsoll, "Version of Plimsoll that made the digest."},
        Field{"steps", &DigestSource::steps, "Number of complete steps."},
        Field{"threads", &DigestSource::threads,
              "Number of threads that PyTorch used when the recording began; null if unknown."},
        Field{"mode", &DigestSource::mode, "Mode of the recording: full or lite; null if unknown."},
        Field{"incomplete", &DigestSource::incomplete,
              "What is missing from the recording, so that totals may be wrong; null if nothing "
              "is."});
  }
};

// What is live at the peak and no operator uses again (report/last_use.h).
struct DigestUnused {
  std::int64_t bytes = 0;
  std::string steps;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"bytes", &DigestUnused::bytes, "Live bytes that no operator uses again."},
        Field{"steps", &DigestUnused::steps,
              "In which steps uses were observed: all, or some; then bytes may be too low."});
  }
};

// A point in time of one device.
struct DigestPoint {
  std::string device;
  std::string name;
  std::int64_t bytes = 0;
  std::optional<std::uint64_t> step = {};
  std::string phase = {};
  std::string layer = {};
  std::optional<DigestUnused> unused = {};

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"device", &DigestPoint::device, "The device: cpu, cuda:0, ..."},
        Field{"name", &DigestPoint::name,
              "peak; forward, backward, optimizer or data (the highest point of that phase after "
              "the first quarter of the steps); step end (of the step with the median bytes); oom; "
              "end."},
        Field{"bytes", &DigestPoint::bytes, "Bytes live on the device at this point."},
        Field{"step", &DigestPoint::step, "The step; null if none."},
        Field{"phase", &DigestPoint::phase, "The phase of the thread; empty if unknown."},
        Field{"layer", &DigestPoint::layer, "The layer that ran; empty if none."},
        Field{"unused", &DigestPoint::unused,
              "What no operator uses again; null for points other than the peak, and if no uses of "
              "memory were recorded."});
  }
};

// What allocations have in common. A key without a row was live at other times than the points. Key
// and example are separate: line numbers, files and indices of repeated blocks change with every
// edit, so they are only shown.
struct DigestKey {
  std::string device;
  std::string category;
  std::string phase;
  std::string layer;
  std::string op;
  std::string function;
  std::string text;
  std::int64_t offset = 0;
  std::string dtype;
  std::string place = {};
  std::string example_layer = {};
  std::optional<std::int64_t> most_bytes = {};

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"device", &DigestKey::device, "The device."},
        Field{"category", &DigestKey::category, "The category."},
        Field{"phase", &DigestKey::phase, "The phase in which it was allocated."},
        Field{"layer", &DigestKey::layer,
              "The layer. An index that counts repetitions of a block is *."},
        Field{"operator", &DigestKey::op, "The outermost operator."},
        Field{"function", &DigestKey::function, "The function of the line."},
        Field{
            "text", &DigestKey::text,
            "The source text of the line, white space folded, at most 120 bytes; or # and its hash "
            "if the recording omits it; empty if neither is known."},
        Field{"offset", &DigestKey::offset,
              "The lines from the first line of the function, or from its first one that is known, "
              "to this line, or to one with the same text."},
        Field{"dtype", &DigestKey::dtype,
              "The dtype of parameters, gradients, buffers and optimizer state; else empty."},
        Field{"place", &DigestKey::place, "Example of a line: model.py:69 (Attention.forward)."},
        Field{"example_layer", &DigestKey::example_layer, "Example of a layer, with its indices."},
        Field{"most_bytes", &DigestKey::most_bytes,
              "The most bytes that were live at once, at any time; null if unknown."});
  }
};

// A repetition of a row's layer that differs from most others.
struct DigestInstance {
  std::string layer;
  std::int64_t bytes = 0;
  std::uint64_t count = 0;

  friend bool operator==(const DigestInstance&, const DigestInstance&) = default;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(Field{"layer", &DigestInstance::layer, "The layer, with its indices."},
                            Field{"bytes", &DigestInstance::bytes, "Live bytes."},
                            Field{"count", &DigestInstance::count, "Number of live allocations."});
  }
};

struct DigestRow {
  std::uint64_t point = 0;
  std::uint64_t key = 0;
  std::int64_t bytes = 0;
  std::uint64_t count = 0;
  std::uint64_t largest_bytes = 0;
  std::string shape = {};
  std::uint64_t instances = 1;
  std::int64_t instance_bytes = 0;
  std::vector<DigestInstance> uneven = {};
  std::vector<HeldBy> holders = {};  // most bytes first; not in a file

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"point", &DigestRow::point, "Index into points."},
        Field{"key", &DigestRow::key, "Index into keys."},
        Field{"bytes", &DigestRow::bytes,
              "Live bytes; negative only where a file contradicts itself."},
        Field{"count", &DigestRow::count, "Number of live allocations."},
        Field{"largest_bytes", &DigestRow::largest_bytes, "Size of the largest allocation."},
        Field{"shape", &DigestRow::shape, "Shape of the largest allocation; empty if unknown."},
        Field{"instances", &DigestRow::instances, "Number of layers that the key stands for."},
        Field{"instance_bytes", &DigestRow::instance_bytes, "Live bytes of most of these layers."},
        Field{"uneven", &DigestRow::uneven, "The layers with other bytes or another count."});
  }
};

// A module, or the modules of repeated blocks.
struct DigestModule {
  std::string path;
  std::string type = {};
  std::uint64_t instances = 1;
  std::string indices = {};
  std::uint64_t parameter_bytes = 0;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"path", &DigestModule::path, "The layer, as in keys."},
        Field{"type", &DigestModule::type,
              "The class; the first one, if they differ; empty if unknown."},
        Field{"instances", &DigestModule::instances, "Number of modules with this path."},
        Field{"indices", &DigestModule::indices,
              "If the path ends in *, the indices: 0-3, 7; else empty."},
        Field{"parameter_bytes", &DigestModule::parameter_bytes,
              "Bytes of the parameters that the modules have directly."});
  }
};

// The range of a point's bytes, or of a key's bytes at a point, over repeated recordings.
struct DigestRange {
  std::uint64_t point = 0;
  std::optional<std::uint64_t> key = {};
  std::int64_t least_bytes = 0;
  std::int64_t most_bytes = 0;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"point", &DigestRange::point, "Index into points."},
        Field{"key", &DigestRange::key, "Index into keys; null: the whole point."},
        Field{"least_bytes", &DigestRange::least_bytes, "The minimum."},
        Field{"most_bytes", &DigestRange::most_bytes, "The maximum."});
  }
};

struct DigestRepeats {
  std::uint64_t recordings = 0;
  std::vector<DigestRange> ranges;  // only points and keys whose bytes differ

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"recordings", &DigestRepeats::recordings, "Number of recordings."},
        Field{"ranges", &DigestRepeats::ranges,
              "The points and keys whose bytes differ between the recordings."});
  }
};

struct Digest {
  std::string digest_version = kDigestVersion;
  DigestSource source;
  std::vector<DigestPoint> points;
  std::vector<DigestKey> keys;
  std::vector<DigestRow> rows;
  std::vector<DigestModule> modules;
  std::optional<DigestRepeats> repeats = {};
  // Whether the recorder looked for holders and found all; not in a file.
  bool knows_holders = false;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"digest_version", &Digest::digest_version, "Version of this format: major.minor."},
        Field{"source", &Digest::source, "The recording."},
        Field{"points", &Digest::points, "The points in time."},
        Field{"keys", &Digest::keys, "What the rows refer to."},
        Field{"rows", &Digest::rows, "What was live at the points, by key."},
        Field{"modules", &Digest::modules, "The modules that the recording names."},
        Field{"repeats", &Digest::repeats,
              "If the program was recorded several times (plimsoll check --repeat): how much its "
              "bytes vary; the rest of the digest is from the recording with the median peak. Else "
              "null."});
  }
};

// Cuts names of more than 4 KiB, so that hostile ones do not slow down comparisons.
void bound_names(Digest& digest);

}  // namespace plimsoll::report

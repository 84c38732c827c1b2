// Report: every figure the engine computes, as plain values with field lists. Passes fill it;
// everything else only reads it. The JSON of `plimsoll report --json` is this struct, field by
// field.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "plimsoll/version.h"
#include "report/device_report.h"
#include "report/digest.h"
#include "report/finding.h"
#include "report/tables.h"

namespace plimsoll::report {

struct DiagnosticReport {
  std::string name;
  std::string severity;
  std::uint64_t count = 0;
  std::string help;
  std::string example;
  bool is_incomplete = false;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"name", &DiagnosticReport::name, "Stable name of the diagnostic."},
        Field{"severity", &DiagnosticReport::severity, "info, data_loss or error."},
        Field{"count", &DiagnosticReport::count, "Number of occurrences."},
        Field{"help", &DiagnosticReport::help, "What it means and what to do."},
        Field{"example", &DiagnosticReport::example,
              "Place and numbers of the first occurrence; may be empty."},
        Field{"is_incomplete", &DiagnosticReport::is_incomplete,
              "Whether totals may be wrong because part of the recording is "
              "missing: plimsoll check does not judge it."});
  }
};

struct Source {
  std::string path;
  std::string format;
  std::uint64_t bytes = 0;
  std::uint64_t events = 0;
  std::vector<DiagnosticReport> diagnostics;
  std::optional<std::int64_t> rank = {};
  std::optional<std::int64_t> world_size = {};
  std::string command = {};
  std::string host = {};
  std::string python = {};
  std::string torch = {};
  std::optional<std::int64_t> started_ns = {};

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"path", &Source::path, "Path as the user gave it."},
        Field{"format", &Source::format, "Format of the file, which is the name of its reader."},
        Field{"bytes", &Source::bytes, "Size of the file in bytes."},
        Field{"events", &Source::events, "Number of events on all devices."},
        Field{"diagnostics", &Source::diagnostics, "Imperfections of the input."},
        Field{"rank", &Source::rank,
              "Rank of the process in a distributed run; null if unknown or not distributed."},
        Field{"world_size", &Source::world_size,
              "Number of ranks of that run; null if the file does not have it."},
        Field{"command", &Source::command,
              "The recorded command line, without secrets; empty if the file does not have it. The "
              "same holds for host, python and torch."},
        Field{"host", &Source::host, "Name of the machine."},
        Field{"python", &Source::python, "Version of Python."},
        Field{"torch", &Source::torch, "Version of PyTorch."},
        Field{"started_ns", &Source::started_ns,
              "Start of the recording, since the Unix epoch; null if the file does not have it."});
  }
};

enum class PassState : std::uint8_t { kRan, kSkipped, kInterrupted };
inline const char* to_string(PassState state) {
  switch (state) {
    case PassState::kRan:
      return "ran";
    case PassState::kSkipped:
      return "skipped";
    case PassState::kInterrupted:
      return "interrupted";
  }
  return "ran";
}

struct PassRun {
  std::string name;
  PassState state = PassState::kRan;
  std::string reason;  // why it was skipped; if it ran, what it could not answer
  std::int64_t duration_ns = 0;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"name", &PassRun::name, "Name of the analysis."},
        Field{"state", &PassRun::state, "ran, skipped or interrupted."},
        Field{"reason", &PassRun::reason,
              "Reason for being skipped; if it ran, what it could not answer, else empty."},
        Field{"duration_ns", &PassRun::duration_ns, "Wall time of the analysis."});
  }
};

struct Report {
  std::string schema_version = PLIMSOLL_REPORT_SCHEMA_VERSION;
  Source source;
  std::vector<DeviceReport> devices;  // same order as Trace::devices
  Tables tables;
  std::vector<Finding> findings;      // most severe first
  std::vector<NearMiss> near_misses;  // for each device, closest first
  std::vector<PassRun> passes;
  Digest digest;  // not in the report's JSON: the digest exporter writes it

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"schema_version", &Report::schema_version, "Version of this schema: major.minor."},
        Field{"source", &Report::source, "The input."},
        Field{"devices", &Report::devices, "Totals of each device in the input."},
        Field{"tables", &Report::tables, "What fills the memory."},
        Field{"findings", &Report::findings, "Findings, most severe first."},
        Field{"near_misses", &Report::near_misses,
              "Figures below, but closest to, the threshold of a finding; for each device, the "
              "closest first."},
        Field{"passes", &Report::passes, "The analyses: which ran, and why others did not."});
  }
};

}  // namespace plimsoll::report

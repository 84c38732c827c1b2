// Report: every figure the engine computes, as plain values with field lists. Passes fill it,
// everyone else reads it. The JSON of `plimsoll report --json` is this struct, field by field.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "plimsoll/version.h"
#include "report/device_report.h"
#include "report/finding.h"
#include "report/tables.h"

namespace plimsoll::report {

struct DiagnosticReport {
  std::string name;
  std::string severity;
  std::uint64_t count = 0;
  std::string help;
  std::string example;

  static constexpr auto fields() {
    using base::Field;
    return std::tuple{Field{"name", &DiagnosticReport::name, "Stable name of the imperfection."},
                      Field{"severity", &DiagnosticReport::severity, "info, data_loss or error."},
                      Field{"count", &DiagnosticReport::count, "How often it was met."},
                      Field{"help", &DiagnosticReport::help, "What it means and what to do."},
                      Field{"example", &DiagnosticReport::example,
                            "The first one: place and numbers. May be empty."}};
  }
};

struct Source {
  std::string path;
  std::string format;
  std::uint64_t bytes = 0;
  std::uint64_t events = 0;
  std::vector<DiagnosticReport> diagnostics;
  std::optional<std::int64_t> rank = {};
  std::string command = {};
  std::string host = {};
  std::string python = {};
  std::string torch = {};
  std::optional<std::int64_t> started_ns = {};

  static constexpr auto fields() {
    using base::Field;
    return std::tuple{
        Field{"path", &Source::path, "As the user gave it."},
        Field{"format", &Source::format, "The reader that understood it."},
        Field{"bytes", &Source::bytes, "Size of the file."},
        Field{"events", &Source::events, "Events of all devices."},
        Field{"diagnostics", &Source::diagnostics, "What is imperfect in the input."},
        Field{"rank", &Source::rank,
              "Of the process in a distributed run; null: not known, or not distributed."},
        Field{"command", &Source::command,
              "The command line that was recorded, without secrets; empty: the file does not state "
              "it. So are the next three."},
        Field{"host", &Source::host, "The machine's name."},
        Field{"python", &Source::python, "Python's version."},
        Field{"torch", &Source::torch, "PyTorch's version."},
        Field{"started_ns", &Source::started_ns,
              "When the recording began, since the Unix epoch; null: the file does not state it."}};
  }
};

enum class PassState : std::uint8_t { kRan, kSkipped, kDisabled, kInterrupted };
inline const char* to_string(PassState state) {
  switch (state) {
    case PassState::kRan:
      return "ran";
    case PassState::kSkipped:
      return "skipped";
    case PassState::kDisabled:
      return "disabled";
    case PassState::kInterrupted:
      return "interrupted";
  }
  return "ran";
}

struct PassRun {
  std::string name;
  PassState state = PassState::kRan;
  std::string reason;  // why it was skipped; empty when it ran
  std::int64_t duration_ns = 0;

  static constexpr auto fields() {
    using base::Field;
    return std::tuple{Field{"name", &PassRun::name, "The analysis."},
                      Field{"state", &PassRun::state, "ran, skipped, disabled or interrupted."},
                      Field{"reason", &PassRun::reason, "Why it was skipped."},
                      Field{"duration_ns", &PassRun::duration_ns, "Wall time it took."}};
  }
};

struct Report {
  std::string schema_version = PLIMSOLL_REPORT_SCHEMA_VERSION;
  Source source;
  std::vector<DeviceReport> devices;  // same order as Trace::devices
  Tables tables;
  std::vector<Finding> findings;      // most severe first
  std::vector<NearMiss> near_misses;  // of each device, the closest first
  std::vector<PassRun> passes;

  static constexpr auto fields() {
    using base::Field;
    return std::tuple{
        Field{"schema_version", &Report::schema_version, "Major.minor of this layout."},
        Field{"source", &Report::source, "The input."},
        Field{"devices", &Report::devices, "Totals of each device that the input names."},
        Field{"tables", &Report::tables, "What the memory is made of."},
        Field{"findings", &Report::findings, "Verdicts, gravest first."},
        Field{"near_misses", &Report::near_misses,
              "The figures closest to the threshold of a rule that raised nothing; of each device, "
              "the closest first."},
        Field{"passes", &Report::passes, "Which analyses ran, and why others did not."}};
  }
};

}  // namespace plimsoll::report

// Parses text logs (text_log.h) into samples, line by line, storing one snapshot. Sizes are as
// precise as they were printed; shares sum to the live bytes with the same precision.
//
// An incomplete snapshot at the end of a truncated log is dropped; unknown lines are counted.
// Figures before the first line "Device: NAME" are those of kUnnamedDevice (labelled.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "plimsoll/memory_sample.h"
#include "sample/sample_fields.h"

namespace plimsoll::logs {

class TextLogReader {
 public:
  using Sink = std::function<void(const MemorySample&)>;

  explicit TextLogReader(Sink sink) : sink_(std::move(sink)) {}

  // Whether a line can only come from such a log.
  static bool knows(std::string_view line);

  void line(std::string_view line);
  void finish();

  // Whether Plimsoll wrote it; else it has lines of another program.
  bool has_header() const { return has_header_; }
  std::uint64_t snapshots() const { return snapshots_; }
  std::uint64_t unread_lines() const { return unread_lines_; }
  std::uint64_t cut_snapshots() const { return cut_snapshots_; }
  std::optional<std::uint64_t> unknown_format() const { return unknown_format_; }
  // The run that the newest sample belongs to, from 1. A header or a lower iteration begins one.
  std::uint64_t run() const { return run_; }

  // Lines of snapshots about devices, by whether their figures could be read.
  std::uint64_t read_figures() const { return read_figures_; }
  std::uint64_t unreadable_figures() const { return unreadable_figures_; }
  // The first line within a snapshot that was not recognized.
  struct UnreadLine {
    std::uint64_t number = 0;  // from 1
    std::string text;          // truncated
  };
  const std::optional<UnreadLine>& first_unread() const { return first_unread_; }

 private:
  void begin(std::string_view line);
  void end();
  void take_in_snapshot(std::string_view line);
  bool take(std::string_view line);
  bool take_header(std::string_view line);
  bool take_device_value(std::string_view key, std::string_view value);
  bool take_by_hand(sample::LogForm form, std::string_view value, DeviceMemory& reported);
  DeviceMemory* device();
  DeviceMemory& cpu_alongside();

  Sink sink_;
  std::optional<MemorySample> sample_;  // the current snapshot
  std::size_t current_device_ = 0;      // the current device, from 1
  std::uint64_t snapshots_ = 0;
  std::uint64_t unread_lines_ = 0;
  std::uint64_t cut_snapshots_ = 0;
  std::optional<std::uint64_t> unknown_format_;
  std::uint64_t lines_ = 0;
  std::uint64_t read_figures_ = 0;
  std::uint64_t unreadable_figures_ = 0;
  std::optional<UnreadLine> first_unread_;
  std::uint64_t run_ = 0;
  bool is_run_new_ = true;   // since the last sample
  bool has_header_ = false;  // of a log that Plimsoll wrote
  // Whether the current snapshot is of another program: it has no time, and may have empty lines.
  bool is_foreign_ = false;
  bool is_complete_ = false;
  std::int64_t iteration_ = 0;
};

}  // namespace plimsoll::logs

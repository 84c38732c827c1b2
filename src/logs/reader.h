// Reads a log from start to end: detects its kind by its content, and returns its samples one by
// one. Failures are one-sentence errors.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "plimsoll/memory_sample.h"
#include "plimsoll/result.h"

namespace plimsoll::logs {

enum class LogFormat : std::uint8_t { kTextLog, kNvidiaSmi, kDeepSpeed, kPrinted };

inline const char* to_string(LogFormat format) {
  switch (format) {
    case LogFormat::kTextLog:
      return "plimsoll_text_log";
    case LogFormat::kNvidiaSmi:
      return "nvidia_smi_csv";
    case LogFormat::kDeepSpeed:
      return "deepspeed_log";
    case LogFormat::kPrinted:
      return "printed_log";
  }
  return "";
}

// What the number of a sample counts.
inline const char* step_name(LogFormat format) {
  const bool is_numbered = format == LogFormat::kTextLog || format == LogFormat::kPrinted;
  return is_numbered ? "iteration" : "sample";
}

struct LogContents {
  LogFormat format = LogFormat::kTextLog;
  std::uint64_t bytes = 0;
  std::uint64_t snapshots = 0;
  std::uint64_t cut_snapshots = 0;  // begun but not ended
  std::uint64_t unread_lines = 0;
  std::uint64_t runs = 0;
  bool is_of_program = false;  // has lines of the program's own, such as its messages
};

// Where in a log a sample is.
struct SamplePlace {
  LogFormat format = LogFormat::kTextLog;
  std::uint64_t run = 1;  // logs of several runs may have been joined
};

using SampleSink = std::function<void(const SamplePlace& place, const MemorySample& sample)>;

// Bytes read, and the total; return false to stop.
using LogProgress = std::function<bool(std::uint64_t done, std::uint64_t total)>;

Result<LogContents> read_log(const std::string& path, const SampleSink& sink,
                             const LogProgress& progress = {});

// The same for bytes; `name` replaces the path in messages.
Result<LogContents> read_log_bytes(std::string_view bytes, const std::string& name,
                                   const SampleSink& sink);

}  // namespace plimsoll::logs

// Session: open a recording, ask it questions, export it. The C++ face of the engine; the command
// line and the Python package are thin layers over it. A session is immutable once opened: any
// number of threads may read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/result.h"

namespace plimsoll {

// Called now and then while a file is read and analysed. Return false to stop: open() then fails
// with kInterrupted. `total` is 0 when it is not known.
using ProgressCallback =
    std::function<bool(std::string_view stage, std::uint64_t done, std::uint64_t total)>;

struct OpenOptions {
  std::string device;  // "0", "cuda:0", "cpu"; empty: all
  std::string at;  // "peak" (default), "start", "end", "oom", an event number, or a time as "1.5s"
                   // since the first event
  std::size_t top = 20;  // rows kept of each table
  ProgressCallback progress;
};

// One column of a table, borrowed from the session. Strings are dictionary-coded: `values` are rows
// of `dictionary`.
struct Column {
  enum class Type : std::uint8_t { kUint8, kUint32, kUint64, kInt32, kInt64, kString };
  std::string name;
  Type type = Type::kUint64;
  const void* values =
      nullptr;  // `rows` values, contiguous; kString: uint32 rows of the dictionary
  std::size_t rows = 0;
  std::vector<std::string_view> dictionary;  // kString only
};

struct Table {
  std::string name;
  std::vector<Column> columns;
};

struct ExportFormat {
  std::string name;
  std::string description;
  std::string suffix;
};

class Session {
 public:
  // Reads and analyses `path`. Errors name the path and say what is wrong with it.
  static Result<Session> open(const std::string& path, const OpenOptions& options = {});

  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // The report as one JSON object (docs/report.schema.json).
  std::string report_json() const;

  // Writes the recording in another format. `write` returns false when it can take no more.
  Status export_to(std::string_view format,
                   const std::function<bool(std::string_view)>& write) const;
  static std::vector<ExportFormat> export_formats();

  // The recording's own columns: "events", "lifetimes", "blocks", "segments", "frames", "stacks".
  // Borrowed from the session.
  std::vector<Table> tables() const;

  struct State;
  const State& state() const { return *state_; }  // for the engine's own layers

 private:
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace plimsoll

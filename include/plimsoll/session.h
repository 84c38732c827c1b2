// Session: open a recording, ask it questions, export it. The C++ face of the engine; the command
// line and the Python package are thin layers over it. A session is immutable once opened: any
// number of threads may read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/result.h"
#include "plimsoll/table.h"

namespace plimsoll {

// Called regularly while a file is read and analyzed. Return false to stop: open() then fails with
// kInterrupted. `total` is 0 if unknown.
using ProgressCallback =
    std::function<bool(std::string_view stage, std::uint64_t done, std::uint64_t total)>;

struct OpenOptions {
  std::string device;  // "0", "cuda:0", "cpu"; empty: all
  // "peak" (default), "start", "end", "oom" (the last failure), "oom:1" (the first), an event
  // number, or a time as "1.5s" since the first event
  std::string at;
  std::size_t top = 20;  // rows kept of each table
  ProgressCallback progress;
};

// How the report is laid out as text.
struct TextOptions {
  std::size_t width = 100;          // columns, 60 at least
  std::size_t top = 10;             // rows of each table
  std::vector<std::string> tables;  // "line", "stack", "layer"...; none: the default for the file
  bool has_color = false;
};

struct ExportFormat {
  std::string name;
  std::string description;
  std::string suffix;
};

class Session {
 public:
  // Reads and analyzes `path`. Errors name the path and the problem.
  static Result<Session> open(const std::string& path, const OpenOptions& options = {});
  // The same for a recording in memory; `name` replaces the path in messages and in the report.
  static Result<Session> open_memory(std::span<const std::byte> bytes, const std::string& name,
                                     const OpenOptions& options = {});

  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // The report as one JSON object (docs/report.schema.json).
  std::string report_json() const;
  // The report as text, findings first.
  Result<std::string> report_text(const TextOptions& options = {}) const;

  // Writes the recording in another format. `write` returns false when it accepts no more data.
  Status export_to(std::string_view format,
                   const std::function<bool(std::string_view)>& write) const;
  static std::vector<ExportFormat> export_formats();

  // The columns of the recording. The table keeps the recording alive and may outlive the session.
  Result<Table> table(std::string_view name) const;
  static std::vector<std::string> table_names();  // "events", "lifetimes", ...

  struct State;
  const State& state() const { return *state_; }  // for the engine's own layers

 private:
  explicit Session(std::shared_ptr<const State> state);
  template <typename Load>
  static Result<Session> analyse(Load&& load, const std::string& name, const OpenOptions& options);
  std::shared_ptr<const State> state_;
};

}  // namespace plimsoll

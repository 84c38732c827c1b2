// Session: open a recording once, ask it any number of questions, export it. This is the C++
// interface of the engine; the command line and the Python package are thin layers over it. Any
// number of threads may use a session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plimsoll/result.h"
#include "plimsoll/table.h"

namespace plimsoll {

// Called regularly while a file is read and analyzed. Return false to stop: the function then fails
// with kInterrupted. `total` is 0 if unknown.
using ProgressCallback =
    std::function<bool(std::string_view stage, std::uint64_t done, std::uint64_t total)>;

// Pseudonyms of names, each with the text that it replaces.
using NameMap = std::map<std::string, std::string>;

struct OpenOptions {
  ProgressCallback progress;
  // Not null: replaces paths, names and the command line by pseudonyms, and stores them here.
  NameMap* pseudonyms = nullptr;
};

// What to analyze. Asking never changes what was read from the file.
struct Question {
  std::string device;  // "0", "cuda:0", "cpu"; empty: all
  // "peak" (default), "start", "end", "oom" (the last failure), "oom:1" (the first),
  // "failure-or-peak" (the failure that ended the program, else the peak; the default of pages), an
  // event number, or a time since the first event, such as "1.5s"
  std::string at;
  std::size_t top = 20;  // rows in each table
  // Names of analyses ("composition", "growth", "findings"...; see `passes` in the JSON): only
  // these run, and those that they depend on. Empty: all.
  std::vector<std::string> analyses;
};

// How the report is laid out as text.
struct TextOptions {
  std::size_t width = 100;          // columns, 60 at least
  std::size_t top = 10;             // rows of each table
  std::vector<std::string> tables;  // "line", "stack", "layer"...; empty: the default for the file
  bool has_color = false;
};

struct ExportFormat {
  std::string name;
  std::string description;
  std::string suffix;
};

namespace report {
struct Report;
}
class Report;

class Session {
 public:
  // Reads `path`; nothing is analyzed yet. Errors name the path and the problem.
  static Result<Session> open(const std::string& path, const OpenOptions& options = {});
  // The same for a recording in memory; `name` replaces the path in messages and in the report.
  static Result<Session> open_memory(std::span<const std::byte> bytes, const std::string& name,
                                     const OpenOptions& options = {});

  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // Runs the analyses that the question needs. Answers of earlier questions are reused: a different
  // point in time repeats only the analyses that depend on it.
  Result<Report> ask(const Question& question = {}, const ProgressCallback& progress = {}) const;

  // Writes the recording in another format. `write` returns false when it accepts no more data.
  // Fails if the format is unknown.
  Status export_to(std::string_view format, const std::function<bool(std::string_view)>& write,
                   const Question& question = {}, const ProgressCallback& progress = {}) const;
  static std::vector<ExportFormat> export_formats();

  // Returns the columns of the recording; fails for an unknown name. The table keeps the recording
  // alive and may outlive the session.
  Result<Table> table(std::string_view name) const;
  static std::vector<std::string> table_names();  // "events", "lifetimes", ...
  // What a fleet keeps of the recording (docs/fleets.md): the tables ranks, steps, peaks, sites and
  // findings. Runs the analyses that they need.
  Result<std::vector<Table>> fleet_tables(const ProgressCallback& progress = {}) const;

  struct State;
  const State& state() const { return *state_; }  // for the engine's own layers

 private:
  explicit Session(std::shared_ptr<const State> state);
  template <typename Load>
  static Result<Session> open_with(Load&& load, const std::string& name,
                                   const OpenOptions& options);
  std::shared_ptr<const State> state_;
};

// The answer to a question. Immutable. It may outlive its session.
class Report {
 public:
  // One JSON object (docs/report.schema.json).
  std::string json() const;
  // The report as text, findings first. Fails if `tables` has an unknown name.
  Result<std::string> text(const TextOptions& options = {}) const;

  const report::Report& value() const { return *report_; }  // for the engine's own layers

 private:
  friend class Session;
  Report(std::shared_ptr<const Session::State> state, std::shared_ptr<const report::Report> report,
         std::string device)
      : state_(std::move(state)), report_(std::move(report)), device_(std::move(device)) {}

  std::shared_ptr<const Session::State> state_;
  std::shared_ptr<const report::Report> report_;
  std::string device_;  // of the question
};

}  // namespace plimsoll

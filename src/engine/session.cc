#include "plimsoll/session.h"

#include <algorithm>
#include <new>
#include <utility>

#include "analysis/pass_runner.h"
#include "base/json_writer.h"
#include "engine/catalog.h"
#include "engine/load.h"
#include "engine/parse_options.h"
#include "engine/rank_in_name.h"
#include "engine/session_state.h"
#include "engine/source_lines.h"
#include "exporters/terminal/report.h"
#include "redaction/trace_redaction.h"
#include "report/devices.h"
#include "tables/fleet_tables.h"
#include "tables/tables.h"

namespace plimsoll {
namespace {

class CallbackProgress final : public base::Progress {
 public:
  explicit CallbackProgress(const ProgressCallback& callback) : callback_(callback) {}
  void advance(const char* stage, std::uint64_t done, std::uint64_t total) override {
    if (callback_ && !callback_(stage, done, total)) interrupt();
  }

 private:
  const ProgressCallback& callback_;
};

class CallbackOutput final : public exporters::Output {
 public:
  explicit CallbackOutput(const std::function<bool(std::string_view)>& write) : write_(write) {}
  Status write(std::string_view bytes) override {
    if (write_(bytes)) return {};
    return make_error(ErrorCode::kIo, "the output accepts no more data");
  }

 private:
  const std::function<bool(std::string_view)>& write_;
};

std::string list_of(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ", ") + word;
  return list;
}

report::Source describe_source(const std::string& path, const engine::Loaded& loaded) {
  report::Source source;
  source.path = path;
  source.format = loaded.trace.format;
  source.bytes = loaded.file_bytes;
  source.events = loaded.trace.event_count();
  source.rank = loaded.trace.rank ? loaded.trace.rank : engine::rank_in_name(path);
  source.world_size = loaded.trace.world_size;
  source.command = loaded.trace.program.command;
  source.host = loaded.trace.program.host;
  source.python = loaded.trace.program.python;
  source.torch = loaded.trace.program.torch;
  if (loaded.trace.started_ns != model::kNoTime) source.started_ns = loaded.trace.started_ns;
  for (const base::Diagnostic& diagnostic : loaded.diagnostics.all()) {
    source.diagnostics.push_back(
        report::DiagnosticReport{diagnostic.kind->name, to_string(diagnostic.kind->severity),
                                 diagnostic.count, diagnostic.kind->help, diagnostic.first_example,
                                 diagnostic.kind->totals == base::Totals::kIncomplete});
  }
  return source;
}

Status check_names(const std::vector<std::string>& analyses) {
  std::vector<std::string> known;
  for (const auto& pass : engine::catalog().passes) known.emplace_back(pass->name());
  for (const std::string& name : analyses) {
    if (std::ranges::find(known, name) != known.end()) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      "there is no analysis " + name + "; there are " + list_of(known));
  }
  return {};
}

constexpr std::size_t kAnswersKept = 8;

// Copies the cached answer that fits `options` best (the latest among equals) into `report`.
// Returns the options that differ.
analysis::OptionSet start_from_nearest(const Session::State& state,
                                       const analysis::Options& options, report::Report& report) {
  using analysis::OptionSet;
  const std::lock_guard lock(state.mutex);
  const auto cost = [&](const Session::State::Answer& answer) {
    return analysis::difference(answer.options, options).count();
  };
  const auto nearest =
      std::ranges::min_element(state.answers.rbegin(), state.answers.rend(), {}, cost);
  if (nearest == state.answers.rend()) return OptionSet::kNone;
  report = *nearest->report;
  return analysis::difference(nearest->options, options);
}

void keep(const Session::State& state, const analysis::Options& options,
          std::shared_ptr<const report::Report> report) {
  const std::lock_guard lock(state.mutex);
  std::erase_if(state.answers, [&](const auto& answer) { return answer.options == options; });
  if (state.answers.size() == kAnswersKept) state.answers.erase(state.answers.begin());
  state.answers.push_back({options, std::move(report)});
}

}  // namespace

Session::Session(std::shared_ptr<const State> state) : state_(std::move(state)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

template <typename Load>
Result<Session> Session::open_with(Load&& load, const std::string& name,
                                   const OpenOptions& options) {
  CallbackProgress progress(options.progress);
  PLIMSOLL_TRY_ASSIGN(engine::Loaded loaded, load(progress));
  try {
    if (options.pseudonyms != nullptr) {
      *options.pseudonyms = redaction::redact(loaded.trace, loaded.diagnostics);
    }
    report::Source source = describe_source(name, loaded);
    if (options.pseudonyms != nullptr) source.path = "redacted";
    return Session(std::make_shared<const State>(std::move(loaded.trace), std::move(source)));
  } catch (const std::bad_alloc&) {
    return make_error(ErrorCode::kLimit, name + ": not enough memory to analyze it");
  }
}

Result<Session> Session::open(const std::string& path, const OpenOptions& options) {
  return open_with([&](base::Progress& progress) { return engine::load(path, progress); }, path,
                   options);
}

Result<Session> Session::open_memory(std::span<const std::byte> bytes, const std::string& name,
                                     const OpenOptions& options) {
  return open_with([&](base::Progress& progress) { return engine::load(bytes, name, progress); },
                   name, options);
}

Result<Report> Session::ask(const Question& question, const ProgressCallback& callback) const {
  analysis::Options options;
  options.top = question.top;
  PLIMSOLL_TRY_ASSIGN(options.point, engine::parse_point(question.at));
  if (!question.device.empty()) {
    PLIMSOLL_TRY_ASSIGN(options.device, engine::parse_device(question.device, state_->trace));
  }
  PLIMSOLL_TRY(check_names(question.analyses));
  CallbackProgress progress(callback);
  try {
    auto report = std::make_shared<report::Report>();
    report->source = state_->source;
    const analysis::OptionSet changed = start_from_nearest(*state_, options, *report);
    analysis::PassContext context{state_->trace, state_->lines, options, progress, *report};
    PLIMSOLL_TRY(
        analysis::run_passes(engine::catalog().passes, question.analyses, changed, context));
    keep(*state_, options, report);
    return Report(state_, std::move(report), question.device);
  } catch (const std::bad_alloc&) {
    return make_error(ErrorCode::kLimit, state_->source.path + ": not enough memory to analyze it");
  }
}

std::string Report::json() const {
  return base::json_text([&](base::JsonWriter& json) { base::write_json(json, *report_); });
}

Result<std::string> Report::text(const TextOptions& options) const {
  exporters::terminal::TextOptions how;
  how.width = options.width;
  how.top = options.top;
  how.device = device_;
  how.color = options.has_color ? text::Color::kOn : text::Color::kOff;
  how.tables.clear();
  for (const std::string& name : options.tables) {
    const auto kind = exporters::terminal::table_named(name);
    if (!kind) {
      return make_error(ErrorCode::kInvalidArgument,
                        "there is no table " + name + "; there are " +
                            list_of(exporters::terminal::table_names()));
    }
    how.tables.push_back(*kind);
  }
  engine::SourceLines sources(state_->trace, state_->lines);
  how.source_of = [&](const std::string& line) { return sources.text_of(line); };
  return exporters::terminal::to_text(*report_, how);
}

Result<std::vector<Table>> Session::fleet_tables(const ProgressCallback& progress) const {
  PLIMSOLL_TRY(ask({}, progress));
  Question digest;
  digest.analyses = {"digest"};
  PLIMSOLL_TRY_ASSIGN(const Report report, ask(digest, progress));
  const report::DeviceReport* device = report::main_device(report.value());
  if (device != nullptr && device->has_unknown_peak()) {
    return make_error(ErrorCode::kUnsupported,
                      state_->source.path + ": its peak is unknown: events and segments disagree");
  }
  return tables::fleet_tables({state_, &state_->trace}, report.value());
}

Result<Table> Session::table(std::string_view name) const {
  return tables::make_table(name, {state_, &state_->trace});
}

std::vector<std::string> Session::table_names() {
  std::vector<std::string> names;
  for (const tables::TableKind& kind : tables::table_kinds()) names.emplace_back(kind.name);
  return names;
}

Status Session::export_to(std::string_view format,
                          const std::function<bool(std::string_view)>& write,
                          const Question& question, const ProgressCallback& progress) const {
  const exporters::Exporter* exporter = engine::catalog().exporter(format);
  if (exporter == nullptr) {
    std::vector<std::string> known;
    for (const ExportFormat& each : export_formats()) known.push_back(each.name);
    return make_error(
        ErrorCode::kInvalidArgument,
        "there is no export format " + std::string(format) + "; there are " + list_of(known));
  }
  if (exporter->shows_allocations() && !state_->trace.oom_messages.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "an out-of-memory message lists no allocations, which the format " +
                          std::string(format) + " shows: export it as html or json");
  }
  Question needed = question;
  if (needed.analyses.empty()) {
    needed.analyses.assign(exporter->needs().begin(), exporter->needs().end());
  }
  if (needed.at.empty()) needed.at = exporter->default_point();
  PLIMSOLL_TRY_ASSIGN(const Report report, ask(needed, progress));
  CallbackOutput output(write);
  engine::SourceLines sources(state_->trace, state_->lines);
  return exporter->write({state_->trace, report.value(), state_->lines, question.device,
                          [&](const std::string& line) { return sources.text_of(line); }},
                         output);
}

std::vector<ExportFormat> Session::export_formats() {
  std::vector<ExportFormat> formats;
  for (const auto& exporter : engine::catalog().exporters) {
    formats.push_back(ExportFormat{exporter->name(), exporter->description(), exporter->suffix()});
  }
  return formats;
}

}  // namespace plimsoll

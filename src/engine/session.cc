#include "plimsoll/session.h"

#include <new>
#include <utility>

#include "analysis/pass_runner.h"
#include "base/json_writer.h"
#include "engine/catalog.h"
#include "engine/load.h"
#include "engine/parse_options.h"
#include "engine/session_state.h"
#include "engine/source_lines.h"
#include "engine/tables.h"
#include "exporters/terminal/report.h"

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
  source.rank = loaded.trace.rank;
  source.command = loaded.trace.program.command;
  source.host = loaded.trace.program.host;
  source.python = loaded.trace.program.python;
  source.torch = loaded.trace.program.torch;
  if (loaded.trace.started_ns != model::kNoTime) source.started_ns = loaded.trace.started_ns;
  for (const base::Diagnostic& diagnostic : loaded.diagnostics.all()) {
    source.diagnostics.push_back(report::DiagnosticReport{
        diagnostic.kind->name, to_string(diagnostic.kind->severity), diagnostic.count,
        diagnostic.kind->help, diagnostic.first_example});
  }
  return source;
}

}  // namespace

Session::Session(std::shared_ptr<const State> state) : state_(std::move(state)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

template <typename Load>
Result<Session> Session::analyse(Load&& load, const std::string& path, const OpenOptions& options) {
  CallbackProgress progress(options.progress);
  analysis::Options how;
  how.top = options.top;
  PLIMSOLL_TRY_ASSIGN(how.moment, engine::parse_moment(options.at));
  PLIMSOLL_TRY_ASSIGN(engine::Loaded loaded, load(progress));
  if (!options.device.empty()) {
    PLIMSOLL_TRY_ASSIGN(how.device, engine::parse_device(options.device, loaded.trace));
  }
  report::Source source = describe_source(path, loaded);
  try {
    auto state = std::make_shared<State>(std::move(loaded.trace));
    state->device = options.device;
    state->report.source = std::move(source);
    analysis::PassContext context{state->trace, state->lines, how, progress, state->report};
    PLIMSOLL_TRY(analysis::run_passes(engine::catalog().passes, context));
    return Session(std::shared_ptr<const State>(std::move(state)));
  } catch (const std::bad_alloc&) {
    return make_error(ErrorCode::kLimit, path + ": not enough memory to analyze it");
  }
}

Result<Session> Session::open(const std::string& path, const OpenOptions& options) {
  return analyse([&](base::Progress& progress) { return engine::load(path, progress); }, path,
                 options);
}

Result<Session> Session::open_memory(std::span<const std::byte> bytes, const std::string& name,
                                     const OpenOptions& options) {
  return analyse([&](base::Progress& progress) { return engine::load(bytes, name, progress); },
                 name, options);
}

std::string Session::report_json() const {
  return base::json_text([&](base::JsonWriter& json) { base::write_json(json, state_->report); });
}

Result<std::string> Session::report_text(const TextOptions& options) const {
  exporters::terminal::TextOptions how;
  how.width = options.width;
  how.top = options.top;
  how.device = state_->device;
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
  return exporters::terminal::to_text(state_->report, how);
}

Result<Table> Session::table(std::string_view name) const {
  return engine::make_table(name, state_);
}

std::vector<std::string> Session::table_names() {
  std::vector<std::string> names;
  for (const engine::TableKind& kind : engine::table_kinds()) names.emplace_back(kind.name);
  return names;
}

Status Session::export_to(std::string_view format,
                          const std::function<bool(std::string_view)>& write) const {
  const exporters::Exporter* exporter = engine::catalog().exporter(format);
  if (exporter == nullptr) {
    std::vector<std::string> known;
    for (const ExportFormat& each : export_formats()) known.push_back(each.name);
    return make_error(
        ErrorCode::kInvalidArgument,
        "there is no export format " + std::string(format) + "; there are " + list_of(known));
  }
  CallbackOutput output(write);
  return exporter->write(exporters::ExportInput{state_->trace, state_->report, state_->lines},
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

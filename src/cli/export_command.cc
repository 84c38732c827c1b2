// plimsoll export: converts a recording to another format.

#include <algorithm>
#include <string>
#include <utility>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/line/common_options.h"
#include "cli/line/exit_code.h"
#include "cli/line/interruption.h"
#include "cli/line/progress_bar.h"
#include "cli/line/terminal.h"
#include "cli/name_file.h"
#include "cli/runs/child_process.h"
#include "cli/runs/output_file.h"
#include "cli/runs/python_package.h"
#include "plimsoll/session.h"
#include "redaction/redaction.h"

namespace plimsoll::cli {
namespace {

constexpr const char* kParquet = "parquet";  // a folder, which the Python package writes

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const ExportFormat& format : Session::export_formats()) names.push_back(format.name);
  names.emplace_back(kParquet);
  return names;
}

// "runs/snapshot.pickle.gz" -> "snapshot", the prefix of the output's name.
std::string stem(const std::string& path) {
  std::string name = path.substr(path.find_last_of('/') + 1);
  for (const char* suffix :
       {".gz", ".plim", ".pickle", ".pkl", ".html", ".json", ".pt.trace", ".trace"}) {
    const std::string_view end(suffix);
    if (name.size() > end.size() && name.ends_with(end)) name.resize(name.size() - end.size());
  }
  return name.empty() ? "recording" : name;
}

Status write_export(const Session& session, const std::string& format, OutputFile& output,
                    const Question& question, const ProgressCallback& progress) {
  Status status = session.export_to(
      format, [&](std::string_view bytes) { return !is_interrupted() && output.write(bytes); },
      question, progress);
  if (is_interrupted()) return make_error(ErrorCode::kInterrupted, "interrupted");
  if (output.reader_has_gone()) return {};
  if (!status && status.error().code != ErrorCode::kIo) return status;
  return output.finish();  // returns the reason why the output was rejected
}

Result<std::string> export_path(const Arguments& arguments, const std::string& suffix) {
  const std::string input = arguments.value("FILE");
  std::string path = arguments.value("--output", stem(input) + suffix);
  PLIMSOLL_TRY(check_not_an_input(path, {input}));
  return path;
}

Result<OutputFile> open_output(const Arguments& arguments, const std::string& path) {
  const Existing existing = arguments.has("--force") ? Existing::kReplace : Existing::kRefuse;
  return OutputFile::create(path, existing);
}

Status say_written(const std::string& path, const OutputFile& output, const std::string& more) {
  if (path == "-") return {};
  return print(path + " (" + base::bytes_text(output.size_bytes()) + ")" + more + "\n");
}

// "run.redacted.plim" -> "run.redacted.plim.names"; for standard output, named after the input.
std::string names_path(const Arguments& arguments, std::string_view path) {
  if (path == "-") return stem(arguments.value("FILE")) + ".redacted.names";
  return std::string(path) + ".names";
}

// What is written, and the file of the names that only the sender keeps. Nothing is written if
// either exists.
struct RedactedOutput {
  std::string path;
  std::string names;
  OutputFile output;
  OutputFile names_output;
};

Result<RedactedOutput> open_redacted(const Arguments& arguments, const std::string& suffix) {
  PLIMSOLL_TRY_ASSIGN(const std::string path, export_path(arguments, ".redacted" + suffix));
  const std::string names = names_path(arguments, path);
  PLIMSOLL_TRY(check_not_an_input(names, {arguments.value("FILE")}));
  PLIMSOLL_TRY_ASSIGN(OutputFile output, open_output(arguments, path));
  const Existing existing = arguments.has("--force") ? Existing::kReplace : Existing::kRefuse;
  PLIMSOLL_TRY_ASSIGN(OutputFile names_output,
                      OutputFile::create(names, existing, "-o", Readable::kByOwner));
  return RedactedOutput{path, names, std::move(output), std::move(names_output)};
}

Status finish_names(RedactedOutput& redacted, const NameMap& names) {
  redacted.names_output.write(names_text(names));
  PLIMSOLL_TRY(redacted.names_output.finish());
  const std::string kept = redacted.names + ": " + base::format_count(names.size()) +
                           " pseudonyms with their names; keep it (plimsoll decode)\n";
  return redacted.path == "-" ? Status() : print(kept);
}

Status write_redacted_recording(const Arguments& arguments) {
  for (const char* const option : {"--at", "--device"}) {
    if (!arguments.has(option)) continue;
    return make_error(
        ErrorCode::kInvalidArgument,
        std::string("--redact without --to writes the whole recording: leave out ") + option);
  }
  PLIMSOLL_TRY_ASSIGN(RedactedOutput redacted, open_redacted(arguments, ".plim"));
  const auto done = redaction::redact(arguments.value("FILE"), [&](std::string_view bytes) {
    return !is_interrupted() && redacted.output.write(bytes);
  });
  if (is_interrupted()) return make_error(ErrorCode::kInterrupted, "interrupted");
  if (!done) return done.error();
  if (!redacted.output.reader_has_gone()) PLIMSOLL_TRY(redacted.output.finish());
  std::string more;
  if (done->attachments > 0) {
    more += ", " + base::counted(done->attachments, "attached snapshot") + " left out";
  }
  if (done->damaged_blocks > 0) {
    more += ", " + base::counted(done->damaged_blocks, "damaged block") + " left out";
  }
  PLIMSOLL_TRY(say_written(redacted.path, redacted.output, more));
  return finish_names(redacted, done->names);
}

// The path and the output, opened before the recording is read.
Status write_format(const Arguments& arguments, const ExportFormat& format, OutputFile& output,
                    NameMap* pseudonyms) {
  const std::string input = arguments.value("FILE");
  ProgressBar bar(input);
  Question question;
  question.device = arguments.value("--device");
  question.at = arguments.value("--at");
  const ProgressCallback progress = [&](std::string_view stage, std::uint64_t done,
                                        std::uint64_t total) {
    return bar.advance(stage, done, total);
  };
  PLIMSOLL_TRY_ASSIGN(const Session session, Session::open(input, {progress, pseudonyms}));
  PLIMSOLL_TRY(write_export(session, format.name, output, question, progress));
  bar.clear();
  return {};
}

Status write_redacted_format(const Arguments& arguments, const ExportFormat& format) {
  PLIMSOLL_TRY_ASSIGN(RedactedOutput redacted, open_redacted(arguments, format.suffix));
  NameMap names;
  PLIMSOLL_TRY(write_format(arguments, format, redacted.output, &names));
  PLIMSOLL_TRY(say_written(redacted.path, redacted.output, ""));
  return finish_names(redacted, names);
}

Result<ExportFormat> chosen_format(const std::string& name) {
  const std::vector<ExportFormat> formats = Session::export_formats();
  const auto format = std::ranges::find(formats, name, &ExportFormat::name);
  if (format == formats.end()) {  // --to is one of the choices, so this build has no formats
    return make_error(ErrorCode::kInvalidArgument, "this build has no export formats");
  }
  return *format;
}

Status run(const Arguments& arguments) {
  const bool has_format = arguments.has("--to");
  if (arguments.has("--redact") && !has_format) {
    PLIMSOLL_TRY_ASSIGN(const bool is_native, redaction::is_native(arguments.value("FILE")));
    if (is_native) return write_redacted_recording(arguments);
  } else if (!has_format) {
    return make_error(ErrorCode::kInvalidArgument,
                      "plimsoll export needs --to FORMAT, or --redact (plimsoll export --help)");
  }
  PLIMSOLL_TRY_ASSIGN(const ExportFormat format,
                      chosen_format(arguments.value("--to", "snapshot")));
  if (arguments.has("--redact")) return write_redacted_format(arguments, format);
  PLIMSOLL_TRY_ASSIGN(const std::string path, export_path(arguments, format.suffix));
  PLIMSOLL_TRY_ASSIGN(OutputFile output, open_output(arguments, path));
  PLIMSOLL_TRY(write_format(arguments, format, output, nullptr));
  return say_written(path, output, "");
}

int write_parquet(const Arguments& arguments) {
  for (const char* const option : {"--redact", "--at", "--device"}) {
    if (!arguments.has(option)) continue;
    return complain(
        {ErrorCode::kInvalidArgument, std::string("--to parquet writes all tables of the "
                                                  "recording: leave out ") +
                                          option});
  }
  const Result<std::string> folder = export_path(arguments, ".parquet");
  if (!folder) return complain(folder.error());
  if (*folder == "-") {
    return complain({ErrorCode::kInvalidArgument, "--to parquet writes a folder: give its name"});
  }
  std::vector<std::string> words = package_file("_command/parquet.py");
  words.push_back(arguments.value("FILE"));
  words.push_back(*folder);
  if (arguments.has("--force")) words.emplace_back("--force");
  const Result<int> status = run_program(words);
  return status ? *status : complain(status.error());
}

int run_export(const Arguments& arguments) {
  if (arguments.value("--to") == kParquet) return write_parquet(arguments);
  const Status status = run(arguments);
  return status ? kFine : complain(status.error());
}

}  // namespace

Command export_command() {
  Command command;
  command.name = "export";
  command.summary = "Write a recording in another format";
  command.description =
      "Writes a recording in a format for other viewers, spreadsheets or programs.";
  command.positionals = {recording_positional("The recording.")};
  command.options = {
      {"--to", "", "FORMAT", "The format.", format_names()},
      {"--output", "-o", "PATH",
       "Output file; - is standard output. Default: the recording's name with the format's suffix, "
       "in the current folder."},
      {"--redact", "", "",
       "Write pseudonyms instead of paths, names and the command line, for sharing. Sizes, times "
       "and addresses are kept. Without --to, a Plimsoll recording stays one, and any other "
       "becomes a snapshot. Keep OUTPUT.names: with it, plimsoll decode puts the names into a "
       "reply."},
      {"--force", "", "", "Replace the output if it exists."},
      {"--at", "", "POINT", "Point in time, for formats that show one; as in plimsoll report."},
      {"--device", "", "DEVICE",
       "Only this device, if the format supports it; as in plimsoll report."},
  };
  command.sections = {
      {"formats", {}},
      {"examples",
       {{"plimsoll export snapshot.pickle --to speedscope", "for https://www.speedscope.app"},
        {"plimsoll export run.plim --redact", "run.redacted.plim, for a bug report"},
        {"plimsoll export run.pickle --to collapsed -o - | flamegraph.pl", "through a pipe"}}}};
  for (const ExportFormat& format : Session::export_formats()) {
    command.sections.front().rows.emplace_back(format.name, format.description);
  }
  command.sections.front().rows.emplace_back(
      kParquet,
      "all tables as Parquet files in a folder, for DuckDB, Polars, Spark; needs pyarrow");
  command.run = run_export;
  return command;
}

}  // namespace plimsoll::cli

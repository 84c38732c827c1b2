// plimsoll export: a recording in another format.

#include <sys/stat.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/common_options.h"
#include "cli/exit_code.h"
#include "cli/interruption.h"
#include "cli/output_file.h"
#include "cli/progress_bar.h"
#include "cli/terminal.h"
#include "plimsoll/session.h"

namespace plimsoll::cli {
namespace {

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const ExportFormat& format : Session::export_formats()) names.push_back(format.name);
  return names;
}

// "runs/snapshot.pickle.gz" -> "snapshot", to be put before the format's suffix.
std::string stem(const std::string& path) {
  std::string name = path.substr(path.find_last_of('/') + 1);
  for (const char* suffix :
       {".gz", ".plim", ".pickle", ".pkl", ".html", ".json", ".pt.trace", ".trace"}) {
    const std::string_view end(suffix);
    if (name.size() > end.size() && name.ends_with(end)) name.resize(name.size() - end.size());
  }
  return name.empty() ? "recording" : name;
}

bool is_same_file(const std::string& a, const std::string& b) {
  struct stat first{};
  struct stat second{};
  return ::stat(a.c_str(), &first) == 0 && ::stat(b.c_str(), &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

Status write_export(const Session& session, const std::string& format, OutputFile& output) {
  Status status = session.export_to(
      format, [&](std::string_view bytes) { return !is_interrupted() && output.write(bytes); });
  if (is_interrupted()) return make_error(ErrorCode::kInterrupted, "interrupted");
  if (output.reader_has_gone()) return {};
  if (!status && status.error().code != ErrorCode::kIo) return status;
  return output.finish();  // which knows why the output took no more
}

Result<std::string> output_path(const Arguments& arguments, const ExportFormat& format) {
  const std::string input = arguments.value("FILE");
  std::string path = arguments.value("--output", stem(input) + format.suffix);
  if (path != "-" && is_same_file(input, path)) {
    return make_error(ErrorCode::kInvalidArgument,
                      path + " is the recording itself; say -o and another name");
  }
  return path;
}

Status run(const Arguments& arguments) {
  const std::vector<ExportFormat> formats = Session::export_formats();
  const auto format = std::ranges::find(formats, arguments.value("--to"), &ExportFormat::name);
  if (format == formats.end()) {  // --to is checked as a choice, so there are no formats at all
    return make_error(ErrorCode::kInvalidArgument, "this build has no export formats");
  }
  PLIMSOLL_TRY_ASSIGN(const std::string path, output_path(arguments, *format));
  const Existing existing = arguments.has("--force") ? Existing::kReplace : Existing::kRefuse;
  PLIMSOLL_TRY_ASSIGN(OutputFile output, OutputFile::create(path, existing));

  const std::string input = arguments.value("FILE");
  ProgressBar bar(input);
  OpenOptions options;
  options.device = arguments.value("--device");
  options.at = arguments.value("--at", "peak");
  options.progress = [&](std::string_view stage, std::uint64_t done, std::uint64_t total) {
    return bar.advance(stage, done, total);
  };
  PLIMSOLL_TRY_ASSIGN(const Session session, Session::open(input, options));
  PLIMSOLL_TRY(write_export(session, format->name, output));
  bar.clear();
  if (path == "-") return {};
  return print(path + " (" + base::format_bytes(static_cast<std::int64_t>(output.size_bytes())) +
               ")\n");
}

int run_export(const Arguments& arguments) {
  const Status status = run(arguments);
  return status ? kFine : complain(status.error());
}

}  // namespace

Command export_command() {
  Command command;
  command.name = "export";
  command.summary = "Write a recording in another format";
  command.description =
      "Reads a recording and writes it as something else: for other viewers, for spreadsheets, for "
      "programs.";
  command.positionals = {recording_positional("The recording.")};
  command.options = {
      {"--to", "", "FORMAT", "The format.", format_names(), false, true},
      {"--output", "-o", "PATH",
       "Where to write; - is standard output. Default: the recording's name with the format's "
       "suffix, "
       "in the current folder. The file appears when it is complete."},
      {"--force", "", "", "Replace the output if it exists."},
      {"--at", "", "MOMENT", "For formats that speak of a moment: as in plimsoll report."},
      {"--device", "", "DEVICE", "Only this device, where the format can: as in plimsoll report."},
  };
  command.sections = {
      {"formats", {}},
      {"examples",
       {{"plimsoll export snapshot.pickle --to speedscope", "for https://www.speedscope.app"},
        {"plimsoll export run.pickle --to collapsed -o - | flamegraph.pl", "through a pipe"}}}};
  for (const ExportFormat& format : Session::export_formats()) {
    command.sections.front().rows.emplace_back(format.name, format.description);
  }
  command.run = run_export;
  return command;
}

}  // namespace plimsoll::cli

// plimsoll schema: the JSON Schemas of `plimsoll report --json` and `plimsoll analyze --json`.

#include <string>

#include "base/json_schema.h"
#include "base/json_writer.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/terminal.h"
#include "monitor/log_summary.h"
#include "report/report.h"

namespace plimsoll::cli {
namespace {

int run_schema(const Arguments& arguments) {
  std::string text;
  base::JsonWriter json(
      [&](std::string_view piece) {
        text += piece;
        return true;
      },
      base::JsonWriter::Style::kIndented);
  const std::string what = arguments.value("WHAT", "report");
  if (what == "report") {
    base::write_json_schema<report::Report>(json, "Plimsoll report");
  } else if (what == "analyze") {
    base::write_json_schema<monitor::LogSummary>(json, "Plimsoll summary of a log");
  } else {
    complain("there is no schema of " + what + ": say report or analyze");
    return kWrongUse;
  }
  json.finish();
  const Status status = print(text + "\n");
  if (status) return kFine;
  complain(status.error().message);
  return exit_code_of(status.error().code);
}

}  // namespace

Command schema_command() {
  Command command;
  command.name = "schema";
  command.summary = "Print the JSON Schema of the report, or of analyze";
  command.description =
      "Prints the JSON Schema (draft 2020-12) of what plimsoll report --json prints, or "
      "plimsoll analyze --json. Within a "
      "major "
      "version of it, fields are added and never renamed or removed.";
  command.positionals = {{"WHAT", "report (default) or analyze.", Count::kAtMostOne}};
  command.run = run_schema;
  return command;
}

}  // namespace plimsoll::cli

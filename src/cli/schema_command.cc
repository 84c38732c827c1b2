// plimsoll schema: prints the JSON Schemas of `plimsoll report --json` and of
// `plimsoll analyze --json`, for one log and for several.

#include <string>

#include "base/json_schema.h"
#include "base/json_writer.h"
#include "budgets/check.h"
#include "cli/commands.h"
#include "cli/line/exit_code.h"
#include "cli/line/terminal.h"
#include "comparison/diff.h"
#include "logs/comparison.h"
#include "logs/summary.h"
#include "report/report.h"

namespace plimsoll::cli {
namespace {

int run_schema(const Arguments& arguments) {
  const std::string what = arguments.value("WHAT", "report");
  const Status status = print(base::json_text([&](base::JsonWriter& json) {
    if (what == "report") {
      base::write_json_schema<report::Report>(json, "Plimsoll report");
    } else if (what == "diff") {
      base::write_json_schema<comparison::Diff>(json, "Plimsoll difference of two recordings");
    } else if (what == "check") {
      base::write_json_schema<budgets::Check>(json, "Plimsoll check of budgets");
    } else if (what == "digest") {
      base::write_json_schema<report::Digest>(json, "Plimsoll digest of a recording");
    } else if (what == "comparison") {
      base::write_json_schema<logs::LogComparison>(json, "Plimsoll comparison of logs");
    } else {
      base::write_json_schema<logs::LogSummary>(json, "Plimsoll summary of a log");
    }
  }));
  return status ? kFine : complain(status.error());
}

}  // namespace

Command schema_command() {
  Command command;
  command.name = "schema";
  command.summary = "Print the JSON Schema of a report or another result";
  command.description =
      "Prints the JSON Schema (draft 2020-12) of a result. Within a major version, fields are "
      "added and never renamed or removed.";
  command.positionals = {
      {"WHAT",
       "The result: of plimsoll report --json (default), plimsoll analyze --json for one log or "
       "several (comparison), plimsoll diff --json, plimsoll check --format json, or a digest.",
       Count::kAtMostOne,
       Takes::kAnything,
       {"report", "analyze", "comparison", "diff", "digest", "check"}}};
  command.run = run_schema;
  return command;
}

}  // namespace plimsoll::cli

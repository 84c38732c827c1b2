// plimsoll fleet: many ranks and runs in one folder. The package does the work, with pyarrow and
// DuckDB (python/plimsoll/fleet).

#include <algorithm>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/line/exit_code.h"
#include "cli/line/terminal.h"
#include "cli/runs/child_process.h"
#include "cli/runs/python_package.h"

namespace plimsoll::cli {
namespace {

struct FleetOption {
  Option option;
  std::vector<std::string> actions;  // that take it
};

const std::vector<FleetOption>& fleet_options() {
  static const std::vector<FleetOption> kOptions = {
      {{"--run", "", "NAME",
        "The run. Default: add uses the name of the recordings' folder, show the run that began "
        "last, finish all runs."},
       {"add", "show", "finish"}},
      {{"--commit", "", "SHA", "add: the commit of the program."}, {"add"}},
      {{"--tag",
        "",
        "NAME=VALUE",
        "add: a label of the run; may be repeated. Runs with the same workload are one "
        "history; without this tag, those with the same command line.",
        {},
        true},
       {"add"}},
      {{"--mesh", "", "AXES",
        "add: the device mesh, outermost axis first: pp=4,dp=8,tp=2. Ranks that differ only in dp "
        "and cp are compared. Without it, ranks with the same layers are."},
       {"add"}},
      {{"--replace", "", "", "add: replace other recordings of the same ranks."}, {"add"}},
      {{"--ray", "", "ADDRESS",
        "add: read the recordings in tasks of this Ray cluster (auto: the one that runs here). "
        "Default: in processes of this machine."},
       {"add"}},
      {{"--against", "", "NAME", "show: the earlier run to compare with."}, {"show"}},
      {{"--by",
        "",
        "KEY",
        "show: group bytes by line, layer or category; rank lists all ranks.",
        {"line", "layer", "category", "rank"}},
       {"show"}},
      {{"--history", "", "", "show: the peak of each run, and where it changed."}, {"show"}},
      {{"--html", "", "PATH", "show: write a page with a map of ranks and steps."}, {"show"}},
      {{"--json", "", "", "show: print all rows as JSON."}, {"show"}},
  };
  return kOptions;
}

int run_fleet(const Arguments& arguments) {
  const std::string action = arguments.value("ACTION");
  const std::size_t files = arguments.values("FILE").size();
  if (action == "sql" ? files != 1 : action == "add" ? files == 0 : files > 0) {
    const std::string needs = action == "sql"   ? "one query"
                              : action == "add" ? "recordings"
                                                : "nothing";
    return complain({ErrorCode::kInvalidArgument, "plimsoll fleet " + action + " takes " + needs +
                                                      " after DIR (plimsoll fleet --help)"});
  }
  std::vector<std::string> words = package_file("_command/fleet.py");
  words.push_back(action);
  for (const FleetOption& each : fleet_options()) {
    const std::string& name = each.option.name;
    if (!arguments.has(name)) continue;
    if (std::ranges::find(each.actions, action) == each.actions.end()) {
      return complain(
          {ErrorCode::kInvalidArgument, "plimsoll fleet " + action + " does not take " + name});
    }
    if (each.option.value.empty()) words.push_back(name);
    for (const std::string& value : arguments.values(name)) {
      if (!each.option.value.empty()) words.push_back(name + "=" + value);
    }
  }
  words.emplace_back("--");
  words.push_back(arguments.value("DIR"));
  for (const std::string& each : arguments.values("FILE")) words.push_back(each);
  const Result<int> status = run_program(words);
  return status ? *status : complain(status.error());
}

}  // namespace

Command fleet_command() {
  Command command;
  command.name = "fleet";
  command.summary = "Compare many ranks and many runs without their recordings";
  command.description =
      "Stores a summary of each recording in Parquet files, on a disk or an object store. Reports "
      "which rank ran out of memory first, which one differs and where, how much memory is free, "
      "and what changed since an earlier run. Needs pyarrow and duckdb.";
  command.positionals = {
      {"ACTION",
       "add: add recordings. show: what matters about a run. sql: print the result of a query. "
       "finish: join small files, after many single adds.",
       Count::kOne,
       Takes::kAnything,
       {"add", "show", "sql", "finish"}},
      {"DIR", "The fleet: a folder, or an address such as s3://bucket/runs.", Count::kOne},
      {"FILE",
       "add: the recordings, one for each rank. sql: the query; - reads it from standard input.",
       Count::kAny}};
  for (const FleetOption& each : fleet_options()) command.options.push_back(each.option);
  command.sections = {
      {"examples",
       {{"plimsoll fleet add runs rank*.plim --run monday", "the ranks of a run"},
        {"plimsoll fleet show runs --run tuesday --against monday", "what changed"},
        {"srun plimsoll fleet add /shared/runs run.rank$SLURM_PROCID.plim --run $SLURM_JOB_ID",
         "each rank adds its own"},
        {"plimsoll fleet sql runs 'select run, rank, peak_bytes from ranks order by all'",
         "any other question"}}}};
  command.run = run_fleet;
  return command;
}

}  // namespace plimsoll::cli

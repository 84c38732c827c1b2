// plimsoll run: replaces this process with the Python that records a script, or runs a program that
// records itself (linked_program_run.h) or is recorded by a preloaded library (cuda_driver_run.h).
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/suggestion.h"
#include "cli/commands.h"
#include "cli/line/exit_code.h"
#include "cli/line/terminal.h"
#include "cli/runs/cuda_driver_run.h"
#include "cli/runs/linked_program_run.h"
#include "cli/runs/python_package.h"
#include "cli/runs/run_log.h"

namespace plimsoll::cli {
namespace {

// Replaces this process; returns only if the program cannot be started.
int become(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  ::execvp(pointers.front(), pointers.data());
  complain("cannot start " + words.front() + ": " + std::strerror(errno));
  return kUsageError;
}

struct ProgramOptions {
  std::string output;
  bool is_forced = false;
  bool has_cuda_driver = false;
  std::vector<std::pair<const char*, std::string>> environment = {};  // set for linked programs
};

const std::vector<std::string> kModes = {"full", "lite"};
const std::vector<std::string> kUses = {"auto", "always", "sampled", "never"};
const std::vector<std::string> kAttributions = {"observer", "native"};

// `given` is what precedes the value: "--mode " or "PLIMSOLL_MODE=".
Status check_choice(const std::string& given, const std::string& value,
                    const std::vector<std::string>& choices) {
  if (std::ranges::find(choices, value) != choices.end()) return {};
  return make_error(ErrorCode::kInvalidArgument, given + value + " is not one of " +
                                                     base::joined(choices) +
                                                     base::did_you_mean(value, choices));
}

// `value` may be null: the variable is not set.
Status check_variable(const std::string& name, const char* value,
                      const std::vector<std::string>& choices) {
  if (value == nullptr || *value == '\0') return {};
  return check_choice(name + "=", value, choices);
}

// After setting the variables of the options, so that either of the two may come from elsewhere.
Status check_variables() {
  const char* const mode = std::getenv("PLIMSOLL_MODE");
  const char* const uses = std::getenv("PLIMSOLL_USES");
  PLIMSOLL_TRY(check_variable("PLIMSOLL_MODE", mode, kModes));
  PLIMSOLL_TRY(check_variable("PLIMSOLL_USES", uses, kUses));
  const std::string wanted = uses == nullptr ? "" : uses;
  if (mode == nullptr || std::string_view(mode) != "lite") return {};
  if (wanted != "always" && wanted != "sampled") return {};
  return make_error(ErrorCode::kInvalidArgument,
                    "--mode lite contradicts --uses " + wanted + ": lite observes no uses");
}

Status check_value(const std::string& option, const std::string& value) {
  if (option == "--uses") return check_choice("--uses ", value, kUses);
  if (option == "--mode") return check_choice("--mode ", value, kModes);
  const bool is_number = !value.empty() && value.size() < 19 && value != "0" &&
                         value.find_first_not_of("0123456789") == std::string::npos;
  if (option == "--max-events" && !is_number)
    return make_error(ErrorCode::kInvalidArgument,
                      "--max-events " + value + " is not a whole number above 0");
  return {};
}

// The options before `--`.
Result<ProgramOptions> program_options(const std::vector<std::string>& words) {
  ProgramOptions options;
  const std::map<std::string_view, const char*> variables = {
      {"--mode", "PLIMSOLL_MODE"},
      {"--uses", "PLIMSOLL_USES"},
      {"--max-events", "PLIMSOLL_MAX_EVENTS"}};
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool has_value = i + 1 < words.size();
    if ((word == "-o" || word == "--output") && has_value) {
      options.output = words[++i];
    } else if (word == "--force") {
      options.is_forced = true;
    } else if (word == "--cuda-driver") {
      options.has_cuda_driver = true;
    } else if (word == "--in-children") {
      options.environment.emplace_back("PLIMSOLL_IN_CHILDREN", "1");
    } else if (const auto found = variables.find(word); found != variables.end() && has_value) {
      PLIMSOLL_TRY(check_value(word, words[++i]));
      options.environment.emplace_back(found->second, words[i]);
    } else {
      return make_error(
          ErrorCode::kInvalidArgument,
          word +
              " cannot be used before --; allowed options: --output PATH, --force, "
              "--mode MODE, --uses USES, --max-events N, --in-children, --cuda-driver");
    }
  }
  if (options.has_cuda_driver && !options.environment.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--cuda-driver allows only --output and --force");
  }
  return options;
}

int record_program(const std::vector<std::string>& words, const std::vector<std::string>& program) {
  if (program.empty()) {
    complain("no program given after -- (plimsoll run --help)");
    return kUsageError;
  }
  const auto options = program_options(words);
  if (!options) return complain(options.error());
  std::string output = options->output;
  if (const char* const wanted = std::getenv("PLIMSOLL_OUT"); output.empty() && wanted != nullptr)
    output = wanted;
  const std::string path = output_path(output, program.front());
  if (const Status status = check_output(path); !status) return complain(status.error());
  for (const auto& [name, value] : options->environment) ::setenv(name, value.c_str(), 1);
  const Status known = options->has_cuda_driver ? Status() : check_variables();
  if (!known) return complain(known.error());
  if (options->is_forced) remove_earlier(path);
  if (options->has_cuda_driver) return run_with_cuda_driver(path, program);
  return run_linked_program(path, program);
}

// Returns where our options end: at the script, at `--` or after the last word. The rest belongs to
// the program.
std::vector<std::string>::const_iterator end_of_options(const std::vector<std::string>& words) {
  constexpr std::array<std::string_view, 8> kWithValue = {
      "-o",           "--output",      "--mode",    "--uses",
      "--max-events", "--attribution", "--adapter", "--fleet"};
  auto at = words.begin();
  while (at != words.end() && *at != "--" && at->starts_with("-")) {
    const bool has_value = std::ranges::find(kWithValue, *at) != kWithValue.end();
    ++at;
    if (has_value && at != words.end() && *at != "--") ++at;
  }
  return at;
}

// "python", "/env/bin/python3", "python3.11": users often put a whole command line after `run`.
bool is_python(std::string_view word) {
  word.remove_prefix(word.rfind('/') + 1);
  constexpr std::string_view kName = "python";
  return word.starts_with(kName) &&
         word.find_first_not_of("0123456789.", kName.size()) == word.npos;
}

int run_words(const std::vector<std::string>& words) {
  const auto end = end_of_options(words);
  const bool has_dashes = end != words.end() && *end == "--";
  const auto program = has_dashes ? end + 1 : end;
  const bool has_cuda_driver = std::find(words.begin(), end, "--cuda-driver") != end;
  const bool names_python = program != words.end() && is_python(*program) && !has_cuda_driver;
  if (has_dashes && !names_python)
    return record_program({words.begin(), end}, {program, words.end()});
  if (has_cuda_driver) return record_program({}, {});
  std::vector<std::string> line =
      package_file("_command/launch.py", names_python ? *program : python());
  line.insert(line.end(), words.begin(), end);
  line.insert(line.end(), program, words.end());
  return become(line);
}

}  // namespace

Command run_command() {
  Command command;
  command.name = "run";
  command.summary = "Run a Python script or a program, and record its memory";
  command.description =
      "Runs the script as python3 would, and records every tensor allocation for plimsoll report. "
      "The interpreter is $PLIMSOLL_PYTHON, or the one next to this command, or python3 on PATH. "
      "After --, give a program linked with Plimsoll; with --cuda-driver, any program that uses "
      "CUDA.";
  command.positionals = {{"SCRIPT", "Script and its arguments.", Count::kOneOrMore}};
  command.options = {
      {"--output", "-o", "PATH",
       "The recording. Default: plimsoll-SCRIPT-PID.plim. If it exists, the next free name is "
       "used: run.2.plim."},
      {"--force", "", "",
       "Replace an earlier recording at PATH. Any other file is kept, and one that is still being "
       "recorded."},
      {"--module", "-m", "", "SCRIPT is a module name, as in python -m."},
      {"--mode", "", "MODE",
       "full, or lite: only allocations, layers and phases, at a fraction of the cost. Default: "
       "$PLIMSOLL_MODE, or full.",
       kModes},
      {"--uses", "", "USES",
       "In which steps to record the last use of memory, in the mode full. auto: all if that costs "
       "at most 1 % of a step, else sampled (the first three and every 64th). Default: "
       "$PLIMSOLL_USES, or auto.",
       kUses},
      {"--attribution", "", "HOW",
       "How to find the operator of an allocation: observer, by torch's observer of operators; or "
       "native, by the native stack, at a fraction of the cost. Default: $PLIMSOLL_ATTRIBUTION, or "
       "observer.",
       kAttributions},
      {"--max-events", "", "N", "Keep about the newest N events; earlier ones remain as totals."},
      {"--no-stacks", "", "", "Record no Python lines."},
      {"--no-source-text", "", "",
       "Record hashes of the Python lines instead of their text, enough for plimsoll diff."},
      {"--in-children", "", "", "Also record forked children, each into PATH.PID."},
      {"--adapter",
       "",
       "ADAPTER",
       "How to observe torch: libtorch (compiled hooks), python (without a compiler).",
       {"auto", "libtorch", "python", "none"}},
      {"--fleet", "", "DIR",
       "When the recording has ended, add it to this fleet (plimsoll fleet), as a rank of the "
       "job."},
      {"--cuda-driver", "", "",
       "Record what the program after --, and the programs that it starts, request from CUDA, each "
       "into a file of its own."},
  };
  command.sections = {
      {"examples",
       {{"plimsoll run train.py --epochs 3", "records into plimsoll-train-PID.plim"},
        {"plimsoll run -o run.plim -m package.train", "a module"},
        {"plimsoll run -o run.plim -- ./train", "a C++ program"},
        {"plimsoll run --cuda-driver -- ./solver mesh.vtk", "any CUDA program"}}}};
  command.run_words = run_words;
  return command;
}

}  // namespace plimsoll::cli

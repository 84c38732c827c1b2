// plimsoll decode: puts the names back into a text about a redacted recording.

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/input_file.h"
#include "cli/commands.h"
#include "cli/line/exit_code.h"
#include "cli/line/terminal.h"
#include "cli/name_file.h"

namespace plimsoll::cli {
namespace {

// "-" is standard input.
Result<std::string> whole_text(const std::string& path) {
  const base::InputFile file = path == "-" ? nullptr : base::open_input(path);
  std::FILE* const input = path == "-" ? stdin : file.get();
  std::optional<std::string> text;
  if (input != nullptr) text = base::read_rest(input);
  if (!text) return make_error(ErrorCode::kIo, path + ": cannot read: " + std::strerror(errno));
  return *std::move(text);
}

Status decode(const Arguments& arguments) {
  const std::string path = arguments.value("NAMES");
  PLIMSOLL_TRY_ASSIGN(const std::string names_file, whole_text(path));
  PLIMSOLL_TRY_ASSIGN(const NameMap names, read_names(names_file, path));
  PLIMSOLL_TRY_ASSIGN(const std::string text, whole_text(arguments.value("TEXT", "-")));
  return print(decoded(text, names));
}

int run_decode(const Arguments& arguments) {
  const Status status = decode(arguments);
  return status ? kFine : complain(status.error());
}

}  // namespace

Command decode_command() {
  Command command;
  command.name = "decode";
  command.summary = "Put the names back into a text about a redacted recording";
  command.description =
      "Replaces the pseudonyms of plimsoll export --redact (name_1, file_2, folder_3) in a text by "
      "the names that they stand for.";
  command.positionals = {{"NAMES", "The file of the names: run.redacted.plim.names."},
                         {"TEXT", "The text; - is standard input (default).", Count::kAtMostOne}};
  command.sections = {
      {"examples",
       {{"plimsoll report run.redacted.plim | plimsoll decode run.redacted.plim.names",
         "the report with its names"}}}};
  command.run = run_decode;
  return command;
}

}  // namespace plimsoll::cli

// The table of commands. A new command needs its file, a line here and a line in the table.
#pragma once

#include <vector>

#include "cli/line/command.h"

namespace plimsoll::cli {

Command run_command();
Command analyze_command();
Command report_command();
Command export_command();
Command decode_command();
Command plot_command();
Command dump_command();
Command top_command();
Command holders_command();
Command nsys_command();
Command demo_command();
Command diff_command();
Command check_command();
Command bisect_command();
Command prepare_command();
Command enable_command();
Command disable_command();
Command verify_command();
Command fleet_command();
Command completion_command();
Command schema_command();
Command help_command();

const std::vector<Command>& commands();
const Command* find_command(std::string_view name);

}  // namespace plimsoll::cli

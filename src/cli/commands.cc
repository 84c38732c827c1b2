#include "cli/commands.h"

#include <algorithm>

namespace plimsoll::cli {

const std::vector<Command>& commands() {
  static const std::vector<Command> kTable = {
      run_command(),        report_command(),  export_command(),  decode_command(),
      plot_command(),       top_command(),     holders_command(), analyze_command(),
      diff_command(),       check_command(),   bisect_command(),  verify_command(),
      fleet_command(),      nsys_command(),    demo_command(),    dump_command(),
      schema_command(),     prepare_command(), enable_command(),  disable_command(),
      completion_command(), help_command()};
  return kTable;
}

const Command* find_command(std::string_view name) {
  const auto found = std::ranges::find(commands(), name, &Command::name);
  return found == commands().end() ? nullptr : &*found;
}

}  // namespace plimsoll::cli

// The result of src/config for a YAML file, for tests/test_config_conformance.py: "ok" and a line
// for each option that is not at its default, or the code of the error and its sentence. Paths come
// on stdin, one per line; a line "." ends each answer.
#include <iostream>
#include <string>

#include "plimsoll/monitor_config.h"

int main() {
  const plimsoll::MonitorOptions defaults;
  for (std::string path; std::getline(std::cin, path);) {
    const auto options = plimsoll::load_monitor_options(path);
    if (options) {
      std::cout << "ok\n";
      for (const plimsoll::MonitorOptionHelp& option : plimsoll::monitor_options_help()) {
        const std::string text = options->text(option.name);
        if (text != option.default_value) std::cout << option.name << "=" << text << "\n";
      }
    } else {
      std::cout << to_string(options.error().code) << "\n" << options.error().message << "\n";
    }
    std::cout << "." << std::endl;
  }
}

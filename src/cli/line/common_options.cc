#include "cli/line/common_options.h"

#include <charconv>
#include <system_error>

#include "cli/line/terminal.h"

namespace plimsoll::cli {

Positional recording_positional(const std::string& help, Count count) {
  return {"FILE", help + " latest is the newest *.plim in or below the current folder.", count,
          Takes::kRecording};
}

Option color_option() {
  return {"--color",
          "",
          "WHEN",
          "Color (default auto: on a terminal, unless NO_COLOR is set).",
          {"auto", "always", "never"}};
}

text::Color chosen_color(const Arguments& arguments) {
  return output_color(arguments.value("--color", "auto"));
}

Result<std::size_t> chosen_top(const Arguments& arguments, std::size_t if_not_given) {
  if (!arguments.has("--top")) return if_not_given;
  const std::string text = arguments.value("--top");
  std::size_t rows = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rows);
  if (error != std::errc{} || end != text.data() + text.size() || rows == 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--top " + text + " is not a number of rows; give 1 or more");
  }
  return rows;
}

}  // namespace plimsoll::cli

#include "cli/line/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cli/line/exit_code.h"
#include "text/layout.h"

namespace plimsoll::cli {
namespace {

bool is_dumb() {
  const char* term = std::getenv("TERM");
  return term != nullptr && std::string_view(term) == "dumb";
}

}  // namespace

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

std::size_t output_width(std::size_t widest) {
  constexpr std::size_t kNoTerminal = 100;
  winsize size{};
  if (::isatty(STDOUT_FILENO) == 0 || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
    return kNoTerminal;
  return size.ws_col == 0 ? kNoTerminal : std::min<std::size_t>(size.ws_col, widest);
}

text::Color output_color(std::string_view when) {
  using text::Color;
  if (when == "always") return Color::kOn;
  if (when == "never" || is_set("NO_COLOR") || is_dumb()) return Color::kOff;
  return ::isatty(STDOUT_FILENO) != 0 ? Color::kOn : Color::kOff;
}

std::size_t progress_width() {
  winsize size{};
  const bool is_known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return is_known ? size.ws_col : 80;
}

bool can_draw_pages() { return ::isatty(STDOUT_FILENO) != 0 && !is_dumb(); }

bool can_show_progress() { return ::isatty(STDERR_FILENO) != 0 && !is_dumb(); }

Status print(std::string_view text) {
  errno = 0;
  const bool is_written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (is_written || errno == EPIPE) return {};
  return make_error(ErrorCode::kInternal,
                    "cannot write to standard output: " + std::string(std::strerror(errno)));
}

void complain(std::string_view sentence) {
  const std::string line = "plimsoll: " + text::printable(sentence) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

int complain(const Error& error) {
  complain(error.message);
  return exit_code_of(error.code);
}

}  // namespace plimsoll::cli

// The summary of a log as a person reads it: the findings first, then the summary that users
// of profilers know, then how each device went, what fills it at the end, the host, and a line on
// the file.
#pragma once

#include <cstddef>
#include <string>

#include "logs/summary.h"
#include "text/style.h"

namespace plimsoll::cli {

struct LogTextOptions {
  std::size_t width = 100;
  text::Color color = text::Color::kOff;
  std::size_t top = 10;  // rows of each table
};

std::string to_text(const logs::LogSummary& summary, const LogTextOptions& options);

}  // namespace plimsoll::cli

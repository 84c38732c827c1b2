// The summary of a log as text: findings, then a summary as other profilers print it, then how each
// device changed and what fills it at the end, the host, and a line about the file.
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

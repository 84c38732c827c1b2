// plimsoll report --html: the reports of one or several recordings as one page.
#pragma once

#include "cli/line/command.h"
#include "plimsoll/session.h"

namespace plimsoll::cli {

// Writes the page and returns the exit code.
int write_report_page(const Arguments& arguments, const Question& question);

}  // namespace plimsoll::cli

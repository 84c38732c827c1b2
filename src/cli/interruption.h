// Ctrl-C: the first asks the running job to stop, which it does at its next sign of progress; the
// second ends the process at once.
#pragma once

namespace plimsoll::cli {

void watch_for_interruption();
bool is_interrupted();

}  // namespace plimsoll::cli

// Ctrl-C: the first asks the running job to stop at its next progress report; the second ends the
// process immediately.
#pragma once

namespace plimsoll::cli {

void watch_for_interruption();
// The same for SIGTERM and SIGHUP, for commands that must clean up.
void watch_for_termination();
bool is_interrupted();

}  // namespace plimsoll::cli

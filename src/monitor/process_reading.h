// Readings of this process's memory, for recordings. In a reading of the device "cpu", `own` is the
// resident set. Compared with the tensors, it shows how much of the process they explain.
#pragma once

namespace plimsoll::monitor {

// Adds a reading to all recordings. Does nothing while nothing is recorded, or if Linux does not
// reveal the figures.
void record_process_memory();

}  // namespace plimsoll::monitor

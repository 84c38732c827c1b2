// The fragmentation in a log's last samples, for `plimsoll analyze`. As in the detector's rule,
// only memory that no peak has used counts: above 30 % of the reserved memory it is a note, above
// 40 % a warning. In a log without peaks, a ratio of the last sample above 30 % is a note.
#pragma once

#include <optional>
#include <vector>

#include "alerts/detection.h"
#include "plimsoll/memory_sample.h"

namespace plimsoll::alerts {

inline constexpr double kModeratePercent = 30;
inline constexpr double kHighPercent = 40;

// Adds the note on the final state of `device`, at `iteration`, to `findings`. highest_peak_bytes
// is the run's highest peak. A finding of the detector about the same device stays; above 40 % it
// becomes a warning.
void add_fragmentation_note(const DeviceMemory& device, std::int64_t iteration,
                            std::optional<std::uint64_t> highest_peak_bytes,
                            const DetectionOptions& options, std::vector<MemoryAlert>& findings);

}  // namespace plimsoll::alerts

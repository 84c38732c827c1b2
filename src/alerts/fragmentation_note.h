// What a log's last samples say about fragmentation, for `plimsoll analyze`: above 30 % a note,
// above 40 % a warning. The detector's own rule (detection.h) alerts while a program runs, and only
// where no peak has used the cached memory; a summary is read by people who look for the percentage
// itself.
#pragma once

#include <optional>
#include <vector>

#include "alerts/detection.h"
#include "plimsoll/memory_sample.h"

namespace plimsoll::alerts {

inline constexpr double kModeratePercent = 30;
inline constexpr double kHighPercent = 40;

// `findings` with the note on `device` as it was at `iteration`, its end. highest_peak_bytes: of
// the run. A finding of the detector about the same device stays; it becomes a warning above 40 %.
void add_fragmentation_note(const DeviceMemory& device, std::int64_t iteration,
                            std::optional<std::uint64_t> highest_peak_bytes,
                            const DetectionOptions& options, std::vector<Alert>& findings);

}  // namespace plimsoll::alerts

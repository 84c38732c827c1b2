// What holds the tensors of an alert, in the alert.
#pragma once

#include "plimsoll/finding.h"
#include "plimsoll/training_monitor.h"

namespace plimsoll::alerts {

// Whether the alert is about tensors that the program keeps, other than its model's.
bool is_about_kept_tensors(const MemoryAlert& alert);

// Adds the holder to the title and the evidence, and its edit as the first step.
void name_holder(const HeldBy& by, MemoryAlert& alert);

}  // namespace plimsoll::alerts

// The field lists of findings and alerts.
#pragma once

#include "base/fields.h"
#include "plimsoll/finding.h"

namespace plimsoll {

constexpr auto Finding::fields() {
  using base::Field;
  return base::field_list(Field{"id", &Finding::id, "Stable name of the finding."},
                          Field{"severity", &Finding::severity, "info, warning or critical."},
                          Field{"title", &Finding::title, "The verdict."},
                          Field{"evidence", &Finding::evidence,
                                "The facts behind the verdict, with numbers and places."},
                          Field{"next_step", &Finding::next_step, "What to do, as an imperative."},
                          Field{"saving_bytes", &Finding::saving_bytes,
                                "Bytes that the next step would save; 0 if none or unknown."});
}

constexpr auto MemoryAlert::fields() {
  using base::Field;
  return [](auto&& visitor) {
    Finding::fields()(visitor);
    base::field_list(Field{"device", &MemoryAlert::device, "The device, or host."},
                     Field{"subject", &MemoryAlert::subject,
                           "The category that the finding is about; may be empty."},
                     Field{"iteration", &MemoryAlert::iteration,
                           "Iteration of the sample that raised it."})(visitor);
  };
}

}  // namespace plimsoll

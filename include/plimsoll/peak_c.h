/* What was live at the peak of a span (plimsoll_recording_begin_span). The rules of recorder_c.h
 * (threads, ABI, ids) apply. */
#ifndef PLIMSOLL_PEAK_C_H_
#define PLIMSOLL_PEAK_C_H_

#include "plimsoll/recorder_c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What memory is used for: the numbers of plimsoll_role, and for memory whose role is none or
 * PLIMSOLL_ROLE_KNOWN those below. 0 is the rest. */
enum {
  PLIMSOLL_USE_FORWARD = PLIMSOLL_ROLE_ACTIVATION, /* allocated in forward */
  PLIMSOLL_USE_BACKWARD = 8,
  PLIMSOLL_USE_OPTIMIZER = 9,
  PLIMSOLL_USE_TEMPORARY = 10, /* freed since in the operator that allocated it */
  PLIMSOLL_USE_ADOPTED = 11,   /* allocated before the recorder first saw it */
  PLIMSOLL_USES = 12
};

/* What was live on a device at the peak of a span, as known now. */
typedef struct plimsoll_peak {
  uint64_t bytes;
  uint64_t uses[PLIMSOLL_USES]; /* of bytes; they sum to it */
  size_t largest_count;
  plimsoll_live largest[5]; /* the largest allocations, largest first; also those freed since */
  uint8_t phase;            /* plimsoll_phase of the allocation that made the peak */
} plimsoll_peak;

/* Returns 0 if the span or the recording has ended. */
PLIMSOLL_EXPORT int plimsoll_recording_peak(plimsoll_recording* recording, uint64_t span,
                                            uint8_t device, plimsoll_peak* peak);

#ifdef __cplusplus
}
#endif

#endif

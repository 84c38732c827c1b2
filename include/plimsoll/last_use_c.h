/* Memory that no operator has used for a while, for monitors (docs/last-use.md). The rules of
 * recorder_c.h (threads, ABI, ids) apply. */
#ifndef PLIMSOLL_LAST_USE_C_H_
#define PLIMSOLL_LAST_USE_C_H_

#include "plimsoll/recorder_c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A point between two operators. */
typedef struct plimsoll_use_point {
  uint64_t clock; /* allocations so far, as use_clock() counts them */
  uint64_t span;  /* number of the span of time in which uses are observed without a gap; 0: they
                     are not observed */
} plimsoll_use_point;

/* Returns the current point. Takes no lock. */
PLIMSOLL_EXPORT plimsoll_use_point plimsoll_use_point_now(void);

/* Copies at most `capacity` live allocations that no operator has used since a point, in any order,
 * and returns their total number. A use between the last allocation before the point and the point
 * itself counts as later. Memory whose last use is unknown is not included. Returns SIZE_MAX if
 * uses were not observed during the whole time, or the recording has ended. */
PLIMSOLL_EXPORT size_t plimsoll_recording_unused(plimsoll_recording* recording,
                                                 plimsoll_use_point since, plimsoll_live* rows,
                                                 size_t capacity);

#ifdef __cplusplus
}
#endif

#endif

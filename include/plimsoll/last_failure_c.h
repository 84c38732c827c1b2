/* Why memory ran out, as the recorder alone can tell it while the program still runs: for reports
 * where no engine is installed. As recorder_c.h in all else. */
#ifndef PLIMSOLL_LAST_FAILURE_C_H_
#define PLIMSOLL_LAST_FAILURE_C_H_

#include "plimsoll/recorder_c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a request that could not be met found: the last one on the device. A piece is stranded if it
 * is too small for the request, or of another stream, pool or kind of segment, and a block in use
 * keeps it from being given back to the driver. */
typedef struct plimsoll_stranded {
  uint64_t free_bytes; /* in all segments */
  uint64_t stranded_bytes;
  uint64_t largest_usable_bytes; /* the largest piece where the request may be served from */
} plimsoll_stranded;

/* The blocks of one place that keep free memory from being given back; ids as in a context. */
typedef struct plimsoll_pin {
  uint32_t layer;
  uint32_t outer_op;
  uint32_t stack, reserved;
  uint64_t count;        /* of blocks */
  uint64_t size_bytes;   /* theirs */
  uint64_t pinned_bytes; /* free in the segments and pages that they are in; what several places
                            pin counts for each */
} plimsoll_pin;

/* How many places there are, of which the first `capacity` are told, those that pin most first. 0,
 * and `sums` empty: no request has failed, or the recording has ended. */
PLIMSOLL_EXPORT size_t plimsoll_recording_pins(plimsoll_recording* recording, uint8_t device,
                                               plimsoll_stranded* sums, plimsoll_pin* rows,
                                               size_t capacity);
/* What is live on a device by plimsoll_role, now and when the last step ended. 0: no step has ended
 * while recording, or the recording has. */
PLIMSOLL_EXPORT int plimsoll_recording_since_step(plimsoll_recording* recording, uint8_t device,
                                                  uint64_t* step, uint64_t then[6],
                                                  uint64_t now[6]);
/* The frames of a stack id, innermost first: how many, of which the first `capacity` are told. */
PLIMSOLL_EXPORT size_t plimsoll_stack_frames(uint32_t stack, plimsoll_frame* frames,
                                             size_t capacity);

#ifdef __cplusplus
}
#endif

#endif

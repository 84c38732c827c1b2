/* The recorder's own figures about the last failed request, for out-of-memory reports on machines
 * where the engine is not installed. The rules of recorder_c.h for threads, ABI and ids apply. */
#ifndef PLIMSOLL_LAST_FAILURE_C_H_
#define PLIMSOLL_LAST_FAILURE_C_H_

#include "plimsoll/recorder_c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The free memory at the last failed request on the device. A free piece is stranded if a live
 * block prevents its return to the driver and it cannot serve the request: it is too small, or of
 * another stream, pool or segment type. */
typedef struct plimsoll_stranded {
  uint64_t free_bytes; /* in all segments */
  uint64_t stranded_bytes;
  uint64_t largest_usable_bytes; /* largest free piece that could serve the request */
} plimsoll_stranded;

/* The blocks of one place that pin free memory; ids as in plimsoll_context. */
typedef struct plimsoll_pin {
  uint32_t layer;
  uint32_t outer_op;
  uint32_t stack, reserved;
  uint64_t count;        /* number of blocks */
  uint64_t size_bytes;   /* total size of the blocks */
  uint64_t pinned_bytes; /* free bytes in their segments and pages; bytes that several places pin
                            count for each */
} plimsoll_pin;

/* Copies the first `capacity` places, largest pinned_bytes first, and returns the number of places.
 * Returns 0 and zeroes `sums` if no request has failed or the recording has ended. */
PLIMSOLL_EXPORT size_t plimsoll_recording_pins(plimsoll_recording* recording, uint8_t device,
                                               plimsoll_stranded* sums, plimsoll_pin* rows,
                                               size_t capacity);
/* Copies the live bytes of a device by plimsoll_role, now and at the end of the last step. Returns
 * 0 if no step has ended since the recording began, or if the recording has ended. */
PLIMSOLL_EXPORT int plimsoll_recording_since_step(plimsoll_recording* recording, uint8_t device,
                                                  uint64_t* step, uint64_t then[7],
                                                  uint64_t now[7]);
/* Copies the first `capacity` frames of a stack id, innermost first, and returns the number of
 * frames. */
PLIMSOLL_EXPORT size_t plimsoll_stack_frames(uint32_t stack, plimsoll_frame* frames,
                                             size_t capacity);

#ifdef __cplusplus
}
#endif

#endif

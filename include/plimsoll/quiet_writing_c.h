/* For adapters, which run inside the recorded program: lines on stderr, and writes that never send
 * the program a signal. The rules of recorder_c.h apply. */
#ifndef PLIMSOLL_QUIET_WRITING_C_H_
#define PLIMSOLL_QUIET_WRITING_C_H_

#include "plimsoll/recorder_c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Until plimsoll_end_quiet_writing(), a failing write of this thread sends the program neither
 * SIGPIPE nor SIGXFSZ. Pass the result to plimsoll_end_quiet_writing(). Pairs may be nested. */
PLIMSOLL_EXPORT int plimsoll_begin_quiet_writing(void);
PLIMSOLL_EXPORT void plimsoll_end_quiet_writing(int state);

/* Prints "plimsoll: WHAT: WHY" on stderr, or nothing if the write would block. */
PLIMSOLL_EXPORT void plimsoll_print(const char* what, const char* why);

#ifdef __cplusplus
}
#endif

#endif

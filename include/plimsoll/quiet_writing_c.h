/* Writing in a program that is recorded, for adapters that are part of it: lines on stderr, and
 * writes that send the program no signal. As recorder_c.h in all else. */
#ifndef PLIMSOLL_QUIET_WRITING_C_H_
#define PLIMSOLL_QUIET_WRITING_C_H_

#include "plimsoll/recorder_c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Until plimsoll_end_quiet_writing(), a write of this thread that fails sends the program neither
 * SIGPIPE nor SIGXFSZ. Returns what the end needs; the pairs may be nested. */
PLIMSOLL_EXPORT int plimsoll_begin_quiet_writing(void);
PLIMSOLL_EXPORT void plimsoll_end_quiet_writing(int state);

/* Prints "plimsoll: WHAT: WHY" on stderr, and nothing where stderr has no room for it now. */
PLIMSOLL_EXPORT void plimsoll_print(const char* what, const char* why);

#ifdef __cplusplus
}
#endif

#endif

/* For adapters of C++ programs: stacks as addresses. The rules of recorder_c.h apply. */
#ifndef PLIMSOLL_NATIVE_STACKS_C_H_
#define PLIMSOLL_NATIVE_STACKS_C_H_

#include "plimsoll/recorder_c.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PLIMSOLL_NEVER_UNLOADED UINT64_MAX

/* Returns the stack id of these addresses, innermost first; each lies inside its call instruction.
 * Not hot: takes a lock and may allocate. The same addresses have the same id while
 * plimsoll_unloads() returns *unloads: later, they can belong to another library. *unloads is
 * PLIMSOLL_NEVER_UNLOADED if the stack contains no code that the program can unload. A thread of
 * the recorder finds function names and source lines, at the latest when the recording is flushed
 * or stopped, and drops the frames of torch and of the C++ library. Returns 0 if memory runs out.
 */
PLIMSOLL_EXPORT uint32_t plimsoll_native_stack(const uintptr_t* addresses, size_t count,
                                               uint64_t* unloads);

/* A variable in static or thread-local memory. */
typedef struct plimsoll_variable {
  uintptr_t begin;
  uintptr_t end;
  const char* name;   /* "history", "train()::kept"; null: memory without names, such as that of
                         torch; "": of Plimsoll */
  const char* object; /* file name of the library that contains it; "" for the program */
} plimsoll_variable;

/* Calls visit(user, variable) for all writable static memory, and for the calling thread's own. Not
 * hot: reads files. */
PLIMSOLL_EXPORT void plimsoll_variables(void (*visit)(void* user,
                                                      const plimsoll_variable* variable),
                                        void* user);

/* Calls visit(user, function, file, line) for the user's code at an address, a call instruction;
 * not for code of torch, of the C++ library or of Plimsoll. Not hot: reads files. */
PLIMSOLL_EXPORT void plimsoll_user_code(uintptr_t address,
                                        void (*visit)(void* user, const char* function,
                                                      const char* file, uint32_t line),
                                        void* user);

/* Returns 1 if the program has added a seccomp filter: it may end the process for system calls that
 * it does not expect. Otherwise 0. */
PLIMSOLL_EXPORT int plimsoll_has_added_filter(void);

/* Returns the number of libraries that the process has unloaded. Takes a lock of the loader. */
PLIMSOLL_EXPORT uint64_t plimsoll_unloads(void);

#ifdef __cplusplus
}
#endif

#endif

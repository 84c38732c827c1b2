// Calls code that may crash or never return, such as a parser that trusts a damaged file.
#pragma once

namespace plimsoll::native_stacks {

enum class CallResult {
  kReturned,
  kEnded,       // it crashed, or took more than a second of CPU time
  kNotStarted,  // no process could be started, such as beyond the limit of processes; try later,
                // unless can_guard_calls() is false
};

// Whether calls can be guarded in this process. Not under ThreadSanitizer, whose clone() fails for
// a process that shares memory.
bool can_guard_calls() noexcept;

// Calls body(argument) in a process of its own that shares this process's memory, so its results
// are here, but a fatal signal ends only that process. The program's wait() and waitpid() do not
// see it, except with __WALL or __WCLONE.
//
// The body must neither allocate nor take locks: it may be ended at any point.
CallResult call_guarded(void (*body)(void* argument) noexcept, void* argument) noexcept;

}  // namespace plimsoll::native_stacks

// Calls code that may crash or never return, such as a parser that trusts a damaged file.
#pragma once

namespace plimsoll::native_stacks {

// Returns whether body(argument) returned, within a second of CPU time. It runs in a process of its
// own that shares this process's memory, so its results are here, but a fatal signal ends only that
// process. No wait() of the program sees it.
//
// The body must neither allocate nor take locks: it may be ended at any point.
bool call_guarded(void (*body)(void* argument) noexcept, void* argument) noexcept;

}  // namespace plimsoll::native_stacks

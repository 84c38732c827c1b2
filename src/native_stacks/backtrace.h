// libbacktrace, the library for debug information that GCC ships, under names of its own: the
// program may contain another copy. Without it, code has no names.
#pragma once

#include <cstdint>

#ifdef PLIMSOLL_HAS_BACKTRACE
#define backtrace_create_state plimsoll_backtrace_create_state
#define backtrace_pcinfo plimsoll_backtrace_pcinfo
#define backtrace_syminfo plimsoll_backtrace_syminfo
#include <plimsoll_backtrace/backtrace.h>
#else
struct backtrace_state;
template <typename... Arguments>
backtrace_state* backtrace_create_state(Arguments... /*unused*/) {
  return nullptr;
}
template <typename... Arguments>
void backtrace_pcinfo(Arguments... /*unused*/) {}
template <typename... Arguments>
void backtrace_syminfo(Arguments... /*unused*/) {}
#endif

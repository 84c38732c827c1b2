// PLIMSOLL_CHECK: for internal errors, never for input. Prints the source location and aborts.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace plimsoll::base {

[[noreturn]] inline void check_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "plimsoll: internal error at %s:%d: %s does not hold\n", file, line,
               expression);
  std::abort();
}

}  // namespace plimsoll::base

#define PLIMSOLL_CHECK(expression) \
  ((expression) ? void(0) : ::plimsoll::base::check_failed(#expression, __FILE__, __LINE__))

#ifdef NDEBUG
#define PLIMSOLL_DCHECK(expression) void(0)
#else
#define PLIMSOLL_DCHECK(expression) PLIMSOLL_CHECK(expression)
#endif

#include "native_stacks/seccomp_filters.h"

#include <sys/prctl.h>

#include <cstdio>
#include <memory>

namespace plimsoll::native_stacks {
namespace {

constexpr int kUnknown = -1;

bool has_any() noexcept { return ::prctl(PR_GET_SECCOMP) > 0; }

// The filters of this thread. Linux lists their number since 5.9.
int count_filters() noexcept {
  if (!has_any()) return 0;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> status(
      std::fopen("/proc/thread-self/status", "re"), &std::fclose);
  int count = kUnknown;
  char line[256];
  while (status != nullptr && std::fgets(line, sizeof line, status.get()) != nullptr) {
    if (std::sscanf(line, "Seccomp_filters: %d", &count) == 1) break;
  }
  return count;
}

// Set by a constructor of this file; until then, nothing is known.
int g_at_start = kUnknown;
[[gnu::constructor]] void count_at_start() { g_at_start = count_filters(); }

}  // namespace

bool has_added_seccomp_filter() noexcept {
  if (!has_any()) return false;
  // The program's own filter may forbid even to open the file that has the number.
  if (g_at_start <= 0) return true;
  return count_filters() != g_at_start;
}

}  // namespace plimsoll::native_stacks

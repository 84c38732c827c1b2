#include "cpu_failures.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <exception>
#include <string_view>

#include "allocation_context.h"

namespace plimsoll::libtorch {
namespace {

// The machine's memory; 0: unknown.
struct MachineMemory {
  std::uint64_t available_bytes = 0;
  std::uint64_t total_bytes = 0;
};

std::uint64_t entry_of(std::string_view text, std::string_view name) {
  const std::size_t at = text.find(name);
  if (at == std::string_view::npos) return 0;
  text.remove_prefix(at + name.size());
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  std::uint64_t kib = 0;
  std::from_chars(text.data(), text.data() + text.size(), kib);
  return kib * 1024;
}

// Does not allocate: memory may have run out.
MachineMemory read_machine_memory() {
  const int file = ::open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  std::array<char, 1024> text{};
  const ::ssize_t size = ::read(file, text.data(), text.size());
  ::close(file);
  if (size <= 0) return {};
  const std::string_view read(text.data(), static_cast<std::size_t>(size));
  return {.available_bytes = entry_of(read, "MemAvailable:"),
          .total_bytes = entry_of(read, "MemTotal:")};
}

// The limit of the process's address space; 0 if there is none.
std::uint64_t address_limit() {
  ::rlimit limit{};
  const bool is_limited = ::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return is_limited ? limit.rlim_cur : 0;
}

void record(plimsoll_context* context, std::size_t size_bytes) {
  const plimsoll_block request{.address = 0,
                               .requested_bytes = size_bytes,
                               .size_bytes = size_bytes,
                               .stream = 0,
                               .pool = 0,
                               .reserved = 0};
  const MachineMemory machine = read_machine_memory();
  recorder().out_of_memory(context, kCpu, &request, machine.available_bytes, address_limit(),
                           machine.total_bytes);
}

}  // namespace

[[gnu::noinline]] void record_failed_allocation(std::size_t size_bytes) noexcept try {
  ThreadState* const state = thread_state_or_null();
  if (state == nullptr) return record(recorder().context(), size_bytes);
  const SavedContext saved = describe_allocation(*state, PLIMSOLL_STACK_BASE);
  record(state->context, size_bytes);
  state->restore(saved);
  if (saved.context.op_instance == 0) define_new_stacks(*state);
} catch (const std::exception&) {
  count_lost_detail();
}

}  // namespace plimsoll::libtorch

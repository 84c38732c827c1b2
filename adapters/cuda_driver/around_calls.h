// What every wrapper does around the real call: the outermost call of a thread is told, those that
// CUDA makes inside it are not (a runtime's cudaMalloc calls the driver's cuMemAlloc). What the
// real call returns, and errno, come back untouched.
#pragma once

#include <cerrno>
#include <cstdint>

#include "allocation_book.h"
#include "driver_queries.h"
#include "physical_memory.h"
#include "telling.h"

namespace plimsoll::cuda_driver {

// The numbers that runtime and driver share.
inline constexpr int kSuccess = 0;
inline constexpr int kOutOfMemory = 2;
inline constexpr int kDeinitialized = 4;  // at the end of the process: memory is gone all the same
inline constexpr int kNotFound = 500;

// A call on its way. While the outermost reports to the recorder, what that allocates is not
// reported either.
class Nesting {
 public:
  Nesting() noexcept { ++depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;
  ~Nesting() { --depth_; }
  bool is_outermost() const noexcept { return depth_ == 1; }

 private:
  static inline thread_local int depth_ = 0;
};

class KeptErrno {
 public:
  KeptErrno() noexcept : value_(errno) {}
  KeptErrno(const KeptErrno&) = delete;
  KeptErrno& operator=(const KeptErrno&) = delete;
  ~KeptErrno() { errno = value_; }

 private:
  int value_;
};

struct Request {
  const char* operation;  // the name of the function, as the public documentation has it
  Place place = Place::kDevice;
  std::uint64_t asked_bytes = 0;
  enum class Kind : std::uint8_t { kPlain, kPooled } kind = Kind::kPlain;
};

struct Taken {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
};

void tell_taken(const Request& request, const Taken& taken) noexcept;

// `real` calls the function; `taken` says what it gave.
template <typename Real, typename TakenBy>
int around_alloc(const Request& request, Real&& real, TakenBy&& taken) {
  const Nesting nesting;
  const int result = real();
  if (!nesting.is_outermost()) return result;
  const KeptErrno kept;
  if (result == kSuccess) {
    tell_taken(request, taken());
  } else if (result == kOutOfMemory && begin_telling()) {
    tell_out_of_memory(request.operation, request.place, request.asked_bytes);
  }
  return result;
}

// The end of an allocation is told before the real call, which may give its address to another
// thread at once; told again as living where it was refused.
template <typename Real>
int around_free(std::uint64_t address, Real&& real) {
  const Nesting nesting;
  if (!nesting.is_outermost() || address == 0) return real();
  Allocation allocation;
  bool is_known = false;
  {
    const KeptErrno kept;
    is_known = allocation_book().take(address, allocation);
    if (is_known) tell_free(address, allocation);
  }
  const int result = real();
  if (is_known && result != kSuccess && result != kDeinitialized) {
    const KeptErrno kept;
    if (allocation_book().add(address, allocation)) tell_alloc(address, allocation);
  }
  return result;
}

template <typename Real>
int around_reset(int ordinal, Real&& real) {
  const Nesting nesting;
  if (!nesting.is_outermost()) return real();
  std::vector<std::pair<std::uint64_t, Allocation>> ended;
  {
    const KeptErrno kept;
    ended = allocation_book().take_all_of(ordinal);
    for (const auto& [address, allocation] : ended) tell_free(address, allocation);
  }
  const int result = real();
  if (result != kSuccess && result != kDeinitialized) {
    const KeptErrno kept;
    for (const auto& [address, allocation] : ended) {
      if (allocation_book().add(address, allocation)) tell_alloc(address, allocation);
    }
  }
  return result;
}

}  // namespace plimsoll::cuda_driver

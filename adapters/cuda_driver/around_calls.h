// Code that every wrapper runs around the real call. Only a thread's outermost call is reported,
// not those that CUDA makes inside it (a runtime's cudaMalloc calls the driver's cuMemAlloc). The
// real call's result and errno are returned unchanged.
#pragma once

#include <cerrno>
#include <cstdint>

#include "allocation_book.h"
#include "driver_queries.h"
#include "physical_memory.h"
#include "reporting.h"

namespace plimsoll::cuda_driver {

// The error codes that runtime and driver share.
inline constexpr int kSuccess = 0;
inline constexpr int kOutOfMemory = 2;
inline constexpr int kDeinitialized = 4;  // at process exit; the memory is freed anyway
inline constexpr int kNotFound = 500;

// A call in progress. While the outermost one reports to the recorder, allocations made by the
// recorder are not reported.
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
  const char* operation;  // the function's name in the public documentation
  Place place = Place::kDevice;
  std::uint64_t asked_bytes = 0;
  enum class Kind : std::uint8_t { kPlain, kPooled } kind = Kind::kPlain;
};

struct Taken {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
};

void report_taken(const Request& request, const Taken& taken) noexcept;

// `real` calls the function; `taken` returns the resulting allocation.
template <typename Real, typename TakenBy>
int around_alloc(const Request& request, Real&& real, TakenBy&& taken) {
  const Nesting nesting;
  const int result = real();
  if (!nesting.is_outermost()) return result;
  const KeptErrno kept;
  if (result == kSuccess) {
    report_taken(request, taken());
  } else if (result == kOutOfMemory && begin_reporting()) {
    report_out_of_memory(request.operation, request.place, request.asked_bytes);
  }
  return result;
}

// A free is reported before the real call, which may give the address to another thread
// immediately; if the call fails, the allocation is reported again.
template <typename Real>
int around_free(std::uint64_t address, Real&& real) {
  const Nesting nesting;
  if (!nesting.is_outermost() || address == 0) return real();
  Allocation allocation;
  bool is_known = false;
  {
    const KeptErrno kept;
    is_known = allocation_book().take(address, allocation);
    if (is_known) report_free(address, allocation);
  }
  const int result = real();
  if (is_known && result != kSuccess && result != kDeinitialized) {
    const KeptErrno kept;
    if (allocation_book().add(address, allocation)) report_alloc(address, allocation);
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
    for (const auto& [address, allocation] : ended) report_free(address, allocation);
  }
  const int result = real();
  if (result != kSuccess && result != kDeinitialized) {
    const KeptErrno kept;
    for (const auto& [address, allocation] : ended) {
      if (allocation_book().add(address, allocation)) report_alloc(address, allocation);
    }
  }
  return result;
}

}  // namespace plimsoll::cuda_driver

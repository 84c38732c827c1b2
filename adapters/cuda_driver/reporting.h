// Reports allocations to the recorder. Recording begins with the first allocation, so that a
// program that never allocates CUDA memory gets no thread and no file.
#pragma once

#include <cstdint>

namespace plimsoll::cuda_driver {

// A live allocation: everything needed to report its free, or to report it again.
struct Allocation {
  std::uint64_t size_bytes = 0;
  std::uint32_t operation = 0;  // name ids
  std::uint32_t stack = 0;
  std::uint8_t device = 0;  // the recorder's device number
  bool is_pooled = false;   // outlives a reset of its device
  std::int16_t ordinal = 0;
};

enum class Place : std::uint8_t { kDevice, kPinnedHost };

// Called by the library's constructor.
void prepare_reporting() noexcept;

// Starts the recording at the first call. Returns false if nothing is recorded.
bool begin_reporting() noexcept;

// Fills in operation, stack and device.
Allocation describe(const char* operation, Place place, int ordinal,
                    std::uint64_t size_bytes) noexcept;
void report_alloc(std::uint64_t address, const Allocation& allocation) noexcept;
void report_free(std::uint64_t address, const Allocation& allocation) noexcept;
void report_out_of_memory(const char* operation, Place place, std::uint64_t asked_bytes) noexcept;

}  // namespace plimsoll::cuda_driver

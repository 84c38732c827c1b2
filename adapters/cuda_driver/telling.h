// What is reported to the recorder. The recording begins with the first allocation, so that a
// program that never asks CUDA for memory gets no thread and no file.
#pragma once

#include <cstdint>

namespace plimsoll::cuda_driver {

// Memory that lives: what is needed to tell its end, or to tell it again.
struct Allocation {
  std::uint64_t size_bytes = 0;
  std::uint32_t operation = 0;  // name ids
  std::uint32_t stack = 0;
  std::uint8_t device = 0;  // the recorder's number
  bool is_pooled = false;   // outlives a reset of its device
  std::int16_t ordinal = 0;
};

enum class Place : std::uint8_t { kDevice, kPinnedHost };

// From the library's constructor.
void prepare_telling() noexcept;

// False: there is no recording.
bool begin_telling() noexcept;

// Fills in who asks and what for.
Allocation describe(const char* operation, Place place, int ordinal,
                    std::uint64_t size_bytes) noexcept;
void tell_alloc(std::uint64_t address, const Allocation& allocation) noexcept;
void tell_free(std::uint64_t address, const Allocation& allocation) noexcept;
void tell_out_of_memory(const char* operation, Place place, std::uint64_t asked_bytes) noexcept;

}  // namespace plimsoll::cuda_driver

// Recognizes the workspaces of libraries: memory that torch's CUDA code takes from the caching
// allocator for cuBLAS, cuDNN, cuSOLVER or cuSPARSE, and not for a tensor. The proof is the return
// address in the function that called the allocator (docs/decisions/0021-library-workspaces.md).
//
// Unwinding the stack takes microseconds, so it is done only once for each place that allocates.
// From then on, the return address is read at its position on the stack: the functions between this
// library's frame and the allocator's caller are always the same, and their frames have constant
// sizes. Each of their return addresses is compared, innermost first, so a different path is never
// misread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "allocator_event.h"

namespace plimsoll::libtorch_cuda {

// "cuBLAS"; "" for kNone
const char* library_name(Library library);

// Any thread may call these functions. Only the unwinding takes a lock, and its holder allocates
// nothing.
class LibraryWorkspaces {
 public:
  // More places than torch has. After this many places, or walks, nothing new is recognized.
  static constexpr std::size_t kMostPlaces = 1024;

  // `allocator` is an address in the allocator's shared library. Keeps the places that are already
  // known.
  void begin(const void* allocator) noexcept;

  // Returns the library that the current allocation is a workspace of. Called by the allocator's
  // callback, with the callback's __builtin_frame_address(0).
  Library of_caller(const void* frame) noexcept;

  // How often the stack was unwound.
  std::uint64_t walks() const { return walks_.load(std::memory_order_relaxed); }

 private:
  struct Range {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    bool has(std::uintptr_t address) const { return address >= begin && address < end; }
  };
  // The positions of return addresses, in bytes from the callback's frame, innermost first.
  struct Layout {
    static constexpr std::size_t kMostFrames = 16;
    std::array<std::uintptr_t, kMostFrames> addresses{};  // in the callback's and the allocator's
    std::array<std::ptrdiff_t, kMostFrames> offsets{};    // libraries
    std::size_t count = 0;
    std::ptrdiff_t caller = 0;  // offset of the return address into the allocator's caller
  };
  struct Place {
    std::atomic<std::uintptr_t> address{0};  // written last
    Library library = Library::kNone;
  };
  class Walk;

  const Place* find(std::uintptr_t address) const noexcept;
  Library walk(const void* frame) noexcept;
  void add_layout(const Walk& walk);
  void add_place(std::uintptr_t address, Library library);

  std::mutex mutex_;  // locked for changes
  Range allocator_, own_;
  std::array<Layout, 16> layouts_;
  std::atomic<std::size_t> layout_count_{0};
  std::array<Place, 2 * kMostPlaces> places_;
  std::size_t place_count_ = 0;
  std::atomic<std::uint64_t> walks_{0};
};

LibraryWorkspaces& library_workspaces();

}  // namespace plimsoll::libtorch_cuda

#include "tests/support/scarce_memory.h"

#include <cstdlib>
#include <new>

namespace plimsoll::tests {

std::atomic<bool> memory_is_out{false};

}  // namespace plimsoll::tests

void* operator new(std::size_t size_bytes) {
  void* memory = plimsoll::tests::memory_is_out.load() ? nullptr : std::malloc(size_bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(std::size_t size_bytes, const std::nothrow_t&) noexcept {
  return plimsoll::tests::memory_is_out.load() ? nullptr : std::malloc(size_bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

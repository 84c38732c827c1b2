// The blocks of glibc's malloc, found by its headers in a copy of the memory. Reading never faults
// and takes no lock: other threads may allocate and free meanwhile. Where another malloc is in use,
// also that of a sanitizer, there are no blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "pages.h"

namespace plimsoll::libtorch::cpp_holders {

// Returns false if not all of it is mapped.
bool read_memory(std::uintptr_t address, void* to, std::size_t size_bytes);

template <typename T>
T read_value(std::uintptr_t address) {
  T value{};
  return read_memory(address, &value, sizeof value) ? value : T{};
}

// Throws std::bad_alloc.
inline void reserve(Pages& pages, std::size_t size_bytes) {
  if (!pages.reserve(size_bytes)) throw std::bad_alloc();
}

template <typename T>
class Array {
 public:
  void reserve(std::size_t most) {
    cpp_holders::reserve(pages_, most * sizeof(T));
    most_ = most;
  }
  // Returns false if it is full.
  bool push_back(const T& value) {
    if (size_ == most_) return false;
    begin()[size_++] = value;
    return true;
  }
  T* begin() const { return static_cast<T*>(pages_.data()); }
  T* end() const { return begin() + size_; }
  T& operator[](std::size_t i) const { return begin()[i]; }
  std::size_t size() const { return size_; }

 private:
  Pages pages_;
  std::size_t size_ = 0, most_ = 0;
};

struct Mapping {
  std::uintptr_t begin = 0, end = 0;
  enum class Use : std::uint8_t { kHeap, kStack, kAnonymous, kFile } use = Use::kFile;
};

struct Block {
  std::uintptr_t begin = 0;
  std::uint32_t words = 0;            // of 8 bytes that the program can use
  std::uint32_t first = 0, last = 0;  // the words that may be references: without those that a
                                      // container no longer uses
  std::uint32_t parent = 0;           // its number + 1, or a root; 0: not reached
  std::uint32_t owner = 0;            // the root above it
  std::uint16_t type = 0;
  std::uint16_t flags = 0;

  std::uintptr_t end() const { return begin + std::uintptr_t{words} * 8; }
  // Of words that may be references. Words of a container that changes may contradict each other.
  std::size_t count() const { return last > first && last <= words ? last - first : 0; }
};

inline constexpr std::uint32_t kNoBlock = ~0U;
inline constexpr std::size_t kMostBlocks = 1'000'000;  // 48 MiB

class Heap {
 public:
  // Called for each block that is in use, in the order of their addresses. Throws std::bad_alloc.
  using Found = void (*)(void* user, Block& block, const std::uintptr_t* words);
  void find(const std::vector<Mapping>& mappings, Found found, void* user);

  // The block that contains the address; kNoBlock if it is in none.
  std::uint32_t at(std::uintptr_t address) const;
  Block& operator[](std::uint32_t number) const { return blocks_[number]; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(blocks_.size()); }
  template <typename Visit>
  void for_each_region(Visit&& visit) const {
    for (const Region& each : regions_) visit(each.begin, each.end);
  }
  bool is_full() const { return is_full_; }
  bool is_broken() const { return is_broken_; }  // headers have changed while they were read

 private:
  struct Region {
    std::uintptr_t begin = 0, end = 0;
    std::uint32_t first_block = 0, blocks = 0;
    std::size_t first_page = 0;  // in pages_; of a region with several blocks
  };
  bool read_chunks(std::uintptr_t begin, std::uintptr_t end, bool is_trial);
  void add_region(std::uintptr_t chunk, std::uintptr_t begin, std::uintptr_t end);
  void add_arena(std::uintptr_t address, std::uintptr_t end);

  Array<Block> blocks_;
  Array<std::uint32_t> pages_;  // the first block at or after each page
  std::vector<Region> regions_;
  mutable Region last_;
  Pages window_;
  Found found_ = nullptr;
  void* user_ = nullptr;
  std::uintptr_t cache_key_ = 0;
  bool is_full_ = false, is_broken_ = false;
};

// The memory that this process can write to.
std::vector<Mapping> writable_memory();

}  // namespace plimsoll::libtorch::cpp_holders

// What a walk has reached: one entry for each object, in the order of its discovery, and an index
// of their addresses. The memory comes from mmap, so that neither torch's allocator nor the
// program's malloc is affected.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pages.h"

namespace plimsoll::libtorch::holders {

// What an address belongs to.
enum class Kind : std::uint8_t {
  kObject,  // a PyObject
  kFrame,   // a frame of the interpreter that runs
  kTensor,  // a c10::TensorImpl
  kNode,    // a torch::autograd::Node
  kStorage  // a c10::StorageImpl
};

enum EntryFlag : std::uint8_t {
  kOwn = 1,  // only Plimsoll reaches it
  kRoot = 2,
  kOnChain = 4,     // leads to memory that is reported
  kStartsLink = 8,  // the reference from its parent is a link of its own
  kParameter = 16,  // a storage of a torch.nn.Parameter
  kLive = 32,       // of a cut: something else retains it
  kPassed = 64      // one of its references is that of a call, which ends
};

struct Entry {
  const void* address = nullptr;
  std::uint32_t parent = 0;  // its number; 0: a root
  std::uint32_t seen = 0;    // references to it that the walk has met
  std::uint32_t other = 0;   // another entry that refers to it; 0: none
  std::uint32_t count = 0;   // for the current question: see rest.cc and cut.cc
  std::uint32_t link = 0;
  std::uint16_t cuts = 0;  // a bit for each holder above it
  Kind kind = Kind::kObject;
  std::uint8_t flags = 0;

  bool has(EntryFlag flag) const { return (flags & flag) != 0; }
  void set(EntryFlag flag) { flags = static_cast<std::uint8_t>(flags | flag); }
  void clear(EntryFlag flag) { flags = static_cast<std::uint8_t>(flags & ~flag); }
};

class Table {
 public:
  // Returns false if there is no memory.
  bool open(std::uint32_t most_entries);

  // Entries are numbered from 1.
  Entry& operator[](std::uint32_t number) { return entries_[number]; }
  const Entry& operator[](std::uint32_t number) const { return entries_[number]; }
  std::uint32_t size() const { return size_; }

  std::uint32_t find(const void* address) const;  // 0: none
  // Returns the entry's number, which is new if it is size(); 0 if the table is full.
  std::uint32_t find_or_add(const void* address, Kind kind);
  void prefetch(const void* address) const { __builtin_prefetch(&slots_[home(address)]); }
  void prefetch_entry(const void* address) const {
    __builtin_prefetch(&entries_[slots_[home(address)]]);
  }
  bool is_full() const { return is_full_; }

 private:
  std::size_t home(const void* address) const {
    return (reinterpret_cast<std::uintptr_t>(address) >> 4U) * 0x9E3779B97F4A7C15U >> shift_;
  }
  bool widen();

  Pages entry_pages_, slot_pages_;
  Entry* entries_ = nullptr;
  std::uint32_t* slots_ = nullptr;  // numbers of entries; open addressing
  std::size_t slot_mask_ = 0;
  unsigned shift_ = 0;
  std::uint32_t size_ = 0;
  std::uint32_t most_ = 0;
  bool is_full_ = false;
};

}  // namespace plimsoll::libtorch::holders

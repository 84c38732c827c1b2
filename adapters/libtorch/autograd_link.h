// Maps an autograd node to the forward operator that created it.
//
// torch numbers nodes per thread: a node has its number and the id of the thread that built it.
// Each thread stores its state at each of its newest kCapacity numbers in a ring that other threads
// may read at any time; overwritten entries are not found.
#pragma once

#include <atomic>
#include <cstdint>

namespace plimsoll::libtorch {

// The state of a thread when it built a node. Ids as in plimsoll_context.
struct ForwardSite {
  std::uint32_t layer = 0;
  std::uint32_t op = 0;
  std::uint32_t stack = 0;
};

class LinkTable {
 public:
  // 6 MiB a thread, of which only touched pages take memory.
  static constexpr std::uint64_t kCapacity = std::uint64_t{1} << 18;

  // Called only by the owning thread. The last write for a number wins.
  void store(std::uint64_t sequence, const ForwardSite& site) {
    Entry& entry = entries_[sequence & mask_];
    // Seqlock with find(): invalid first, so that a half-written site is never used.
    entry.key.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);  // pairs with the fence in find()
    entry.layer.store(site.layer, std::memory_order_relaxed);
    entry.op.store(site.op, std::memory_order_relaxed);
    entry.stack.store(site.stack, std::memory_order_relaxed);
    entry.key.store(key_of(sequence), std::memory_order_release);  // with the acquire in find()
  }
  void set_stack(std::uint64_t sequence, std::uint32_t stack) {
    Entry& entry = entries_[sequence & mask_];
    if (entry.key.load(std::memory_order_relaxed) != key_of(sequence)) return;
    entry.stack.store(stack, std::memory_order_relaxed);
  }

  // Any thread may call this. Returns false if the number is unknown or has been overwritten.
  bool find(std::uint64_t sequence, ForwardSite& site) const {
    const Entry& entry = entries_[sequence & mask_];
    const std::uint64_t key = key_of(sequence);
    if (entry.key.load(std::memory_order_acquire) != key) return false;  // pairs with store()
    site = {.layer = entry.layer.load(std::memory_order_relaxed),
            .op = entry.op.load(std::memory_order_relaxed),
            .stack = entry.stack.load(std::memory_order_relaxed)};
    std::atomic_thread_fence(std::memory_order_acquire);  // pairs with the fence in store()
    return entry.key.load(std::memory_order_relaxed) == key;
  }

  std::uint64_t owner() const { return owner_.load(std::memory_order_relaxed); }

  // Returns a table for the thread with torch's id `thread_id`. Tables are reused, never freed.
  static LinkTable& claim(std::uint64_t thread_id);
  // Call this when the owner ends. Its nodes may still run backward, so the table is retained for a
  // while.
  static void retire(LinkTable& table) noexcept;
  // The table of a thread, or null.
  static const LinkTable* of(std::uint64_t thread_id);

  // Called around fork().
  static void lock() noexcept;
  static void unlock() noexcept;

 private:
  struct Entry {
    std::atomic<std::uint64_t> key;
    std::atomic<std::uint32_t> layer, op, stack;
  };

  // Thread ids count from 1 and numbers from 0, so no key is 0, and the keys of a former owner
  // differ.
  std::uint64_t key_of(std::uint64_t sequence) const { return owner() << 40U | (sequence + 1); }

  std::atomic<std::uint64_t> owner_{0};
  LinkTable* next_ = nullptr;           // in the list of all
  LinkTable* retired_after_ = nullptr;  // the one that was retired next
  Entry* entries_ = nullptr;
  std::uint64_t mask_ = 0;  // entries less one
};

}  // namespace plimsoll::libtorch

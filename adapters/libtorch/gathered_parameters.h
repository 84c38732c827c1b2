// Full parameters that FSDP gathers from shards. FSDP frees their memory after use and allocates it
// again for the same storage at the next use. This is how they are recognized, without calling
// Python.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "thread_state.h"

namespace plimsoll::libtorch {

// Thread-safe.
class GatheredParameters {
 public:
  // From now on, memory of this storage is tagged with this tensor.
  void add(const at::Tensor& tensor, std::uint32_t id);
  // Tags storages that have new memory since the last call. Cheap if none was ever added.
  void tag_new_memory(ThreadState& thread) {
    if (has_any_.load(std::memory_order_relaxed)) tag_all(thread);
  }
  void clear();
  // Locked around fork(), so that the lock is free in the child.
  std::mutex& mutex() { return mutex_; }

 private:
  struct Entry {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // prevents reuse of the address
    const void* memory = nullptr;                       // the memory at the last tag
    std::uint32_t id = 0;
  };
  void tag_all(ThreadState& thread);

  std::mutex mutex_;
  std::atomic<bool> has_any_{false};
  std::unordered_map<const c10::StorageImpl*, Entry> entries_;
};

GatheredParameters& gathered_parameters();

}  // namespace plimsoll::libtorch

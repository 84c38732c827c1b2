// Whole parameters that FSDP gathers from shards. It frees their memory after use and takes it anew
// at the next use, for the same storage: by this they are recognized, without a call of Python.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "thread_state.h"

namespace plimsoll::libtorch {

// Any thread may ask.
class GatheredParameters {
 public:
  // From now on the storage holds this tensor of the recorder, whatever memory it takes.
  void add(const at::Tensor& tensor, std::uint32_t id);
  // Tags what has taken memory since the last time. Cheap, where none was ever added.
  void tag_taken(ThreadState& thread) {
    if (are_there_.load(std::memory_order_relaxed)) tag_all(thread);
  }
  void clear();
  // Around a fork, so that the child finds the lock free.
  std::mutex& mutex() { return mutex_; }

 private:
  struct Entry {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // keeps the address from being reused
    const void* memory = nullptr;                       // when it was tagged last
    std::uint32_t id = 0;
  };
  void tag_all(ThreadState& thread);

  std::mutex mutex_;
  std::atomic<bool> are_there_{false};
  std::unordered_map<const c10::StorageImpl*, Entry> entries_;
};

GatheredParameters& gathered_parameters();

}  // namespace plimsoll::libtorch

// The known parameters: their names, layers, and gradients.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "tensor_identity.h"
#include "thread_state.h"

namespace plimsoll::libtorch {

struct Parameter {
  std::uint32_t name = 0;   // "UNet.down.0.conv.weight"
  std::uint32_t layer = 0;  // "UNet.down.0.conv"
  std::string text = {};    // the text of `name`
};

// Thread-safe; entries of dead parameters are removed by forget_dead().
class Parameters {
 public:
  void add(const at::Tensor& tensor, Parameter parameter);
  bool find(const at::Tensor& tensor, Parameter& parameter);
  std::uint32_t layer_of(const at::Tensor& tensor);
  std::string name_text(const at::Tensor& tensor);  // empty if it is unknown
  // Tags the .grad of a known parameter, unless its current storage is already tagged. Returns
  // false if the parameter is unknown.
  bool tag_gradient(ThreadState& thread, const at::Tensor& tensor);
  // Tags the .grad of a gathered parameter, by its name if no other has the same sizes.
  void tag_gathered_gradient(ThreadState& thread, const at::Tensor& tensor);
  // Whether a backward has written gradients since take_accumulated() was last called.
  void note_accumulated() { has_accumulated_.store(true, std::memory_order_relaxed); }
  bool take_accumulated() {
    return has_accumulated_.load(std::memory_order_relaxed) && has_accumulated_.exchange(false);
  }
  // The storage last tagged as the .grad of a known parameter; null if there is none. Only for
  // comparison.
  const c10::StorageImpl* gradient_of(const TensorIdentity& tensor);
  void forget_dead();
  void clear();
  // Locked around fork(), so that the lock is free in the child.
  std::mutex& mutex() { return mutex_; }

 private:
  struct Entry {
    TensorIdentity tensor;
    c10::weak_intrusive_ptr<c10::StorageImpl> gradient;  // prevents reuse of the address
    Parameter parameter;
  };
  // Returns null if the tensor is unknown. The caller must hold the lock.
  Entry* find_entry(const at::Tensor& tensor);
  // A sharded parameter (a DTensor). FSDP2 gathers it into another tensor of the same sizes, which
  // no module may have when its gradient is accumulated. Call with the lock.
  void add_sharded(const at::Tensor& tensor, std::uint32_t name);
  std::mutex mutex_;
  std::unordered_map<const c10::TensorImpl*, Entry> entries_;
  std::map<std::vector<std::int64_t>, std::uint32_t> sharded_;  // names; 0: several
  std::atomic<bool> has_accumulated_ = false;
};

Parameters& parameters();

}  // namespace plimsoll::libtorch

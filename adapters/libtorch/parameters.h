// The parameters that are known: whose .grad is a gradient, and the name and layer of each.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "thread_state.h"

namespace plimsoll::libtorch {

struct Parameter {
  std::uint32_t name = 0;   // "UNet.down.0.conv.weight"
  std::uint32_t layer = 0;  // "UNet.down.0.conv"
  std::string text = {};    // of the name
};

// Any thread may ask; entries of parameters that have died go away at forget_dead().
class Parameters {
 public:
  void add(const at::Tensor& tensor, Parameter parameter);
  bool find(const at::Tensor& tensor, Parameter& parameter);
  std::uint32_t layer_of(const at::Tensor& tensor);
  std::string name_text(const at::Tensor& tensor);  // empty if it is not known
  // Tags the .grad of a known parameter, unless that very storage was tagged already.
  void tag_gradient(ThreadState& thread, const at::Tensor& tensor);
  // Likewise for all of them.
  void tag_gradients(ThreadState& thread);
  void forget_dead();
  void clear();
  // Around a fork, so that the child finds the lock free.
  std::mutex& mutex() { return mutex_; }

 private:
  // Weak references: while we hold one, the address is nobody else's.
  struct Entry {
    c10::weak_intrusive_ptr<c10::TensorImpl> tensor;
    c10::weak_intrusive_ptr<c10::StorageImpl> gradient;
    Parameter parameter;
  };
  std::mutex mutex_;
  std::unordered_map<const c10::TensorImpl*, Entry> entries_;
};

Parameters& parameters();

}  // namespace plimsoll::libtorch

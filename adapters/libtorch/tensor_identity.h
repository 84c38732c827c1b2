// Recognizes a tensor again without a reference to it.
//
// torch.utils.swap_tensors refuses tensors with any reference, even a weak one. But a tensor keeps
// its version counter for life, whatever happens to its data, and only views and detached copies
// share it. So this retains the counter: meanwhile no other tensor gets a counter at its address,
// and a new tensor at the old one's address has another counter.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstring>

namespace plimsoll::libtorch {

class TensorIdentity {
 public:
  explicit TensorIdentity(const at::Tensor& tensor)
      : address_(tensor.unsafeGetTensorImpl()),
        version_(tensor.unsafeGetTensorImpl()->version_counter()) {}

  const c10::TensorImpl* address() const { return address_; }
  // Tensors of inference mode have no counter and are never recognized.
  bool is_of(const at::Tensor& tensor) const {
    const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
    return is_same(impl, impl->version_counter());
  }
  bool operator==(const TensorIdentity& other) const {
    return is_same(other.address_, other.version_);
  }
  // Whether the tensor has died, along with its views and detached copies.
  bool is_gone() const { return version_.unique(); }

 private:
  bool is_same(const c10::TensorImpl* address, const c10::VariableVersion& version) const {
    return address == address_ && version_.enabled() && counter_of(version) == counter_of(version_);
  }
  static const void* counter_of(const c10::VariableVersion& version) {
    static_assert(sizeof(version) == sizeof(void*), "a pointer to the counter and nothing else");
    const void* counter = nullptr;
    std::memcpy(&counter, static_cast<const void*>(&version), sizeof(counter));
    return counter;
  }
  const c10::TensorImpl* address_;
  c10::VariableVersion version_;
};

}  // namespace plimsoll::libtorch

// Remembers an owner's tensors and their storages at the last walk, in order, so that the next walk
// records only changes.
#pragma once

#include <vector>

#include "tensor_parts.h"
#include "tensors.h"

namespace plimsoll::libtorch {

class TaggedStorages {
 public:
  void begin_walk() { next_ = 0; }
  // Returns false if this tensor was at this position at the last walk, with its current storage. A
  // tensor without memory of its own is compared by its parts.
  bool has_news(const at::Tensor& tensor) {
    const TensorParts parts = parts_of(tensor);
    if (parts.empty()) return is_news(tensor);
    bool found = false;
    for (const at::Tensor& part : parts) found = is_news(part) || found;
    return found;
  }
  void end_walk() { tagged_.resize(next_); }
  void forget() { tagged_.clear(); }

 private:
  bool is_news(const at::Tensor& tensor) {
    const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
    if (next_ == tagged_.size()) tagged_.emplace_back();
    Tagged& here = tagged_[next_++];
    if (here.tensor == impl && is_same_storage(here.storage, tensor)) return false;
    here = {impl, weak_storage(tensor)};
    return true;
  }
  struct Tagged {
    const c10::TensorImpl* tensor = nullptr;  // maybe dead
    c10::weak_intrusive_ptr<c10::StorageImpl> storage = no_storage();
  };
  std::size_t next_ = 0;
  std::vector<Tagged> tagged_;
};

}  // namespace plimsoll::libtorch

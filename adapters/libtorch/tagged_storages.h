// Remembers which storages an owner's tensors had when they were last told to the recorder, in the
// order of a walk, so that the next walk tells only what has changed.
#pragma once

#include <vector>

#include "tensors.h"

namespace plimsoll::libtorch {

class TaggedStorages {
 public:
  void begin_walk() { next_ = 0; }
  // True if the tensor's storage is not the one that stood here at the last walk.
  bool is_news(const at::Tensor& tensor) {
    if (next_ < storages_.size() && is_same_storage(storages_[next_], tensor)) {
      ++next_;
      return false;
    }
    if (next_ < storages_.size()) {
      storages_[next_] = weak_storage(tensor);
    } else {
      storages_.push_back(weak_storage(tensor));
    }
    ++next_;
    return true;
  }
  void end_walk() {
    storages_.erase(storages_.begin() + static_cast<long>(next_), storages_.end());
  }
  void forget() { storages_.clear(); }

 private:
  std::size_t next_ = 0;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> storages_;
};

}  // namespace plimsoll::libtorch

#include "gathered_parameters.h"

#include "tensors.h"

namespace plimsoll::libtorch {

GatheredParameters& gathered_parameters() {
  static Immortal<GatheredParameters> all;  // threads may use it until the end
  return all.get();
}

void GatheredParameters::add(const at::Tensor& tensor, std::uint32_t id) {
  const c10::StorageImpl* storage = recorded_storage(tensor);
  if (storage == nullptr) return;
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [](const auto& entry) { return entry.second.storage.expired(); });
  entries_.insert_or_assign(
      storage, Entry{.storage = weak_storage(tensor), .memory = storage->data(), .id = id});
  has_any_ = true;
}

void GatheredParameters::tag_all(ThreadState& thread) {
  const std::lock_guard lock(mutex_);
  for (auto& [address, entry] : entries_) {
    if (entry.storage.expired()) continue;
    c10::StorageImpl& storage = *entry.storage._unsafe_get_target();
    const void* memory = storage._mutable_data_ptr_no_checks().get();
    if (memory == entry.memory) continue;
    entry.memory = memory;
    if (memory != nullptr) tag_storage(thread, storage, entry.id);
  }
}

void GatheredParameters::clear() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
  has_any_ = false;
}

}  // namespace plimsoll::libtorch

#include "parameters.h"

#include <utility>

#include "tensors.h"

namespace plimsoll::libtorch {

Parameters& parameters() {
  static Immortal<Parameters> all;  // threads may use it until the end
  return all.get();
}

Parameters::Entry* Parameters::find_entry(const at::Tensor& tensor) {
  const auto found = entries_.find(tensor.unsafeGetTensorImpl());
  if (found == entries_.end() || !found->second.tensor.is_of(tensor)) return nullptr;
  return &found->second;
}

void Parameters::add(const at::Tensor& tensor, Parameter parameter) {
  const std::lock_guard lock(mutex_);
  add_sharded(tensor, parameter.name);
  if (Entry* known = find_entry(tensor)) {
    known->parameter = std::move(parameter);
    return;
  }
  // A dead tensor may have had the same address.
  entries_.insert_or_assign(tensor.unsafeGetTensorImpl(), Entry{.tensor = TensorIdentity(tensor),
                                                                .gradient = no_storage(),
                                                                .parameter = std::move(parameter)});
}

bool Parameters::find(const at::Tensor& tensor, Parameter& parameter) {
  const std::lock_guard lock(mutex_);
  const Entry* known = find_entry(tensor);
  if (known == nullptr) return false;
  parameter = known->parameter;
  return true;
}

std::uint32_t Parameters::layer_of(const at::Tensor& tensor) {
  const std::lock_guard lock(mutex_);
  const Entry* known = find_entry(tensor);
  return known == nullptr ? 0 : known->parameter.layer;
}

std::string Parameters::name_text(const at::Tensor& tensor) {
  Parameter parameter;
  find(tensor, parameter);
  return parameter.text;
}

bool Parameters::tag_gradient(ThreadState& thread, const at::Tensor& tensor) {
  const at::Tensor& gradient = tensor.unsafeGetTensorImpl()->grad();
  if (!gradient.defined()) return true;
  std::uint32_t name = 0;
  {
    const std::lock_guard lock(mutex_);
    Entry* known = find_entry(tensor);
    if (known == nullptr) return false;
    if (is_same_storage(known->gradient, gradient)) return true;
    known->gradient = weak_storage(gradient);
    name = known->parameter.name;
  }
  tag_tensor(thread, gradient, PLIMSOLL_ROLE_GRADIENT, name);
  return true;
}

void Parameters::add_sharded(const at::Tensor& tensor, std::uint32_t name) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (!impl->is_python_dispatch() || impl->has_symbolic_sizes_strides()) return;
  const auto [known, is_new] = sharded_.try_emplace(sizes_of(tensor).vec(), name);
  if (!is_new && known->second != name) known->second = 0;
}

void Parameters::tag_gathered_gradient(ThreadState& thread, const at::Tensor& tensor) {
  std::uint32_t name = 0;
  {
    const std::lock_guard lock(mutex_);
    if (sharded_.empty() || tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return;
    const auto known = sharded_.find(sizes_of(tensor).vec());
    if (known == sharded_.end()) return;
    name = known->second;
  }
  tag_tensor(thread, tensor.unsafeGetTensorImpl()->grad(), PLIMSOLL_ROLE_GRADIENT, name);
}

const c10::StorageImpl* Parameters::gradient_of(const TensorIdentity& tensor) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(tensor.address());
  if (found == entries_.end() || !(found->second.tensor == tensor)) return nullptr;
  return found->second.gradient._unsafe_get_target();
}

void Parameters::forget_dead() {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [](const auto& entry) { return entry.second.tensor.is_gone(); });
}

void Parameters::clear() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
  sharded_.clear();
}

}  // namespace plimsoll::libtorch

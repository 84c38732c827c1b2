#include "parameters.h"

#include <utility>
#include <vector>

#include "tensors.h"

namespace plimsoll::libtorch {

Parameters& parameters() {
  static auto* all = new Parameters;  // threads may ask until the very end
  return *all;
}

void Parameters::add(const at::Tensor& tensor, Parameter parameter) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(tensor.unsafeGetTensorImpl());
  if (found != entries_.end()) {
    found->second.parameter = parameter;
    return;
  }
  entries_.emplace(
      tensor.unsafeGetTensorImpl(),
      Entry{.tensor = c10::weak_intrusive_ptr<c10::TensorImpl>(tensor.getIntrusivePtr()),
            .gradient = no_storage(),
            .parameter = parameter});
}

bool Parameters::find(const at::Tensor& tensor, Parameter& parameter) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(tensor.unsafeGetTensorImpl());
  if (found == entries_.end()) return false;
  parameter = found->second.parameter;
  return true;
}

std::uint32_t Parameters::layer_of(const at::Tensor& tensor) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(tensor.unsafeGetTensorImpl());
  return found == entries_.end() ? 0 : found->second.parameter.layer;
}

std::string Parameters::name_text(const at::Tensor& tensor) {
  Parameter parameter;
  find(tensor, parameter);
  return parameter.text;
}

void Parameters::tag_gradient(ThreadState& thread, const at::Tensor& tensor) {
  const at::Tensor& gradient = tensor.unsafeGetTensorImpl()->grad();
  if (!gradient.defined() || !gradient.has_storage()) return;
  std::uint32_t name = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(tensor.unsafeGetTensorImpl());
    if (found == entries_.end()) return;
    if (is_same_storage(found->second.gradient, gradient)) return;
    found->second.gradient = weak_storage(gradient);
    name = found->second.parameter.name;
  }
  tag_tensor(thread, gradient, PLIMSOLL_ROLE_GRADIENT, name);
}

void Parameters::tag_gradients(ThreadState& thread) {
  std::vector<at::Tensor> living;
  {
    const std::lock_guard lock(mutex_);
    living.reserve(entries_.size());
    for (const auto& [impl, entry] : entries_) {
      if (auto tensor = entry.tensor.lock()) living.emplace_back(std::move(tensor));
    }
  }
  for (const at::Tensor& tensor : living) tag_gradient(thread, tensor);
}

void Parameters::forget_dead() {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [](const auto& entry) { return entry.second.tensor.expired(); });
}

void Parameters::clear() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
}

}  // namespace plimsoll::libtorch

#include "parameter_layers.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "attachment.h"
#include "parameters.h"

namespace plimsoll::libtorch {
namespace {

const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.unsafeGetTensorImpl()->has_storage()) return nullptr;
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

// "Net.block1" of "Net.block1.conv" and "Net.block1.norm"; "" if they have no common prefix.
std::string_view common_module(std::string_view a, std::string_view b) {
  if (a == b) return a;
  std::size_t end = 0;
  for (std::size_t i = 0;; ++i) {
    const bool a_ends = i == a.size() || a[i] == '.';
    const bool b_ends = i == b.size() || b[i] == '.';
    if (a_ends && b_ends) end = i;
    if (i == a.size() || i == b.size() || a[i] != b[i]) return a.substr(0, end);
  }
}

std::uint32_t name_of(std::string_view text) {
  return text.empty() ? 0 : recorder().name(text.data(), text.size());
}

}  // namespace

ParameterLayers& parameter_layers() {
  static Immortal<ParameterLayers> all;  // threads may use it until the end
  return all.get();
}

void ParameterLayers::add(const std::vector<Owned>& tensors) {
  Owners owners;
  for (const auto& [tensor, path] : tensors) {
    const c10::StorageImpl* storage = storage_of(tensor);
    if (storage == nullptr) continue;
    const auto [at, is_new] = owners.try_emplace(
        storage, Owner{.storage = tensor.storage().getWeakStorageImpl(), .path = path});
    at->second.parameters.emplace_back(tensor);
    if (!is_new) at->second.path = std::string(common_module(at->second.path, path));
  }
  for (auto& [storage, owner] : owners) owner.layer = name_of(owner.path);
  const std::lock_guard lock(mutex_);
  std::erase_if(owners_, [](const auto& entry) { return entry.second.storage.expired(); });
  owners_.merge(owners);
  for (auto& [storage, owner] : owners) owners_.at(storage) = std::move(owner);  // known before
}

void ParameterLayers::clear() {
  const std::lock_guard lock(mutex_);
  owners_.clear();
}

// One operator's inputs, looked up under the lock.
class ParameterLayers::Search {
 public:
  explicit Search(const Owners& owners) : owners_(owners) {}

  void visit(const c10::IValue& value) {
    if (value.isTensor()) {
      visit(value.unsafeToTensorImpl());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) {
        visit(tensor.unsafeGetTensorImpl());
      }
    }
  }

  bool is_first_an_owner() const { return is_first_; }
  const Owner* owner() const { return owner_; }
  // The path of the owner. If there are several, the innermost module around all of them; owner()
  // is then any of them.
  std::string_view common_path() const { return path_; }
  bool has_own_gradient() const {
    return std::ranges::any_of(gradients_, [this](const c10::StorageImpl* gradient) {
      return std::ranges::find(others_, gradient) != others_.end();
    });
  }

 private:
  void visit(c10::TensorImpl* tensor) {
    const bool is_first = std::exchange(is_next_first_, false);
    if (tensor == nullptr || !tensor->has_storage()) return;
    const c10::StorageImpl* storage = tensor->unsafe_storage().unsafeGetStorageImpl();
    const auto found = owners_.find(storage);
    if (found == owners_.end()) {
      others_.push_back(storage);
      return;
    }
    is_first_ = is_first_ || is_first;
    path_ = owner_ == nullptr ? std::string_view(found->second.path)
                              : common_module(path_, found->second.path);
    owner_ = &found->second;
    if (tensor->grad().defined()) gradients_.push_back(storage_of(tensor->grad()));
    // Optimizers use parameter.data(), which itself has no gradient.
    for (const TensorIdentity& parameter : owner_->parameters) {
      const c10::StorageImpl* gradient = parameters().gradient_of(parameter);
      if (gradient != nullptr) gradients_.push_back(gradient);
    }
  }

  const Owners& owners_;
  const Owner* owner_ = nullptr;
  std::string_view path_;
  bool is_first_ = false;
  bool is_next_first_ = true;
  c10::SmallVector<const c10::StorageImpl*, 8> others_;
  c10::SmallVector<const c10::StorageImpl*, 8> gradients_;
};

std::uint32_t ParameterLayers::layer_of(const at::RecordFunction& record) {
  const std::lock_guard lock(mutex_);
  Search search(owners_);
  for (const c10::IValue& value : record.inputs()) search.visit(value);
  if (search.owner() == nullptr) return 0;
  const bool is_in_place = std::string_view(record.name()).ends_with('_');
  if ((is_in_place && search.is_first_an_owner()) || search.has_own_gradient()) return 0;
  const bool is_one = search.common_path() == search.owner()->path;
  return is_one ? search.owner()->layer : name_of(search.common_path());
}

}  // namespace plimsoll::libtorch

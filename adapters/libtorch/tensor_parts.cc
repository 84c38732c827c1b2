#include "tensor_parts.h"

#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>

namespace plimsoll::libtorch {
namespace {

constexpr c10::DispatchKeySet kSparse = c10::DispatchKeySet(c10::DispatchKey::Sparse) |
                                        c10::DispatchKeySet(c10::DispatchKey::SparseCsr);

void add_sparse(const c10::TensorImpl& tensor, TensorParts& parts) {
  // Functional wrappers have the dispatch keys of the tensor they wrap, and another class.
  if (const auto* coordinates = dynamic_cast<const at::SparseTensorImpl*>(&tensor)) {
    parts = {coordinates->indices(), coordinates->values()};
  } else if (const auto* rows = dynamic_cast<const at::SparseCsrTensorImpl*>(&tensor)) {
    parts = {rows->compressed_indices(), rows->plain_indices(), rows->values()};
  }
}

bool has_memory(const c10::TensorImpl& tensor) {
  if (!tensor.has_storage()) return false;
  c10::StorageImpl* storage = tensor.unsafe_storage().unsafeGetStorageImpl();
  return storage != nullptr && storage->_mutable_data_ptr_no_checks().get() != nullptr;
}

}  // namespace

TensorParts parts_of(const at::Tensor& tensor) {
  TensorParts parts;
  if (!tensor.defined()) return parts;
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (has_memory(impl)) return parts;
  if (impl.is_python_dispatch()) {
    if (g_add_wrapped != nullptr) g_add_wrapped(tensor, parts);
  } else if (impl.key_set().has_any(kSparse)) {
    add_sparse(impl, parts);
  }
  return parts;
}

}  // namespace plimsoll::libtorch

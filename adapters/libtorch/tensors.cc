#include "tensors.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <exception>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cpu_allocator.h"
#include "tensor_parts.h"

namespace plimsoll::libtorch {
namespace {

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

// ---- names of dtypes and shapes ---------------------------------------------------------------

std::string dtype_text(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Byte:
      return "uint8";
    case c10::ScalarType::Char:
      return "int8";
    case c10::ScalarType::Short:
      return "int16";
    case c10::ScalarType::Int:
      return "int32";
    case c10::ScalarType::Long:
      return "int64";
    case c10::ScalarType::Half:
      return "float16";
    case c10::ScalarType::Float:
      return "float32";
    case c10::ScalarType::Double:
      return "float64";
    case c10::ScalarType::ComplexHalf:
      return "complex32";
    case c10::ScalarType::ComplexFloat:
      return "complex64";
    case c10::ScalarType::ComplexDouble:
      return "complex128";
    default:
      break;
  }
  std::string text = c10::toString(type);
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string shape_text(c10::IntArrayRef sizes) {
  std::string text = "[";
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (i != 0) text += ", ";
    text += std::to_string(sizes[i]);
  }
  return text + "]";
}

std::uint32_t name_of(const std::string& text) { return recorder().name(text.data(), text.size()); }

// ---- tensor ids, by the tensor's description ---------------------------------------------------

std::uint32_t describe(const at::Tensor& tensor, plimsoll_role role, std::uint32_t name) {
  return recorder().tensor(static_cast<std::uint8_t>(role), name,
                           name_of(dtype_text(tensor.scalar_type())),
                           name_of(shape_text(sizes_of(tensor))));
}

// ---- foreign storages -------------------------------------------------------------------------

// Storages whose deleter cannot be replaced. They are listed by address, because two storages may
// share their memory (from_numpy twice), and the last one frees it.
std::mutex g_foreign_mutex;

std::unordered_map<std::uint64_t, std::vector<WeakStorage>>& foreign() {
  static Immortal<std::unordered_map<std::uint64_t, std::vector<WeakStorage>>> storages;
  return storages.get();
}

std::uint64_t address_of(c10::StorageImpl& storage) {
  return reinterpret_cast<std::uintptr_t>(storage._mutable_data_ptr_no_checks().get());
}

bool still_has(const WeakStorage& weak, std::uint64_t address) {
  // The weak reference retains the object; a strong one would show in the program's use count.
  return !weak.expired() && address_of(*weak._unsafe_get_target()) == address;
}

// torch's own block, from before attaching, has a free that can be observed.
bool is_own_block(c10::StorageImpl& storage) {
  const c10::DataPtr& block = storage._mutable_data_ptr_no_checks();
  return is_recorded_deleter(block.get_deleter()) ||
         (block.get() == block.get_context() && block.get_deleter() == base_deleter());
}

bool is_watched(c10::StorageImpl& storage) {
  const std::lock_guard lock(g_foreign_mutex);
  return foreign().contains(address_of(storage));
}

void watch_foreign(c10::StorageImpl& storage) {
  const std::lock_guard lock(g_foreign_mutex);
  std::vector<WeakStorage>& sharing = foreign()[address_of(storage)];
  for (const WeakStorage& known : sharing) {
    if (known._unsafe_get_target() == &storage) return;
  }
  sharing.push_back(
      WeakStorage(c10::intrusive_ptr<c10::StorageImpl>::unsafe_reclaim_from_nonowning(&storage)));
}

bool is_recorded(c10::DeviceType type) {
  return type == c10::DeviceType::CPU ||
         (type == c10::DeviceType::CUDA &&
          g_attachment.reports_cuda_tensors.load(std::memory_order_relaxed));
}

// The recorder's number of a CUDA device, cached because the lookup takes a lock.
std::uint8_t cuda_device(c10::DeviceIndex index) {
  static std::array<std::atomic<std::uint8_t>, 128> known{};
  std::atomic<std::uint8_t>& number = known[static_cast<std::uint8_t>(index) % known.size()];
  if (number.load(std::memory_order_relaxed) == kCpu) {
    number.store(recorder().device(PLIMSOLL_DEVICE_CUDA, index), std::memory_order_relaxed);
  }
  return number.load(std::memory_order_relaxed);
}

// Takes over a block whose free cannot be observed yet.
[[gnu::noinline]] void take_over(c10::StorageImpl& storage) {
  c10::DataPtr& block = storage._mutable_data_ptr_no_checks();
  // torch's own block, from before attaching. From now on its free and its growth are observed.
  if (block.get() == block.get_context() &&
      block.compare_exchange_deleter(base_deleter(), recorded_deleter())) {
    if (storage.allocator() == base_allocator()) storage.set_allocator(recording_allocator());
  } else {
    watch_foreign(storage);
  }
}

void adopt(ThreadState& thread, c10::StorageImpl& storage, std::uint32_t tensor) {
  if (!is_recorded_deleter(storage._mutable_data_ptr_no_checks().get_deleter())) take_over(storage);
  recorder().adopt(thread.context, kCpu, address_of(storage), storage.nbytes(), tensor);
}

void record_tag(ThreadState& thread, c10::StorageImpl& storage, std::uint32_t tensor) {
  if (storage.device_type() == c10::DeviceType::CUDA) {
    // Its block is identified by the allocator itself.
    recorder().tag(thread.context, cuda_device(storage.device().index()), address_of(storage),
                   tensor);
    return;
  }
  adopt(thread, storage, tensor);
}

// A gradient that fills less than half of its storage shares it with others: in a bucket of
// DistributedDataParallel, or in the output of FSDP's reduction.
bool is_in_bucket(const at::Tensor& gradient, const c10::StorageImpl& storage) {
  std::uint64_t bytes = gradient.itemsize();
  for (const std::int64_t size : sizes_of(gradient)) bytes *= static_cast<std::uint64_t>(size);
  return storage.nbytes() > 2 * bytes;
}

std::uint32_t describe_bucket(const at::Tensor& gradient, const c10::StorageImpl& storage) {
  static constexpr std::string_view kName = "gradients of several parameters";
  const auto count = static_cast<std::int64_t>(storage.nbytes() / gradient.itemsize());
  return recorder().tensor(PLIMSOLL_ROLE_GRADIENT, recorder().name(kName.data(), kName.size()),
                           name_of(dtype_text(gradient.scalar_type())), name_of(shape_text(count)));
}

void record_role(ThreadState& thread, const at::Tensor& tensor, c10::StorageImpl& storage,
                 plimsoll_role role, std::uint32_t name) {
  if (role == PLIMSOLL_ROLE_INPUT && is_new_borrowed(tensor)) {
    record_allocation(storage._mutable_data_ptr_no_checks().get(), storage.nbytes(),
                      PLIMSOLL_STACK_BASE);
  }
  const bool is_bucket = role == PLIMSOLL_ROLE_GRADIENT && is_in_bucket(tensor, storage);
  const std::uint32_t id =
      is_bucket ? describe_bucket(tensor, storage) : tensor_id(thread, tensor, role, name);
  if (role == PLIMSOLL_ROLE_KNOWN) {
    const ThreadState::Described now{&storage, static_cast<std::uint32_t>(thread.instances), id};
    if (std::exchange(thread.described, now) == now) return;
  }
  record_tag(thread, storage, id);
}

// Call this only inside an exception handler.
void count_if_no_memory() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    count_lost_detail();
  } catch (const std::exception&) {  // thrown by torch
  }
}

}  // namespace

std::mutex& foreign_mutex() { return g_foreign_mutex; }

c10::IntArrayRef sizes_of(const at::Tensor& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  return impl->is_python_dispatch() ? impl->sizes_default() : impl->sizes();
}

std::uint32_t tensor_id(ThreadState& thread, const at::Tensor& tensor, plimsoll_role role,
                        std::uint32_t name) {
  const c10::IntArrayRef sizes = sizes_of(tensor);
  if (sizes.size() > KnownTensor::kDimensions) return describe(tensor, role, name);
  std::uint64_t hash = (std::uint64_t{name} << 8U | static_cast<std::uint64_t>(role)) +
                       static_cast<std::uint64_t>(tensor.scalar_type()) * 31;
  for (const std::int64_t size : sizes) {
    hash = (hash ^ static_cast<std::uint64_t>(size)) * 0x9E3779B97F4A7C15U;
  }
  KnownTensor& slot = thread.known_tensors[hash >> 56U];
  if (slot.id != 0 && slot.name == name && slot.role == role &&
      slot.dtype == tensor.scalar_type() && slot.dimensions == sizes.size() &&
      std::equal(sizes.begin(), sizes.end(), slot.sizes.begin())) {
    return slot.id;
  }
  slot.id = describe(tensor, role, name);
  slot.name = name;
  slot.role = static_cast<std::uint8_t>(role);
  slot.dtype = tensor.scalar_type();
  slot.dimensions = static_cast<std::uint8_t>(sizes.size());
  std::ranges::copy(sizes, slot.sizes.begin());
  return slot.id;
}

c10::StorageImpl* recorded_storage(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.unsafeGetTensorImpl()->has_storage()) return nullptr;
  c10::StorageImpl* storage = tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  if (storage == nullptr || !is_recorded(storage->device_type())) return nullptr;
  if (storage->_mutable_data_ptr_no_checks().get() == nullptr) return nullptr;
  if (storage->sym_nbytes().is_symbolic() || storage->nbytes() == 0) return nullptr;
  return storage;
}

bool is_borrowed(const at::Tensor& tensor) {
  c10::StorageImpl* storage = recorded_storage(tensor);
  return storage != nullptr && storage->device_type() == c10::DeviceType::CPU &&
         !is_own_block(*storage);
}

bool is_new_borrowed(const at::Tensor& tensor) {
  return is_borrowed(tensor) && !is_watched(*recorded_storage(tensor));
}

void tag_tensor(ThreadState& thread, const at::Tensor& tensor, plimsoll_role role,
                std::uint32_t name) {
  try {
    if (c10::StorageImpl* storage = recorded_storage(tensor)) {
      record_role(thread, tensor, *storage, role, name);
    } else if (role != PLIMSOLL_ROLE_KNOWN) {
      for (const at::Tensor& part : parts_of(tensor)) {
        storage = recorded_storage(part);
        if (storage != nullptr) record_role(thread, part, *storage, role, name);
      }
    }
  } catch (const std::exception&) {
    // A tensor of an unusual kind (no sizes, no dtype) stays untagged.
    count_if_no_memory();
  }
}

void tag_storage(ThreadState& thread, const at::Tensor& tensor, std::uint32_t id) {
  try {
    if (c10::StorageImpl* storage = recorded_storage(tensor)) {
      record_tag(thread, *storage, id);
      return;
    }
    for (const at::Tensor& part : parts_of(tensor)) {
      if (c10::StorageImpl* storage = recorded_storage(part)) record_tag(thread, *storage, id);
    }
  } catch (const std::exception&) {
    count_if_no_memory();
  }
}

void tag_storage(ThreadState& thread, c10::StorageImpl& storage, std::uint32_t id) {
  try {
    record_tag(thread, storage, id);
  } catch (const std::exception&) {
    count_if_no_memory();
  }
}

void tag_output(ThreadState& thread, const at::Tensor& tensor) {
  tag_tensor(thread, tensor, PLIMSOLL_ROLE_KNOWN, 0);
}

void tag_new_output(ThreadState& thread, const at::Tensor& tensor) try {
  c10::StorageImpl* const storage = recorded_storage(tensor);
  if (storage == nullptr) return;
  NewBlocks& blocks = thread.new_blocks;
  const bool is_new = storage->device_type() == c10::DeviceType::CPU
                          ? blocks.take(address_of(*storage))
                          : blocks.take_device_block(address_of(*storage));
  if (is_new) record_role(thread, tensor, *storage, PLIMSOLL_ROLE_KNOWN, 0);
} catch (const std::exception&) {
  count_if_no_memory();
}

void poll_foreign_storages(ThreadState& thread) {
  const std::lock_guard lock(g_foreign_mutex);
  for (auto entry = foreign().begin(); entry != foreign().end();) {
    const std::uint64_t address = entry->first;
    std::erase_if(entry->second,
                  [&](const WeakStorage& weak) { return !still_has(weak, address); });
    if (!entry->second.empty()) {
      ++entry;
      continue;
    }
    recorder().free(thread.context, kCpu, address);
    entry = foreign().erase(entry);
  }
}

void forget_foreign_storages() {
  const std::lock_guard lock(g_foreign_mutex);
  foreign().clear();
}

c10::weak_intrusive_ptr<c10::StorageImpl> no_storage() {
  return WeakStorage(c10::intrusive_ptr<c10::StorageImpl>());
}

c10::weak_intrusive_ptr<c10::StorageImpl> weak_storage(const at::Tensor& tensor) {
  c10::StorageImpl* storage = recorded_storage(tensor);
  if (storage == nullptr) return no_storage();
  return WeakStorage(c10::intrusive_ptr<c10::StorageImpl>::unsafe_reclaim_from_nonowning(storage));
}

bool is_same_storage(const c10::weak_intrusive_ptr<c10::StorageImpl>& known,
                     const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.unsafeGetTensorImpl()->has_storage()) return false;
  const c10::StorageImpl* storage =
      tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  return storage != nullptr && known._unsafe_get_target() == storage;
}

}  // namespace plimsoll::libtorch

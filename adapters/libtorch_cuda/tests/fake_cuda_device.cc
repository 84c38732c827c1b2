// CUDA tensors without CUDA: memory comes from the fake allocator, every operator runs on the CPU,
// and autograd's engine has its device threads, as on a GPU.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_cpu_dispatch.h>
#include <ATen/ops/as_strided_cpu_dispatch.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/set_cpu_dispatch.h>
#include <ATen/ops/unfold_cpu_dispatch.h>
#include <ATen/ops/view_cpu_dispatch.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <dlfcn.h>
#include <torch/library.h>

#include <cstring>
#include <optional>

extern "C" void fake_set_device(int device);
extern "C" int fake_get_device();

namespace {

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override {
    return {c10::kCUDA, static_cast<c10::DeviceIndex>(fake_get_device())};
  }
  void setDevice(c10::Device device) const override { fake_set_device(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    fake_set_device(device.index());
  }
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 2; }
  void record(void**, const c10::Stream&, const c10::DeviceIndex,
              const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const c10::DeviceIndex) const noexcept override {}
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeEvent(void*) const override {}
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}
};
const Guard g_guard;
const c10::impl::DeviceGuardImplRegistrar g_registrar(c10::kCUDA, &g_guard);

// Answers torch's query for CUDA.
struct Hooks final : at::CUDAHooksInterface {
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isAvailable() const override { return true; }
  bool isBuilt() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 2; }
  c10::DeviceIndex getCurrentDevice() const override {
    return static_cast<c10::DeviceIndex>(fake_get_device());
  }
  void setCurrentDevice(c10::DeviceIndex device) const override { fake_set_device(device); }
  // Operators run on the CPU, and their random numbers come from the CPU too.
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  at::Generator getNewGenerator(c10::DeviceIndex) const override {
    return at::detail::createCPUGenerator();
  }
};
// torch has already stored the object, whose only state is its vtable.
const Hooks g_hooks;
const bool g_has_hooks = [] {
  static_assert(sizeof(Hooks) == sizeof(void*));
  auto& kept = const_cast<at::CUDAHooksInterface&>(at::detail::getCUDAHooks());
  std::memcpy(static_cast<void*>(&kept), &g_hooks, sizeof(void*));
  return true;
}();

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::CUDA);

// Makes the given device current. Without one, the current device stays.
void choose(std::optional<c10::Device> device) {
  if (device && device->has_index()) fake_set_device(device->index());
}
c10::ScalarType type_of(std::optional<at::ScalarType> dtype) {
  return dtype.value_or(c10::typeMetaToScalarType(c10::get_default_dtype()));
}

at::Tensor empty(c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  const int before = fake_get_device();
  choose(device);
  auto made = at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size),
                                        c10::cuda::CUDACachingAllocator::get(), kKeys,
                                        type_of(dtype), format);
  fake_set_device(before);
  return made;
}

at::Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<at::Device> device, std::optional<bool>) {
  const int before = fake_get_device();
  choose(device);
  auto made = at::detail::empty_strided_generic(
      C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
      c10::cuda::CUDACachingAllocator::get(), kKeys, type_of(dtype));
  fake_set_device(before);
  return made;
}

// The same memory as a CPU tensor.
at::Tensor on_cpu(const at::Tensor& tensor) {
  if (!tensor.is_cuda()) return tensor;
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                       at::TensorOptions().dtype(tensor.scalar_type()));
}

at::Tensor& copy(at::Tensor& self, const at::Tensor& source, bool) {
  on_cpu(self).copy_(on_cpu(source));
  return self;
}
at::Tensor copy_from(const at::Tensor& source, const at::Tensor& to, bool) {
  on_cpu(to).copy_(on_cpu(source));
  return to;
}
at::Tensor copy_from_and_resize(const at::Tensor& source, const at::Tensor& to) {
  const_cast<at::Tensor&>(to).resize_(source.sizes());
  return copy_from(source, to, false);
}
at::Scalar local_scalar(const at::Tensor& self) { return on_cpu(self).item(); }

const at::Tensor& resize(const at::Tensor& self, c10::SymIntArrayRef size,
                         std::optional<at::MemoryFormat>) {
  const auto wanted = C10_AS_INTARRAYREF_SLOW(size);
  c10::StorageImpl* storage = self.storage().unsafeGetStorageImpl();
  const auto bytes = static_cast<std::size_t>(c10::multiply_integers(wanted)) * self.itemsize();
  if (storage->nbytes() < bytes) {
    auto fresh = c10::cuda::CUDACachingAllocator::get()->allocate(bytes);
    if (storage->nbytes() != 0) std::memcpy(fresh.get(), storage->data(), storage->nbytes());
    storage->set_data_ptr_noswap(std::move(fresh));
    storage->set_nbytes(bytes);
  }
  self.unsafeGetTensorImpl()->set_sizes_contiguous(wanted);
  return self;
}

void on_the_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  at::native::cpu_fallback(op, stack);
}

// Like torch's kernels, these first take workspaces, if the fake libtorch_cuda.so is loaded.
void multiply(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  static const auto take = reinterpret_cast<void (*)(int)>(::dlsym(RTLD_DEFAULT, "fake_multiply"));
  if (take != nullptr) take(op.schema().name() == "aten::addmm" ? 1 : 0);
  on_the_cpu(op, stack);
}
void convolve(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  static const auto take = reinterpret_cast<void (*)()>(::dlsym(RTLD_DEFAULT, "fake_convolve"));
  if (take != nullptr) take();
  on_the_cpu(op, stack);
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("copy_", &copy);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("_local_scalar_dense", &local_scalar);
  m.impl("resize_", &resize);
  m.impl("as_strided", TORCH_FN(at::cpu::as_strided));
  m.impl("view", TORCH_FN(at::cpu::view));
  m.impl("_reshape_alias", TORCH_FN(at::cpu::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::cpu::unfold));
  // These would choose among libraries that do not exist here.
  m.impl("convolution", torch::CppFunction::makeFromBoxedFunction<&convolve>());
  m.impl("convolution_backward", torch::CppFunction::makeFromBoxedFunction<&convolve>());
  m.impl("addmm", torch::CppFunction::makeFromBoxedFunction<&multiply>());
  m.impl("mm", torch::CppFunction::makeFromBoxedFunction<&multiply>());
}
TORCH_LIBRARY_IMPL(_, CUDA, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_the_cpu>());
}

}  // namespace

// libtorch_cuda.so without CUDA: the functions that take workspaces, with their real names and
// visibility, over the fake allocator. As in torch, each thread has a handle of cuBLAS, and each
// handle and stream a workspace.
#include <c10/cuda/CUDACachingAllocator.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#define FAKE_API extern "C" __attribute__((visibility("default")))

extern "C" int fake_get_device();
extern "C" std::uint64_t fake_set_stream(std::uint64_t stream);

namespace {

constexpr std::size_t kCublasBytes = 33'554'432;
constexpr std::size_t kCublasLtBytes = 1'048'576;

using Key = std::pair<std::uint64_t, std::uint64_t>;  // of a handle and a stream
struct Workspaces {
  std::mutex mutex;
  std::map<Key, c10::DataPtr> cublas, cublas_lt;
};
Workspaces& workspaces() {
  static auto* all = new Workspaces;
  return *all;
}

Key key() {
  static std::atomic<std::uint64_t> handles{0};
  thread_local const std::uint64_t handle = ++handles;
  const std::uint64_t stream = fake_set_stream(0);
  fake_set_stream(stream);
  return {handle * 64 + static_cast<std::uint64_t>(fake_get_device()), stream};
}

[[gnu::noinline]] c10::DataPtr get_new_workspace() {
  return c10::cuda::CUDACachingAllocator::get()->allocate(kCublasBytes);
}
[[gnu::noinline]] c10::DataPtr get_new_lt_workspace() {
  return c10::cuda::CUDACachingAllocator::get()->allocate(kCublasLtBytes);
}

}  // namespace

#define EXPORTED __attribute__((visibility("default")))

namespace at::cuda {

EXPORTED void* getCurrentCUDABlasHandle() {
  auto& all = workspaces();
  const Key mine = key();
  const std::lock_guard lock(all.mutex);
  if (all.cublas.count(mine) == 0) all.cublas.emplace(mine, get_new_workspace());
  return all.cublas.at(mine).get();
}
EXPORTED void* getCUDABlasLtWorkspace() {
  auto& all = workspaces();
  const Key mine = key();
  const std::lock_guard lock(all.mutex);
  if (all.cublas_lt.count(mine) == 0) all.cublas_lt.emplace(mine, get_new_lt_workspace());
  return all.cublas_lt.at(mine).get();
}

}  // namespace at::cuda

namespace at::native {
namespace {

[[gnu::noinline]] void run_conv_plan(std::size_t bytes) {
  c10::cuda::CUDACachingAllocator::raw_delete(c10::cuda::CUDACachingAllocator::raw_alloc(bytes));
}

}  // namespace

// With cudnn.benchmark: the largest of all plans, then that of the best.
EXPORTED void cudnn_convolution() {
  run_conv_plan(100 << 20);
  run_conv_plan(3 << 20);
}

}  // namespace at::native

FAKE_API void fake_multiply(int is_biased) {
  at::cuda::getCurrentCUDABlasHandle();
  if (is_biased != 0) at::cuda::getCUDABlasLtWorkspace();
}
FAKE_API void fake_convolve() { at::native::cudnn_convolution(); }
FAKE_API void fake_clear_workspaces() {
  auto& all = workspaces();
  const std::lock_guard lock(all.mutex);
  all.cublas.clear();
  all.cublas_lt.clear();
}

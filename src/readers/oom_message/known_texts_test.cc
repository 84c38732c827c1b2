// A real message of each program, and texts that are not messages.
#include "readers/oom_message/known_texts.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::readers::oom_message {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

struct Example {
  std::string_view text;
  std::string_view title;
};

constexpr auto kExamples = std::to_array<Example>({
    {"ValueError: Free memory on device cuda:0 (3.27/15.98 GiB) on startup is less than desired "
     "GPU memory utilization (0.9, 14.39 GiB). Decrease GPU memory utilization or reduce GPU "
     "memory used by other processes.",
     "vLLM found 3.3 GiB of 16.0 GiB free at start-up, less than the 14.4 GiB it reserves "
     "(gpu_memory_utilization 0.9)"},
    {"ERROR 06-02 05:17:18 [core.py:387] ValueError: To serve at least one request with the "
     "models's max seq len (40960), (10.00 GiB KV cache is needed, which is larger than the "
     "available KV cache memory (1.25 GiB). Based on the available memory,",
     "vLLM needs 10.0 GiB of KV cache for one request of 40960 tokens, and has 1.2 GiB"},
    {"To serve at least one request with the model's max seq len (262144), 28.00 GiB KV cache is "
     "needed, which is larger than the available KV cache memory\n(13.69 GiB).",
     "vLLM needs 28.0 GiB of KV cache for one request of 262144 tokens, and has 13.7 GiB"},
    {"ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that "
     "can be stored in KV cache (22032). Try increasing `gpu_memory_utilization`",
     "vLLM's KV cache holds 22032 tokens, fewer than one request of 32768 tokens needs"},
    {"ValueError: No available memory for the cache blocks. Try increasing "
     "`gpu_memory_utilization` when initializing the engine.",
     "vLLM has no memory left for its KV cache"},
    {"RuntimeError: CUDA out of memory occurred when warming up sampler with 256 dummy requests. "
     "Please try lowering `max_num_seqs`",
     "vLLM ran out of memory when it warmed up its sampler with 256 requests"},
    {"RuntimeError: CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:139",
     "vLLM's allocator for sleep mode had no free memory on the device"},
    {"RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
     "SGLang has no memory left for its KV cache"},
    {"W tensorflow/tsl/framework/bfc_allocator.cc:485] Allocator (GPU_0_bfc) ran out of memory "
     "trying to allocate 3.07GiB (rounded to 3300000000)requested by op _EagerConst",
     "the allocator GPU_0_bfc of TensorFlow or JAX had no 3.1 GiB on the device"},
    {"ResourceExhaustedError: OOM when allocating tensor with shape[200,75,75,64] and type float "
     "on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc",
     "TensorFlow had no memory for a tensor of shape [200,75,75,64] and type float"},
    {"jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate "
     "33762398024 bytes.",
     "XLA (JAX) had no 31.4 GiB on the device"},
    {"RESOURCE_EXHAUSTED: Out of memory while trying to allocate 73.30GiB. [executable_name='f']",
     "XLA (JAX) had no 73.3 GiB on the device"},
    {"cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 1,600,000,000 bytes (allocated "
     "so far: 2,281,307,136 bytes).",
     "CuPy requested 1.5 GiB after it had allocated 2.1 GiB"},
    {"Out of memory allocating 1,693,802,496 bytes (allocated so far: 1,693,802,496 bytes, limit "
     "set to: 2,576,311,910 bytes).",
     "CuPy requested 1.6 GiB, had allocated 1.6 GiB, and may use 2.4 GiB"},
    {"MemoryError: std::bad_alloc: out_of_memory: CUDA error (failed to allocate 33295450768 "
     "bytes) at: /env/include/rmm/mr/device/cuda_memory_resource.hpp:62: cudaErrorMemoryAllocation",
     "RMM (RAPIDS) had no 31.0 GiB on the device"},
    {"MemoryError: std::bad_alloc: out_of_memory: CUDA error at: /rmm/cuda_memory_resource.hpp:70: "
     "cudaErrorMemoryAllocation out of memory",
     "RMM (RAPIDS) ran out of device memory"},
    {"RMM failure at: pool_memory_resource.hpp:276: Maximum pool size exceeded",
     "a pool of RMM (RAPIDS) reached its maximum size"},
    {"E ggml_backend_cuda_buffer_type_alloc_buffer: allocating 13285.50 MiB on device 1: "
     "cudaMalloc failed: out of memory",
     "llama.cpp could not allocate a buffer of 13.0 GiB on GPU 1"},
    {"BFCArena::AllocateRawInternal Available memory of 34699008 is smaller than requested bytes "
     "of 945041920",
     "the arena of ONNX Runtime had 33.1 MiB left, and 901.3 MiB were requested"},
    {"onnxruntime::BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer of "
     "size 4294967296",
     "ONNX Runtime could not allocate 4.0 GiB"},
    {"triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 135168, "
     "Hardware limit: 101376. Reducing block sizes or `num_stages` may help.",
     "a kernel of Triton needs 132.0 KiB of shared memory, and a multiprocessor has 99.0 KiB"},
    {"Last error:\nFailed to CUDA calloc async 2432 bytes",
     "NCCL could not allocate 2.4 KiB on the device"},
    {"alloc.h:178 NCCL WARN Cuda failure 2 'out of memory'", "NCCL ran out of device memory"},
    {"NCCL WARN Cuda failure 'out of memory'", "NCCL ran out of device memory"},
    {"RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
     "cuBLAS ran out of device memory"},
    {"RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED", "cuDNN ran out of memory"},
    {"RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
     "cuDNN ran out of device memory"},
    {"ValueError: Some modules are dispatched on the CPU or the disk. Make sure you have enough "
     "GPU RAM to fit the quantized model.",
     "the quantized model does not fit on the GPUs"},
    {"RuntimeError: No executable batch size found, reached zero.",
     "Accelerate halved the batch down to zero"},
    {"Error out of memory at line 380 in file /src/csrc/ops.cu",
     "bitsandbytes ran out of device memory"},
    {"RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "
     "\"/pytorch/c10/cuda/CUDACachingAllocator.cpp\":1154, please report a bug to PyTorch.",
     "PyTorch ran out of memory, but could not complete the message"},
    {"torch.AcceleratorError: HIP error: out of memory",
     "the HIP runtime ran out of device memory"},
    {"hipErrorOutOfMemory", "the HIP runtime ran out of device memory"},
    {"RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be",
     "the CUDA driver ran out of memory"},
    {"CUDA_ERROR_OUT_OF_MEMORY: out of memory", "the CUDA driver ran out of memory"},
    {"cudaErrorMemoryAllocation: out of memory", "the CUDA driver ran out of memory"},
    {"ray.exceptions.OutOfMemoryError: 1 worker(s) were killed due to the node running low on "
     "memory.\nMemory on the node (IP: 10.0.50.112, ID: 4cb2) was 28.62GB / 30.00GB (0.954017), "
     "which exceeds the memory usage threshold of 0.950000; Object store memory usage:",
     "Ray killed workers: the node used 28.6 GiB of 30.0 GiB, above its threshold of 0.950000"},
    {"6 worker(s) were killed due to the node running low on memory. Memory on the node was",
     "Ray killed workers because the host memory of the node ran low"},
    {"ray.exceptions.ObjectStoreFullError: Failed to put object.\nThe local object store is full "
     "of objects that are still in scope and cannot be evicted.",
     "the object store of Ray is full"},
    {"RuntimeError: DataLoader worker (pid 249) is killed by signal: Bus error. It is possible "
     "that dataloader's workers are out of shared memory. Please try to raise your shared memory "
     "limit.",
     "a worker of the DataLoader ran out of shared memory (/dev/shm)"},
    {"RuntimeError: unable to allocate shared memory(shm) for file </torch_12_3>: No space left on "
     "device (28)",
     "PyTorch could not allocate shared memory (/dev/shm)"},
    {"RuntimeError: unable to mmap 49907246508 bytes from file <model.safetensors>: Cannot "
     "allocate memory (12)",
     "PyTorch could not map a file of 46.5 GiB into memory"},
    {"numpy._core._exceptions._ArrayMemoryError: Unable to allocate 7.45 GiB for an array with "
     "shape (1000000, 1000) and data type float64",
     "NumPy could not allocate 7.5 GiB for one array of shape (1000000, 1000)"},
    {"slurmstepd: error: Detected 1 oom_kill event in StepId=1738063.batch.",
     "Slurm killed the job"},
    {"srun: error: gpu07: tasks 0,2: Out Of Memory\nsrun: error: gpu07: task 3: Out Of Memory",
     "Slurm killed the job"},
    {"slurmstepd: error: Detected 2 oom-kill event(s) in StepId=12.0.", "Slurm killed the job"},
    {"[337533.3] Memory cgroup out of memory: Killed process 23793 (leaker) total-vm:2623712kB, "
     "anon-rss:506500kB, file-rss:1268kB",
     "the kernel killed leaker (process 23793): its container was out of memory, and it used 494.6 "
     "MiB"},
    {"Out of memory: Killed process 42 (python3) total-vm:23870700kB, anon-rss:16736460kB, "
     "file-rss",
     "the kernel killed python3 (process 42), which used 16.0 GiB: the host was out of memory"},
    {"Out of memory: Killed process 42 (python) anon-rss:9kB",
     "the kernel killed a process because the host memory ran out"},
    {"    Last State:     Terminated\n      Reason:       OOMKilled\n      Exit Code:    137",
     "Kubernetes reports OOMKilled"},
    {"E0611 torch/distributed/elastic/multiprocessing/api.py:914] failed (exitcode: -9) "
     "local_rank: 0 (pid: 3766727) of binary: python",
     "a process of torchrun (local rank 0) was killed with SIGKILL"},
});

TEST(KnownTexts, each_example_has_its_title) {
  for (const Example& example : kExamples) {
    const auto found = find_known_texts("before\n" + std::string(example.text) + "\nafter\n");
    ASSERT_THAT(found, SizeIs(1)) << example.text;
    ASSERT_TRUE(found[0].message.known.has_value());
    EXPECT_THAT(found[0].message.known->title, HasSubstr(std::string(example.title)));
    EXPECT_THAT(found[0].message.known->title, testing::Not(HasSubstr("{")));
    EXPECT_FALSE(found[0].message.known->steps.empty());
    EXPECT_FALSE(found[0].message.known->quotation.empty());
  }
}

TEST(KnownTexts, figures_are_those_of_the_text) {
  const auto found = find_known_texts(kExamples[17].text);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(to_string(found[0].message.device), "cuda:1");
  EXPECT_EQ(found[0].message.requested_bytes, (std::uint64_t{13285} << 20) + (1 << 19));
  const auto free = find_known_texts(
      "Available memory of 1073741824 is smaller than requested bytes of 2147483648");
  ASSERT_THAT(free, SizeIs(1));
  EXPECT_EQ(free[0].message.free_bytes, std::uint64_t{1} << 30);
}

TEST(KnownTexts, a_wrapped_or_quoted_text_is_found) {
  for (const char* const end : {"\n", "\r\n  ", "\n> ", " \xE2\x94\x82\n\xE2\x94\x82 "}) {
    const auto found = find_known_texts(
        std::string("Free memory on device cuda:0 (3.27/15.98 GiB) on startup") + end +
        "is less than desired GPU memory" + end + "utilization (0.9, 14.39 GiB).");
    ASSERT_THAT(found, SizeIs(1)) << end;
    EXPECT_THAT(found[0].message.known->title, HasSubstr("14.4 GiB"));
  }
}

TEST(KnownTexts, one_text_for_each_kind_of_device) {
  const auto found = find_known_texts(
      "CUDA error: out of memory\nNCCL WARN Cuda failure 2 'out of memory'\nOOMKilled\nfailed "
      "(exitcode: -9) local_rank: 0\n");
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_THAT(found[0].message.known->title, HasSubstr("NCCL"));
  EXPECT_THAT(found[1].message.known->title, HasSubstr("Kubernetes"));
}

TEST(KnownTexts, other_texts_do_not_match) {
  for (const char* const text :
       {"", "out of memory", "Free memory on device cuda:0 (lots) on startup",
        "Free memory on device (3.27/15.98 GiB) at the end", "max seq len (4096)",
        "Out of memory allocating A bytes (allocated so far: B bytes).",
        "Allocator (GPU_0_bfc) ran out of memory trying to allocate 544.02MiB. The caller "
        "indicates that this is not a failure",
        "out of resource: threads, Required: 1, Hardware limit: 2",
        "Error invalid argument at line 118 in file /src/csrc/ops.cu",
        "DataLoader worker (pid 249) is killed by signal: Terminated.",
        "NCCL WARN Cuda failure 1 'invalid argument'", "failed (exitcode: -15) local_rank: 0",
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating ~500 MiB"}) {
    EXPECT_THAT(find_known_texts(text), IsEmpty()) << text;
  }
}

TEST(KnownTexts, patterns_begin_with_a_literal) {
  std::set<std::string_view> patterns;
  for (const KnownPattern& known : known_patterns()) {
    EXPECT_GE(known.pattern.substr(0, known.pattern.find('{')).size(), 8u) << known.pattern;
    EXPECT_TRUE(patterns.insert(known.pattern).second) << known.pattern;
    EXPECT_FALSE(known.means.steps[0].empty()) << known.means.title;
  }
  EXPECT_GE(patterns.size(), 40u);
}

TEST(KnownTexts, in_prose_comments_and_source_do_not_match) {
  for (const char* const text :
       {"If the log says CUDA error: out of memory, use fewer processes.",
        "# CUDA error: out of memory", "x = f()  # CUDA error: out of memory",
        "    raise RuntimeError(\"CUDA error: out of memory\")",
        "Look for `Out of memory: Killed process 42 (python)` in dmesg.",
        "For example: Out of memory: Killed process 42 (python)",
        "Out of memory: Killed process messages name the process",
        "gRPC may answer RESOURCE_EXHAUSTED: too little memory", "- OOMKilled pods restart",
        "OOMKilled means exit code 137", "See also: The local object store is full of objects"}) {
    EXPECT_THAT(find_known_texts(text), IsEmpty()) << text;
  }
  for (const char* const text :
       {"Reason: OOMKilled", "reason=OOMKilled exitCode=137", "state: OOMKilled (137)",
        "trainer-0   0/1     OOMKilled   0          2m",
        "kernel: [3.1] Out of memory: Kill process 42 (python) score 900 or sacrifice child",
        "what():  CUDA error: out of memory", "[rank1]: CUDA error: out of memory"}) {
    EXPECT_THAT(find_known_texts(text), SizeIs(1)) << text;
  }
}

// Millions of words that begin as known texts do: the search does a bounded amount of work at each.
TEST(KnownTexts, lookalikes_cost_linear_time) {
  constexpr std::size_t kWords = 100'000;
  for (const std::string word :
       {"Allocator (Allocator (", "max seq len (1) ", "Out of memory: K "}) {
    std::string text;
    for (std::size_t count = 0; count < kWords; ++count) text += word;
    EXPECT_THAT(find_known_texts(text), IsEmpty());
  }
}

}  // namespace
}  // namespace plimsoll::readers::oom_message

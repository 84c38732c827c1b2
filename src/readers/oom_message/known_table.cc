// The texts, as the sources of each program print them, and the setting that governs the number.
#include <array>

#include "readers/oom_message/known_texts.h"

namespace plimsoll::readers::oom_message {
namespace {

using enum model::DeviceType;

constexpr std::string_view kRecord = "Record what fills the memory: plimsoll run SCRIPT.";
constexpr std::string_view kFewerBatches = "Use a smaller batch or a shorter sequence.";
constexpr std::string_view kRecordHost =
    "Record what uses the host's memory, up to the kill: plimsoll run SCRIPT.";
constexpr std::string_view kFewerWorkers =
    "Use fewer DataLoader workers (num_workers), a smaller prefetch_factor or a smaller batch.";
constexpr std::string_view kLoadLess =
    "While a model loads, avoid a second copy of it: low_cpu_mem_usage=True, "
    "torch.load(mmap=True), or one rank at a time.";

constexpr std::string_view kLeaveFree =
    "Leave some memory free (torch.cuda.set_per_process_memory_fraction).";
constexpr std::string_view kOwnDevice = "Let each rank use its own device (torch.cuda.set_device).";
constexpr std::string_view kWhoKilled =
    "Look for the kernel's message: dmesg -T | grep -i 'killed process'.";
constexpr std::string_view kSigkill =
    "The kernel sends SIGKILL when the host memory of the machine or of its container runs out; "
    "the log does not state who sent this one.";
constexpr std::string_view kLargerShm =
    "Make it larger: docker run --shm-size=8g (or --ipc=host); in Kubernetes, mount an emptyDir "
    "with medium: Memory at /dev/shm.";
constexpr std::string_view kCacheSize =
    "One request of max_model_len tokens must fit into the KV cache. The cache is what "
    "gpu_memory_utilization leaves after the model and the activations of a profiling run.";

// Explanations of several texts.
constexpr Explanation kXla{
    kCuda,
    "XLA (JAX) had no {requested} on the device",
    "JAX reserves 75 % of a device at its start, and allocates from that.",
    {kFewerBatches,
     "If other programs share the device, set XLA_PYTHON_CLIENT_PREALLOCATE=false or "
     "XLA_PYTHON_CLIENT_MEM_FRACTION."}};
constexpr std::string_view kOfRmm =
    "RMM is the allocator of cuDF and cuML. It asked the CUDA driver, which refused.";
constexpr std::array<std::string_view, 3> kRmmSteps{
    "Process less at a time, or let cuDF spill to the host (CUDF_SPILL=on).",
    "If PyTorch shares the device, let both use one pool: rmm.allocators.torch."};
constexpr Explanation kNccl{
    kCuda,
    "NCCL ran out of device memory; its error has no numbers",
    "The driver had no memory for NCCL's buffers, which are outside of PyTorch's allocator.",
    {kLeaveFree, kOwnDevice}};
constexpr std::string_view kOfCudnn = "cuDNN had no memory for a handle or a workspace.";
constexpr std::string_view kOfDriver =
    "The memory was for its context, for pinned memory or for a library.";
constexpr Explanation kHipDriver{kHip,
                                 "the HIP runtime ran out of device memory outside of PyTorch's "
                                 "allocator; its error has no numbers",
                                 kOfDriver,
                                 {"See whether other processes use the device (rocm-smi)."}};
constexpr Explanation kCudaDriver{
    kCuda,
    "the CUDA driver ran out of memory outside of PyTorch's allocator; its error has no numbers",
    kOfDriver,
    {"See whether other processes use the device (nvidia-smi).",
     "Record the driver's allocations: plimsoll run --cuda-driver -- python SCRIPT."}};
constexpr Explanation kKernel{
    kCpu,
    "the kernel killed a process because the host memory ran out",
    "The memory is that of the machine or of its container, not of a GPU.",
    {kRecordHost, kFewerWorkers, kLoadLess}};
constexpr std::string_view kRayMonitor =
    "Ray's memory monitor kills workers before the kernel does. The memory is that of the host, "
    "not of a GPU.";
constexpr std::string_view kLessAtOnce =
    "Request more memory for each task or actor (memory=, num_cpus=), so that fewer run at once.";
constexpr std::string_view kRayThreshold = "Or raise the threshold: RAY_memory_usage_threshold.";
constexpr Explanation kRay{
    kCpu,
    "Ray killed workers: the node used {used} of {total}, above its threshold of {threshold}",
    kRayMonitor,
    {kLessAtOnce, kRayThreshold, kRecordHost}};
constexpr Explanation kWorkerShm{kCpu,
                                 "a worker of the DataLoader ran out of shared memory (/dev/shm)",
                                 "Workers pass batches to the program through /dev/shm, which has "
                                 "64 MiB in a container of docker by default.",
                                 {kLargerShm, kFewerWorkers}};
constexpr Explanation kShm{kCpu,
                           "PyTorch could not allocate shared memory (/dev/shm)",
                           "Tensors that processes share are in /dev/shm, which has 64 MiB in a "
                           "container of docker by default.",
                           {kLargerShm, kFewerWorkers}};
constexpr Explanation kSlurm{
    kCpu,
    "Slurm killed the job: its host memory exceeded what the job requested",
    "The limit is that of the job's cgroup, not of the machine or of a GPU.",
    {"Request more: --mem or --mem-per-cpu of sbatch.", kFewerWorkers, kRecordHost}};
constexpr Explanation kKubernetes{
    kCpu,
    "Kubernetes reports OOMKilled: the container exceeded its limit of host memory",
    "limits.memory of the container counts its processes, its page cache in use, and /dev/shm that "
    "is a volume in memory. Its exit code is 137 (128 + SIGKILL).",
    {"Raise limits.memory of the container.", kFewerWorkers, kRecordHost}};
constexpr Explanation kKilled{kCpu,
                              "a process of the run was killed with SIGKILL",
                              kSigkill,
                              {kWhoKilled, kRecordHost, kLoadLess}};

constexpr auto kPatterns = std::to_array<KnownPattern>({
    // Of vLLM and SGLang.
    {"Free memory on device {|text}({free|GiB}/{total|GiB} GiB) on startup is less than desired "
     "GPU memory utilization ({fraction|number}, {wanted|GiB} GiB)",
     {kCuda,
      "vLLM found {free} of {total} free at start-up, less than the {wanted} it reserves "
      "(gpu_memory_utilization {fraction})",
      "vLLM reserves gpu_memory_utilization of the whole device, whatever the model needs. Other "
      "processes, or an earlier server that has not ended, used the rest.",
      {"Stop other processes on the device (nvidia-smi lists them).",
       "Or lower gpu_memory_utilization so that its share of {total} is below {free}."}}},
    {"To serve at least one request with the {|text}max seq len ({length|number}), {needed|GiB} "
     "GiB KV cache is needed, which is larger than the available KV cache memory ({available|GiB} "
     "GiB)",
     {kCuda,
      "vLLM needs {needed} of KV cache for one request of {length} tokens, and has {available}",
      kCacheSize,
      {"Lower max_model_len.",
       "Or raise gpu_memory_utilization, use more GPUs (tensor_parallel_size), or a smaller cache "
       "type (kv_cache_dtype=fp8)."}}},
    {"max seq len ({length|number}) is larger than the maximum number of tokens that can be stored "
     "in KV cache ({tokens|number})",
     {kCuda,
      "vLLM's KV cache holds {tokens} tokens, fewer than one request of {length} tokens needs",
      kCacheSize,
      {"Set max_model_len to {tokens} or less.",
       "Or raise gpu_memory_utilization, or use more GPUs (tensor_parallel_size)."}}},
    {"No available memory for the cache blocks",
     {kCuda,
      "vLLM has no memory left for its KV cache",
      "The model and the activations of the profiling run already fill the share of the device "
      "that gpu_memory_utilization allows.",
      {"Raise gpu_memory_utilization if the device has more free memory.",
       "Or use a quantized model, more GPUs (tensor_parallel_size), or a lower "
       "max_num_batched_tokens, which makes the profiling run smaller."}}},
    {"CUDA out of memory occurred when warming up {what|text} with {requests|number} dummy "
     "requests",
     {kCuda,
      "vLLM ran out of memory when it warmed up its {what} with {requests} requests",
      "The warm-up runs max_num_seqs requests, after the KV cache has been allocated.",
      {"Lower max_num_seqs.",
       "Or lower gpu_memory_utilization: less KV cache leaves more for this."}}},
    {"Error in memory profiling. Initial free memory {before|GiB} GiB, current free memory "
     "{after|GiB} GiB",
     {kCuda,
      "the free memory rose from {before} to {after} while vLLM measured what the model needs",
      "vLLM reserves gpu_memory_utilization of the device, less what a profiling run uses. It "
      "measures that as a fall of the free memory, and another process released memory meanwhile.",
      {"Start the server when the other process has ended, and several servers one after the "
       "other.",
       "Or let each process use its own device."}}},
    {"CUDA Error: out of memory at {|text}cumem_allocator.cpp",
     {kCuda,
      "vLLM's allocator for sleep mode had no free memory on the device",
      "vLLM's sleep mode maps its memory through an allocator of its own (cumem). On wake_up() the "
      "driver must have as much free as was released, but something else used it meanwhile.",
      {"Release PyTorch's cache before wake_up() (torch.cuda.empty_cache()), and keep the "
       "trainer's parameters and optimizer state off the device until the server sleeps again.",
       "Or lower gpu_memory_utilization of the server."}}},
    {"Not enough memory. Please try to increase --mem-fraction-static",
     {kCuda,
      "SGLang has no memory left for its KV cache",
      "The model already fills the share of the free memory that --mem-fraction-static allows for "
      "the model and the KV cache.",
      {"Raise --mem-fraction-static; what it leaves is for activations and CUDA graphs.",
       "Or use a quantized model or more GPUs (--tp-size)."}}},
    // Libraries that allocate on a device.
    {"Allocator ({allocator|text}) ran out of memory trying to allocate {requested|size} (rounded",
     {kCuda,
      "the allocator {allocator} of TensorFlow or JAX had no {requested} on the device",
      "TensorFlow and JAX reserve most of a device at their start, and allocate from that.",
      {kFewerBatches,
       "If PyTorch shares the device, set XLA_PYTHON_CLIENT_PREALLOCATE=false or "
       "XLA_PYTHON_CLIENT_MEM_FRACTION for JAX, or TF_FORCE_GPU_ALLOW_GROWTH=true for "
       "TensorFlow."}}},
    {"OOM when allocating tensor with shape[{shape|text}] and type {type|text} on",
     {kCuda,
      "TensorFlow had no memory for a tensor of shape [{shape}] and type {type}",
      "The error names the tensor whose allocation failed.",
      {kFewerBatches,
       "If PyTorch shares the device, set TF_FORCE_GPU_ALLOW_GROWTH=true for TensorFlow."}}},
    {"RESOURCE_EXHAUSTED: Out of memory while trying to allocate {requested|size}", kXla},
    {"RESOURCE_EXHAUSTED: Failed to allocate request for {|size} ({requested|bytes}B) on device "
     "ordinal {device|number}",
     kXla},
    {"RESOURCE_EXHAUSTED: {|text}memory",
     {kCuda,
      "XLA or TensorFlow reports RESOURCE_EXHAUSTED: it ran out of memory, without numbers",
      "The status is that of XLA and TensorFlow for a failed allocation.",
      {kFewerBatches}}},
    {"ResourceExhaustedError: {|text}failed to allocate memory",
     {kCuda,
      "TensorFlow raised ResourceExhaustedError: it ran out of memory, without numbers",
      "The error is that of TensorFlow for a failed allocation.",
      {kFewerBatches}}},
    {"Out of memory allocating {requested|bytes} bytes (allocated so far: {used|bytes} bytes, "
     "limit set to: {limit|bytes} bytes",
     {kCuda,
      "CuPy requested {requested}, had allocated {used}, and may use {limit}",
      "CuPy's memory pool is limited by its set_limit() or CUPY_GPU_MEMORY_LIMIT.",
      {"Raise that limit, or call cupy.get_default_memory_pool().free_all_blocks() before."}}},
    {"Out of memory allocating {requested|bytes} bytes (allocated so far: {used|bytes} bytes",
     {kCuda,
      "CuPy requested {requested} after it had allocated {used}",
      "CuPy's memory pool keeps freed blocks, as PyTorch's allocator does. Neither can use the "
      "other's.",
      {"Release what both cache: cupy.get_default_memory_pool().free_all_blocks() and "
       "torch.cuda.empty_cache().",
       "Or let CuPy allocate through PyTorch: cupy.cuda.set_allocator(), or one allocator of "
       "RMM."}}},
    {"out_of_memory: CUDA error (failed to allocate {requested|bytes} bytes)",
     {kCuda, "RMM (RAPIDS) had no {requested} on the device", kOfRmm, kRmmSteps}},
    {"std::bad_alloc: out_of_memory: CUDA error at",
     {kCuda, "RMM (RAPIDS) ran out of device memory; its error has no numbers", kOfRmm, kRmmSteps}},
    {"Maximum pool size exceeded",
     {kCuda,
      "a pool of RMM (RAPIDS) reached its maximum size",
      "The pool's maximum_pool_size limits what RMM takes from the device.",
      {"Raise maximum_pool_size in rmm.reinitialize() or PoolMemoryResource, or process less at a "
       "time."}}},
    {"ggml_backend_cuda_buffer_type_alloc_buffer: allocating {requested|size} on device "
     "{device|number}: cudaMalloc failed: out of memory",
     {kCuda,
      "llama.cpp could not allocate a buffer of {requested} on GPU {device}",
      "llama.cpp allocates its weights, its KV cache and its compute buffer as one buffer each.",
      {"Offload fewer layers (--n-gpu-layers).",
       "Or make the KV cache smaller: a shorter context (--ctx-size), fewer slots (--parallel), or "
       "a quantized cache (--cache-type-k q8_0)."}}},
    {"Available memory of {free|bytes} is smaller than requested bytes of {requested|bytes}",
     {kCuda,
      "the arena of ONNX Runtime had {free} left, and {requested} were requested",
      "The provider option gpu_mem_limit limits the arena.",
      {"Raise gpu_mem_limit of the CUDA execution provider, or use a smaller batch."}}},
    {"Failed to allocate memory for requested buffer of size {requested|bytes}",
     {kCuda,
      "ONNX Runtime could not allocate {requested}",
      "The arena of ONNX Runtime grows to the next power of two by default, and keeps what is "
      "free.",
      {"Set the provider options arena_extend_strategy=kSameAsRequested and gpu_mem_limit.",
       kFewerBatches}}},
    {"out of resource: shared memory, Required: {needed|bytes}, Hardware limit: {most|bytes}",
     {kCuda,
      "a kernel of Triton needs {needed} of shared memory, and a multiprocessor has {most}",
      "This is on-chip memory of one kernel, not the memory of the device: fewer tensors do not "
      "help.",
      {"Reduce the kernel's block sizes or num_stages.",
       "If torch.compile generated the kernel, report it with the shapes, or exclude the "
       "configuration from autotuning."}}},
    {"Failed to CUDA calloc async {requested|bytes} bytes",
     {kCuda,
      "NCCL could not allocate {requested} on the device",
      "NCCL allocates its buffers outside of PyTorch's allocator, at the first collective of each "
      "group. The allocator had reserved what was left.",
      {"Run one small collective of each group before the model fills the device.",
       "Or leave some memory free (torch.cuda.set_per_process_memory_fraction), or use fewer "
       "channels (NCCL_MAX_NCHANNELS) or smaller buffers (NCCL_BUFFSIZE).",
       kOwnDevice}}},
    {"Cuda failure 2 'out of memory'", kNccl},
    {"Cuda failure 'out of memory'", kNccl},
    {"CUBLAS_STATUS_ALLOC_FAILED",
     {kCuda,
      "cuBLAS ran out of device memory; its error has no numbers",
      "The driver had no memory for a handle of cuBLAS or its workspace, which is outside of "
      "PyTorch's allocator.",
      {"Leave some memory free: use a smaller batch, or stop other processes on the device "
       "(nvidia-smi).",
       "Or use smaller workspaces: CUBLAS_WORKSPACE_CONFIG=:4096:2."}}},
    {"CUDNN_STATUS_ALLOC_FAILED",
     {kCuda,
      "cuDNN ran out of memory; its error has no numbers",
      kOfCudnn,
      {kFewerBatches, kLeaveFree}}},
    {"CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
     {kCuda,
      "cuDNN ran out of device memory; its error has no numbers",
      kOfCudnn,
      {kFewerBatches, kLeaveFree}}},
    {"Some modules are dispatched on the CPU or the disk",
     {kCuda,
      "the quantized model does not fit on the GPUs: Transformers placed parts of it elsewhere",
      "With a device_map, Accelerate places on the GPUs what fits into max_memory. bitsandbytes "
      "refuses quantized modules on the CPU or the disk.",
      {"Free the GPUs first: another model, or another process (nvidia-smi), may fill them.",
       "Or use 4 bits (load_in_4bit), raise max_memory, or place parts on the CPU in 32 bits "
       "(llm_int8_enable_fp32_cpu_offload=True with a device_map of your own)."}}},
    {"No executable batch size found, reached zero",
     {kCuda,
      "Accelerate halved the batch down to zero, and every size ran out of memory",
      "find_executable_batch_size (auto_find_batch_size of the Trainer) retries with a smaller "
      "batch after each error about memory. Even one sample did not fit, or earlier tries left "
      "memory behind.",
      {"Run with a fixed batch of 1 to see the first error.", kRecord}}},
    {"Error out of memory at line {|number} in file {|text}csrc",
     {kCuda,
      "bitsandbytes ran out of device memory; its error has no numbers",
      "The driver had no memory for bitsandbytes, which is outside of PyTorch's allocator; paged "
      "optimizers use managed memory of CUDA.",
      {kFewerBatches, kLeaveFree}}},
    {"torch.OutOfMemoryError: Allocation on device",
     {kCuda,
      "PyTorch ran out of memory under backend:cudaMallocAsync; its error has no numbers",
      "The message continues with what was allocated, requested and free, but this text ends "
      "before.",
      {kFewerBatches, kRecord}}},
    {"NVML_SUCCESS == {|text}INTERNAL ASSERT FAILED{|text}CUDACachingAllocator.cpp",
     {kCuda,
      "PyTorch ran out of memory, but could not complete the message, so it has no numbers",
      "Its query of NVML for the processes of the device failed, as it can in containers and on "
      "partitions (MIG).",
      {"See how much is free before the first allocation (torch.cuda.mem_get_info()).", kRecord}}},
    {"HIP error: out of memory", kHipDriver},
    {"hipErrorOutOfMemory", kHipDriver},
    {"CUDA error: out of memory", kCudaDriver},
    {"CUDA_ERROR_OUT_OF_MEMORY", kCudaDriver},
    {"cudaErrorMemoryAllocation", kCudaDriver},
    // What fills the memory of the machine.
    {"killed due to the node running low on memory.{|text} Memory on the node {|text}was running "
     "was {used|size} / {total|size} ({|number}), which exceeds the memory usage threshold of "
     "{threshold|number}",
     kRay},
    {"killed due to the node running low on memory.{|text} Memory on the node {|text}was "
     "{used|size} / {total|size} ({|number}), which exceeds the memory usage threshold of "
     "{threshold|number}",
     kRay},
    {"killed due to the node running low on memory",
     {kCpu,
      "Ray killed workers because the host memory of the node ran low",
      kRayMonitor,
      {kLessAtOnce, kRayThreshold, kRecordHost}}},
    {"The local object store is full of objects",
     {kCpu,
      "the object store of Ray is full",
      "Objects stay in the store's shared memory while a reference to them exists.",
      {"Delete references to what is no longer needed (ray memory lists them).",
       "Or make the store larger: ray.init(object_store_memory=BYTES), and in a container a larger "
       "/dev/shm (--shm-size)."}}},
    {"is killed by signal: Bus error. It is possible that dataloader's workers are out of shared "
     "memory",
     kWorkerShm},
    {"Unexpected bus error encountered in worker. This might be caused by insufficient shared "
     "memory",
     kWorkerShm},
    {"unable to write to file </torch_{|text}>: No space left on device", kShm},
    {"unable to allocate shared memory(shm) for file", kShm},
    {"unable to mmap {requested|bytes} bytes from file",
     {kCpu,
      "PyTorch could not map a file of {requested} into memory",
      "The system refused the mapping: of a checkpoint, its memory counts against the container's "
      "limit, or against ulimit -v and vm.overcommit_memory.",
      {"Raise that limit, or load the checkpoint in shards."}}},
    {"Unable to allocate {requested|size} for an array with shape {shape|text} and data type",
     {kCpu,
      "NumPy could not allocate {requested} for one array of shape {shape}",
      "The system refused it: it is more than the host's memory, or than a limit such as ulimit -v "
      "or vm.overcommit_memory=2.",
      {"Process less at a time, use a smaller dtype, or map the file (numpy.memmap)."}}},
    {"Detected {|number} oom-kill event(s)", kSlurm},
    {"srun: error: {|text}: task {|text}: Out Of Memory", kSlurm},
    {"Detected {|number} oom_kill event", kSlurm},
    {"Memory cgroup out of memory: Killed process {pid|number} ({program|text}) total-vm:{|KiB}kB, "
     "anon-rss:{used|KiB}kB",
     {kCpu,
      "the kernel killed {program} (process {pid}): its container was out of memory, and it used "
      "{used}",
      "The limit is that of a cgroup: of the container, the job or the service.",
      {"Raise that limit (docker run --memory, limits.memory of Kubernetes).", kFewerWorkers,
       kRecordHost}}},
    {"Out of memory: Killed process {pid|number} ({program|text}) total-vm:{|KiB}kB, "
     "anon-rss:{used|KiB}kB",
     {kCpu,
      "the kernel killed {program} (process {pid}), which used {used}: the host was out of memory",
      "The kernel kills the process that frees most, which need not be the one that grew.",
      {kRecordHost, kFewerWorkers, kLoadLess}}},
    {"Memory cgroup out of memory: Killed process {|number} (", kKernel},
    {"Out of memory: Killed process {|number} (", kKernel},
    {"Memory cgroup out of memory: Kill process {|number} (", kKernel},  // before Linux 5
    {"Out of memory: Kill process {|number} (", kKernel},
    {"OOMKilled", kKubernetes},
    {"\"OOMKilled\": true", kKubernetes},
    {"\"OOMKilled\":true", kKubernetes},
    {"failed (exitcode: -9) local_rank: {rank|number}",
     {kCpu,
      "a process of torchrun (local rank {rank}) was killed with SIGKILL",
      kSigkill,
      {kWhoKilled, kRecordHost, kLoadLess}}},
    {"exits with return code = -9", kKilled},
    {"died with <Signals.SIGKILL: 9>", kKilled},
});

}  // namespace

std::span<const KnownPattern> known_patterns() { return kPatterns; }

}  // namespace plimsoll::readers::oom_message

// The workspaces that torch allocates for cuBLAS and cuBLASLt. Each handle (in practice, each
// thread) has one per stream and device. torch allocates it at the first multiplication there, and
// keeps it until the process ends or calls torch._C._cuda_clearCublasWorkspaces().
// docs/attribution.md shows the same sizes as a table.
//
// Sources: parseChosenWorkspaceSize() and parseCUDABlasLtWorkspaceSize() in torch's
// aten/src/ATen/cuda/CublasHandlePool.cpp, up to 2.8 _parseChosenWorkspaceSize() in CUDABlas.cpp.
#pragma once

#include <cstdint>

namespace plimsoll::model {

inline constexpr std::uint64_t kWorkspaceKiB = 1024;
// ":4096:2:16:8"
inline constexpr std::uint64_t kSmallCublasWorkspaceBytes = kWorkspaceKiB * (4096 * 2 + 16 * 8);
// ":4096:8": what NVIDIA recommends for Hopper and later
inline constexpr std::uint64_t kLargeCublasWorkspaceBytes = kWorkspaceKiB * 4096 * 8;
// Up to torch 2.8, each multiplication allocates and frees it; later versions keep it. From 2.12
// on, cuBLASLt uses cuBLAS's workspace unless TORCH_CUBLASLT_UNIFIED_WORKSPACE=0.
inline constexpr std::uint64_t kCublasLtWorkspaceBytes = 1024 * kWorkspaceKiB;
// ROCm: hipBLAS, on MI300 (gfx94, gfx95) and elsewhere, and hipBLASLt.
inline constexpr std::uint64_t kLargeHipblasWorkspaceBytes = kWorkspaceKiB * 1024 * 128;
inline constexpr std::uint64_t kHipblasWorkspaceBytes = kWorkspaceKiB * 1024 * 32;
inline constexpr std::uint64_t kHipblasLtWorkspaceBytes = kWorkspaceKiB * 1024 * 76;

}  // namespace plimsoll::model

// The workspaces that torch allocates for cuBLAS and cuBLASLt: one of each per thread (in fact per
// handle), stream and device, at the first multiplication there, kept until the process ends or
// torch._C._cuda_clearCublasWorkspaces(). docs/attribution.md shows the same sizes as a table.
//
// Sources: parseChosenWorkspaceSize() and parseCUDABlasLtWorkspaceSize() in torch's
// aten/src/ATen/cuda/CublasHandlePool.cpp, up to 2.8 _parseChosenWorkspaceSize() in CUDABlas.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll::model {

inline constexpr std::uint64_t kWorkspaceKiB = 1024;
// ":4096:2:16:8"
inline constexpr std::uint64_t kSmallCublasWorkspaceBytes = (4096 * 2 + 16 * 8) * kWorkspaceKiB;
// ":4096:8": what NVIDIA recommends for Hopper and later
inline constexpr std::uint64_t kLargeCublasWorkspaceBytes = 4096 * 8 * kWorkspaceKiB;
// Up to torch 2.8 allocated and freed by each multiplication; since then kept; since 2.12 cuBLASLt
// uses cuBLAS's workspace unless TORCH_CUBLASLT_UNIFIED_WORKSPACE=0.
inline constexpr std::uint64_t kCublasLtWorkspaceBytes = 1024 * kWorkspaceKiB;
// ROCm: hipBLAS, on MI300 (gfx94, gfx95) and elsewhere, and hipBLASLt.
inline constexpr std::uint64_t kLargeHipblasWorkspaceBytes = 128 * 1024 * kWorkspaceKiB;
inline constexpr std::uint64_t kHipblasWorkspaceBytes = 32 * 1024 * kWorkspaceKiB;
inline constexpr std::uint64_t kHipblasLtWorkspaceBytes = 76 * 1024 * kWorkspaceKiB;

// Without CUBLAS_WORKSPACE_CONFIG: every size that a device of NVIDIA may have.
inline constexpr std::array kCublasWorkspaceSizes = {kSmallCublasWorkspaceBytes,
                                                     kLargeCublasWorkspaceBytes};

// The default by the major compute capability (9: Hopper) and torch's minor version (11: 2.11).
constexpr std::uint64_t cublas_workspace_bytes(int compute_capability, int torch_minor) {
  // Blackwell: since 2.12, on Thor (11) since 2.14.
  const bool is_blackwell = compute_capability == 10 || compute_capability == 12;
  const bool is_large = compute_capability == 9 || (is_blackwell && torch_minor >= 12) ||
                        (compute_capability == 11 && torch_minor >= 14);
  return is_large ? kLargeCublasWorkspaceBytes : kSmallCublasWorkspaceBytes;
}

// The sum of all ":KIB:COUNT" in CUBLAS_WORKSPACE_CONFIG; none if torch finds none and uses the
// default.
constexpr std::optional<std::uint64_t> workspace_config_bytes(std::string_view config) {
  constexpr std::uint64_t kMostConfiguredBytes = std::uint64_t{1} << 40U;
  std::optional<std::uint64_t> total;
  const auto number = [&](std::size_t& at) -> std::optional<std::uint64_t> {
    if (at >= config.size() || config[at] != ':') return {};
    const std::size_t begin = ++at;
    std::uint64_t value = 0;
    for (; at < config.size() && config[at] >= '0' && config[at] <= '9'; ++at) {
      value = value * 10 + static_cast<std::uint64_t>(config[at] - '0');
      if (value > kMostConfiguredBytes) return {};
    }
    if (at == begin) return {};
    return value;
  };
  for (std::size_t at = 0; at < config.size();) {
    std::size_t next = at;
    const std::optional<std::uint64_t> kib = number(next);
    const std::optional<std::uint64_t> count = kib.has_value() ? number(next) : kib;
    if (!count.has_value()) {
      ++at;
      continue;
    }
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(*kib * kWorkspaceKiB, *count, &bytes) ||
        bytes > kMostConfiguredBytes)
      return {};
    total = total.value_or(0) + bytes;
    at = next;
  }
  return total;
}

// CUBLASLT_WORKSPACE_SIZE is a number of KiB, and what follows its digits does not count.
constexpr std::optional<std::uint64_t> workspace_size_bytes(std::string_view kib) {
  constexpr std::uint64_t kMostKib = 0x7FFFFFFF;  // std::stoi
  std::uint64_t value = 0;
  std::size_t digits = 0;
  for (; digits < kib.size() && kib[digits] >= '0' && kib[digits] <= '9'; ++digits) {
    value = value * 10 + static_cast<std::uint64_t>(kib[digits] - '0');
    if (value > kMostKib) return {};
  }
  if (digits == 0) return {};
  return value * kWorkspaceKiB;
}

}  // namespace plimsoll::model

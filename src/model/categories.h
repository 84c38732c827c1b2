// The categories of docs/attribution.md, as events name them. Memory that no reader could attribute
// has the category kUnknownCategory or none at all; both mean the same.
#pragma once

#include <string_view>

namespace plimsoll::model {

inline constexpr std::string_view kParameter = "parameter";
inline constexpr std::string_view kGradient = "gradient";  // a parameter's .grad
inline constexpr std::string_view kOptimizerState = "optimizer_state";
inline constexpr std::string_view kBuffer = "buffer";
inline constexpr std::string_view kInput = "input";
// Allocated by a library for itself (cuBLAS, cuDNN): it belongs to no layer and no line.
inline constexpr std::string_view kWorkspace = "workspace";
inline constexpr std::string_view kActivation = "activation";
inline constexpr std::string_view kActivationGradient = "activation_gradient";
inline constexpr std::string_view kTemporaryCategory = "temporary";
// Communication buffers of DDP and FSDP: gradient buckets, gathered parameters.
inline constexpr std::string_view kCommunication = "communication";
// Allocated in an optimizer's step and freed before it ended.
inline constexpr std::string_view kOptimizerScratch = "optimizer_scratch";
// Page-locked memory of the host, for transfers to a GPU. Snapshots record no more about it.
inline constexpr std::string_view kPinnedHostCategory = "pinned_host";
inline constexpr std::string_view kOtherCategory = "other";
inline constexpr std::string_view kUnknownCategory = "unknown";

}  // namespace plimsoll::model

// The parts of a tensor without memory of its own: the indices and values of a sparse tensor, and
// the tensors inside a wrapper subclass (the local tensor of a DTensor, the integers and scales of
// quantized weights, the values and offsets of a nested tensor).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

namespace plimsoll::libtorch {

using TensorParts = c10::SmallVector<at::Tensor, 4>;

// Returns nothing for tensors with memory of their own. Takes the GIL for a wrapper, so the caller
// must hold no lock that a thread with the GIL waits for.
TensorParts parts_of(const at::Tensor& tensor);

// Adds the parts of a wrapper; null in programs without Python. Set before anything is attached.
inline void (*g_add_wrapped)(const at::Tensor& tensor, TensorParts& parts) = nullptr;

}  // namespace plimsoll::libtorch

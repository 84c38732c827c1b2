// The layer of an operator outside every PLIMSOLL_LAYER: the module that owns the parameters and
// buffers among the operator's inputs. LibTorch's modules have no hooks, so this is how the layers
// of a torch::nn::Module are found.
//
//   one owner                 its path
//   several owners            the innermost module that contains them all
//   none (ReLU, a loss)       no layer: which module ran cannot be known
//   an update of a parameter  no layer: an operator that changes a parameter in place, or takes a
//                             parameter and its own gradient, belongs to an optimizer or to an
//                             initialization
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "tensor_identity.h"

namespace plimsoll::libtorch {

// Thread-safe.
class ParameterLayers {
 public:
  struct Owned {
    at::Tensor tensor;
    std::string path;  // of the module that owns it: "Net.block1.conv"
  };
  // Adds the tensors of a module. A tensor that several of its modules share belongs to the
  // innermost module around all of them.
  void add(const std::vector<Owned>& tensors);
  // The name id of the operator's layer; 0: none. The record must have its inputs.
  std::uint32_t layer_of(const at::RecordFunction& record);
  void clear();
  // Locked around fork(), so that the lock is free in the child.
  std::mutex& mutex() { return mutex_; }

 private:
  struct Owner {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // prevents reuse of the address
    std::string path;
    std::uint32_t layer = 0;
    std::vector<TensorIdentity> parameters{};  // the parameters with this storage
  };
  using Owners = std::unordered_map<const c10::StorageImpl*, Owner>;  // views share a storage
  class Search;
  std::mutex mutex_;
  Owners owners_;
};

ParameterLayers& parameter_layers();

}  // namespace plimsoll::libtorch

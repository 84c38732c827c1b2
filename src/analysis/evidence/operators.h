// What the operators of a recording do: the classes of operators.def.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/trace.h"

namespace plimsoll::analysis::evidence {

enum class Operator : std::uint32_t {
  kDifference = 1u << 0,
  kElementwise = 1u << 1,
  kRandom = 1u << 2,
  kConversion = 1u << 3,
  kClone = 1u << 4,
  kJoining = 1u << 5,
  kLinear = 1u << 6,
  kBatchedProduct = 1u << 7,
  kSoftmax = 1u << 8,
  kLogSoftmax = 1u << 9,
  kFusedAttention = 1u << 10,
  kCrossEntropy = 1u << 11,
  kNegativeLogLikelihood = 1u << 12,
  kToLoss = 1u << 13,
  kConvolution = 1u << 14,
  kCudnn = 1u << 15,
  kOneHot = 1u << 16,
  kScatter = 1u << 17,
  kLookupBackward = 1u << 18,
  kSparseBackward = 1u << 19,
  kForeach = 1u << 20,
  kOwnNode = 1u << 21,     // the node of a torch.autograd.Function of the program
  kAccumulate = 1u << 22,  // writes .grad, into a new tensor if backward ran with
                           // create_graph=True
  kDropout = 1u << 23
};

// A set of classes.
class OperatorSet {
 public:
  constexpr OperatorSet() = default;
  constexpr OperatorSet(Operator one) : bits_(static_cast<std::uint32_t>(one)) {}
  constexpr bool has(OperatorSet any) const { return (bits_ & any.bits_) != 0; }
  friend constexpr OperatorSet operator|(OperatorSet a, OperatorSet b) {
    a.bits_ |= b.bits_;
    return a;
  }

 private:
  std::uint32_t bits_ = 0;
};
constexpr OperatorSet operator|(Operator a, Operator b) { return OperatorSet(a) | OperatorSet(b); }

OperatorSet classes_of(std::string_view op);

// The classes of all operators that the sites of a trace name.
class Operators {
 public:
  explicit Operators(const model::Trace& trace);
  OperatorSet of(model::StringId op) const { return classes_[op.index()]; }
  // Of the outermost and the innermost operator.
  OperatorSet called_at(const model::Site& site) const { return of(site.op) | of(site.inner_op); }

 private:
  std::vector<OperatorSet> classes_;  // by StringId; empty for strings that name no operator
};

}  // namespace plimsoll::analysis::evidence

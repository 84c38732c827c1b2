// What the stacks of a recording say about their allocations: the patterns of patterns.def.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/trace.h"
#include "model/user_line.h"

namespace plimsoll::analysis::evidence {

enum class StackFlag : std::uint32_t {
  kCheckpoint = 1u << 0,           // inside torch.utils.checkpoint, or DeepSpeed's version of it
  kReentrantCheckpoint = 1u << 1,  // with use_reentrant=True
  kAutogradFunction = 1u << 2,     // the line is in a torch.autograd.Function of the program
  kOptimizer = 1u << 3,            // inside an optimizer's step
  kTorchOptimizer = 1u << 4,       // the line calls an optimizer of torch.optim, which allocates
  kLbfgs = 1u << 5,
  kForeach = 1u << 6,   // an implementation for all parameters together
  kLoaded = 1u << 7,    // read from a file
  kCompiled = 1u << 8,  // code that torch.compile has made
  kJacfwd = 1u << 9,
  kJacrev = 1u << 10,
  kVmap = 1u << 11,
  kDataParallel = 1u << 12,  // nn.DataParallel
  kDeviceMap = 1u << 13,     // parts of a model are on several devices
  kEmptyCache = 1u << 14,
  kConvolution = 1u << 15,
  kDistributed = 1u << 16,   // inside torch.distributed
  kAutogradCall = 1u << 17,  // the line calls backward or torch.autograd.grad
  kRecomputed = 1u << 18,    // backward runs again what a checkpoint runs
  kInitState = 1u << 19,     // an optimizer of torch.optim creates its state
  // An optimizer of torch.optim keeps so many tensors of the size of a parameter, or more with
  // some options.
  kOneState = 1u << 20,
  kTwoStates = 1u << 21,
  // Unless it is fused, or computes with one parameter at a time, it needs the square roots of all
  // second moments simultaneously.
  kSquareRoots = 1u << 22
};

// What a package has an option or a call for: to checkpoint its layers, to compute attention or a
// loss without storing scores or logits.
enum class Remedy : std::uint8_t { kCheckpoint, kAttention, kFusedLoss };
inline constexpr std::size_t kRemedies = 3;

class StackFacts {
 public:
  StackFacts(const model::Trace& trace, const model::UserLines& lines);

  bool has(model::StackId stack, StackFlag flag) const {
    return (flags_[stack.index()] & static_cast<std::uint32_t>(flag)) != 0;
  }
  // Whether any stack has it.
  bool has_any(StackFlag flag) const;
  // "Call model.gradient_checkpointing_enable() before training": of the package whose code runs in
  // the stack; empty if none is known.
  std::string_view advice(model::StackId stack, Remedy remedy) const;

 private:
  // By remedy: a row of the packages, or their number.
  using Packages = std::array<std::uint8_t, kRemedies>;

  std::vector<std::uint32_t> flags_;  // by stack
  std::vector<Packages> packages_;    // by stack
};

}  // namespace plimsoll::analysis::evidence

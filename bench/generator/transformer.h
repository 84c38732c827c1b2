// The simulated training program: a transformer language model in /home/ada/nanolm, trained with
// AdamW. It determines where each tensor is allocated, in which order they are freed, and from
// which lines of which files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "generator/machine.h"

namespace generator {

struct TransformerShape {
  uint64_t layers = 4;
  uint64_t matrix_bytes =
      32ull << 20;  // one d x d weight matrix; a layer has twelve of them in four weights
  uint64_t activation_bytes = 32ull << 20;  // one batch x sequence x d activation
};

/// Whether each layer has separate source lines, as in an unrolled model, or all share the lines of
/// one class.
enum class SourceLines : uint8_t { kShared, kPerLayer };

class Transformer {
 public:
  Transformer(Machine& machine, const TransformerShape& shape, SourceLines lines);

  void load_weights();
  void forward();
  /// Frees what forward kept, in reverse order, and leaves a gradient for each weight.
  void backward();
  void optimizer_step();
  void zero_grad();
  void train_step();

  /// An allocation by `op` at a line of the user's program, called from train.py.
  SiteId user_site(const std::string& op, const Frame& innermost);

 private:
  struct LayerOp {
    SiteId forward;
    SiteId backward;
    uint64_t output_bytes;
    uint64_t workspace_bytes;  // freed before the operator returns; 0: none
  };
  struct Weight {
    uint64_t size_bytes;
    SiteId gradient_site;
    Block* gradient = nullptr;
    std::vector<Block*> state = {};
  };

  void describe_layer(uint64_t layer, SourceLines lines);
  void add_weight(uint64_t size_bytes);

  Machine& machine_;
  TransformerShape shape_;
  std::vector<std::vector<LayerOp>> layers_;
  std::vector<Weight> weights_;
  std::vector<Block*> activations_;
  SiteId weight_site_;
  SiteId state_site_;
  SiteId update_site_;
};

}  // namespace generator

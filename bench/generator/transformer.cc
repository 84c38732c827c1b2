#include "generator/transformer.h"

#include <algorithm>

namespace generator {
namespace {

const std::string kUser = "/home/ada/nanolm/";
const std::string kTorch = "/home/ada/nanolm/.venv/lib/python3.12/site-packages/torch/";

std::vector<Frame> module_call() {
  return {{"_call_impl", kTorch + "nn/modules/module.py", 1762},
          {"_wrapped_call_impl", kTorch + "nn/modules/module.py", 1751}};
}

void append(std::vector<Frame>& stack, const std::vector<Frame>& more) {
  stack.insert(stack.end(), more.begin(), more.end());
}

struct OpText {
  const char* op;
  const char* node;
  Frame leaf;  // torch's Python frame that calls the operator; no name: the user's line calls it
  Frame user;  // the line in the user's module
  uint64_t output_parts;  // in quarters of an activation
  uint64_t workspace_parts;
};

const std::vector<OpText>& layer_ops() {
  const auto torch = [](const char* name, const char* file, int64_t line) {
    return Frame{name, kTorch + file, line};
  };
  const auto model = [](const char* name, int64_t line) {
    return Frame{name, kUser + "model.py", line};
  };
  const Frame none;
  const Frame linear = torch("forward", "nn/modules/linear.py", 125);
  const Frame norm = torch("layer_norm", "nn/functional.py", 2911);
  static const std::vector<OpText> ops = {
      {"native_layer_norm", "NativeLayerNormBackward0", norm, model("forward", 96), 4, 0},
      {"addmm", "AddmmBackward0", linear, model("attend", 61), 12, 0},
      {"_scaled_dot_product_flash_attention", "ScaledDotProductFlashAttentionBackward0", none,
       model("attend", 66), 4, 4},
      {"addmm", "AddmmBackward0", linear, model("attend", 68), 4, 0},
      {"add", "AddBackward0", none, model("forward", 97), 4, 0},
      {"native_layer_norm", "NativeLayerNormBackward0", norm, model("forward", 98), 4, 0},
      {"addmm", "AddmmBackward0", linear, model("feed_forward", 80), 16, 0},
      {"gelu", "GeluBackward0", torch("forward", "nn/modules/activation.py", 734),
       model("feed_forward", 81), 16, 0},
      {"addmm", "AddmmBackward0", linear, model("feed_forward", 82), 4, 4},
      {"add", "AddBackward0", none, model("forward", 99), 4, 0},
  };
  return ops;
}

}  // namespace

SiteId Transformer::user_site(const std::string& op, const Frame& innermost) {
  Frame frame = innermost;
  frame.filename = kUser + innermost.filename;
  return machine_.stacks().python_site(
      op, {frame, {"main", kUser + "train.py", 131}, {"<module>", kUser + "train.py", 142}});
}

Transformer::Transformer(Machine& machine, const TransformerShape& shape, SourceLines lines)
    : machine_(machine), shape_(shape) {
  StackTable& stacks = machine_.stacks();
  const std::vector<Frame> start = {{"main", kUser + "train.py", 117},
                                    {"<module>", kUser + "train.py", 142}};
  std::vector<Frame> weight = {{"convert", kTorch + "nn/modules/module.py", 1355},
                               {"_apply", kTorch + "nn/modules/module.py", 942},
                               {"to", kTorch + "nn/modules/module.py", 1369}};
  append(weight, start);
  weight_site_ = stacks.python_site("_to_copy", weight);
  std::vector<Frame> optimizer = {{"step", kTorch + "optim/adamw.py", 220},
                                  {"wrapper", kTorch + "optim/optimizer.py", 493},
                                  {"train_step", kUser + "train.py", 94},
                                  {"main", kUser + "train.py", 131},
                                  {"<module>", kUser + "train.py", 142}};
  update_site_ = stacks.python_site("_foreach_sqrt", optimizer);
  optimizer.insert(optimizer.begin(), Frame{"_init_group", kTorch + "optim/adamw.py", 141});
  state_site_ = stacks.python_site("zeros_like", optimizer);
  for (uint64_t layer = 0; layer < shape_.layers; ++layer) describe_layer(layer, lines);
}

void Transformer::describe_layer(uint64_t layer, SourceLines lines) {
  const int64_t shift = lines == SourceLines::kPerLayer ? static_cast<int64_t>(100 * layer) : 0;
  const Frame block = {"forward", kUser + "model.py", 124 + shift};
  std::vector<LayerOp> ops;
  for (const OpText& text : layer_ops()) {
    std::vector<Frame> stack;
    if (!text.leaf.name.empty()) {
      stack.push_back(text.leaf);
      append(stack, module_call());
    }
    stack.push_back(text.user);
    stack.back().line += shift;
    append(stack, module_call());
    stack.push_back(block);
    append(stack, module_call());
    append(stack, {{"train_step", kUser + "train.py", 88},
                   {"main", kUser + "train.py", 131},
                   {"<module>", kUser + "train.py", 142}});
    const uint64_t quarter = shape_.activation_bytes / 4;
    ops.push_back(LayerOp{machine_.stacks().python_site(text.op, stack),
                          machine_.stacks().backward_site(text.node, text.op),
                          text.output_parts * quarter, text.workspace_parts * quarter});
  }
  layers_.push_back(ops);
}

void Transformer::add_weight(uint64_t size_bytes) {
  machine_.take(size_bytes, weight_site_);
  const SiteId site = machine_.stacks().backward_site("AddmmBackward0", "mm");
  weights_.push_back(Weight{size_bytes, site});
}

// Each layer has twelve tensors: four matrices with biases, and two norms with weight and bias.
void Transformer::load_weights() {
  const uint64_t vector_bytes = 16384;
  for (uint64_t layer = 0; layer < shape_.layers; ++layer) {
    for (const uint64_t matrices : {3u, 1u, 4u, 4u}) {
      add_weight(matrices * shape_.matrix_bytes);
      add_weight(matrices * vector_bytes);
    }
    for (int i = 0; i < 4; ++i) add_weight(vector_bytes);
  }
}

void Transformer::forward() {
  for (const std::vector<LayerOp>& layer : layers_) {
    for (const LayerOp& op : layer) {
      Block* workspace =
          op.workspace_bytes != 0 ? machine_.take(op.workspace_bytes, op.forward) : nullptr;
      activations_.push_back(machine_.take(op.output_bytes, op.forward));
      if (workspace != nullptr) machine_.give(workspace);
    }
  }
}

void Transformer::backward() {
  Block* gradient = nullptr;
  size_t weight = weights_.size();
  for (size_t layer = layers_.size(); layer-- > 0;) {
    for (size_t i = layers_[layer].size(); i-- > 0;) {
      const LayerOp& op = layers_[layer][i];
      Block* next = machine_.take(op.output_bytes, op.backward);
      if (gradient != nullptr) machine_.give(gradient);
      gradient = next;
      machine_.give(activations_.back());
      activations_.pop_back();
    }
    for (int i = 0; i < 12; ++i) {
      Weight& owner = weights_[--weight];
      if (owner.gradient == nullptr)
        owner.gradient = machine_.take(owner.size_bytes, owner.gradient_site);
    }
  }
  if (gradient != nullptr) machine_.give(gradient);
}

void Transformer::optimizer_step() {
  machine_.annotate_start("Optimizer.step#AdamW.step");
  for (Weight& weight : weights_) {
    while (weight.state.size() < 2)
      weight.state.push_back(machine_.take(weight.size_bytes, state_site_));
  }
  for (const Weight& weight : weights_) {
    machine_.give(machine_.take(weight.size_bytes, update_site_));
  }
  machine_.annotate_end("Optimizer.step#AdamW.step");
}

void Transformer::zero_grad() {
  machine_.annotate_start("Optimizer.zero_grad#AdamW.zero_grad");
  for (Weight& weight : weights_) {
    if (weight.gradient != nullptr) machine_.give(weight.gradient);
    weight.gradient = nullptr;
  }
  machine_.annotate_end("Optimizer.zero_grad#AdamW.zero_grad");
}

void Transformer::train_step() {
  forward();
  backward();
  optimizer_step();
  zero_grad();
}

}  // namespace generator

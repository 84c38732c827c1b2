#include "autograd_nodes.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <typeinfo>

#include "parameters.h"
#include "tensors.h"

namespace plimsoll::libtorch {

using torch::autograd::AccumulateGrad;

// AccumulateGrad nodes have no sequence number.
constexpr std::uint64_t kNoSequence = ~std::uint64_t{0};

namespace {

// The class has no subclasses, so comparing the types is enough: many times faster than a
// dynamic_cast, and it runs twice for each parameter and step.
const AccumulateGrad* as_accumulate(const torch::autograd::Node& node) {
  if (node.sequence_nr() != kNoSequence || typeid(node) != typeid(AccumulateGrad)) return nullptr;
  return static_cast<const AccumulateGrad*>(&node);
}

}  // namespace

ForwardSite site_of_running_node(ThreadState& thread) {
  const auto node = torch::autograd::get_current_node();
  return node == nullptr ? ForwardSite{} : site_of(thread, *node);
}

ForwardSite site_of(ThreadState& thread, const torch::autograd::Node& node) {
  ForwardSite site;
  if (node.sequence_nr() != kNoSequence) {
    if (!find_forward(thread, node.thread_id(), node.sequence_nr(), site)) site = {};
  } else if (const AccumulateGrad* accumulate = as_accumulate(node)) {
    site.layer = parameters().layer_of(accumulate->variable);
  }
  return site;
}

void tag_accumulated_gradient(ThreadState& thread) {
  const auto node = torch::autograd::get_current_node();
  if (node == nullptr) return;
  const AccumulateGrad* accumulate = as_accumulate(*node);
  if (accumulate != nullptr) tag_accumulated_gradient(thread, accumulate->variable);
}

void tag_accumulated_gradient(ThreadState& thread, const at::Tensor& parameter) {
  if (!parameter.defined()) return;
  parameters().note_accumulated();
  if (!parameters().tag_gradient(thread, parameter)) {
    parameters().tag_gathered_gradient(thread, parameter);
  }
}

}  // namespace plimsoll::libtorch

#include "findings/peak/owners.h"

#include <algorithm>
#include <vector>

#include "findings/advice/advice.h"
#include "findings/text.h"
#include "model/categories.h"

namespace plimsoll::findings {
namespace {

// Names in a file may be arbitrarily long; real modules are nested less deeply.
constexpr int kMostLevels = 64;

}  // namespace

Owner owner_of_most(const std::map<std::string_view, std::uint64_t>& bytes_by_tensor,
                    double share) {
  Owner owner;
  for (const auto& [name, bytes] : bytes_by_tensor) owner.bytes += bytes;
  const std::uint64_t whole = owner.bytes;
  owner.tensors = bytes_by_tensor.size();
  for (int level = 0; level < kMostLevels; ++level) {
    // Names below the path, grouped by their next component.
    std::map<std::string_view, Owner> inside;
    const std::size_t begin = owner.path.empty() ? 0 : owner.path.size() + 1;
    for (const auto& [name, bytes] : bytes_by_tensor) {
      const bool is_inside = begin == 0 || (name.starts_with(owner.path) && name.size() > begin &&
                                            name[begin - 1] == '.');
      if (!is_inside) continue;
      Owner& next = inside[name.substr(0, name.find('.', begin))];
      next.bytes += bytes;
      ++next.tensors;
    }
    const auto most =
        std::ranges::max_element(inside, {}, [](const auto& each) { return each.second.bytes; });
    if (most == inside.end() || !is_at_least(most->second.bytes, share, whole)) return owner;
    owner = most->second;
    owner.path = std::string(most->first);
  }
  return owner;
}

std::string_view parameter_of(const Allocation& allocation) {
  if (!allocation.is_of_model()) return {};
  const std::string_view name = allocation.name();
  if (!allocation.is(model::kOptimizerState)) return name;
  // The vectors of L-BFGS cover all parameters but carry the name of the first.
  const bool is_lbfgs = allocation.has(evidence::StackFlag::kLbfgs);
  return is_lbfgs ? std::string_view() : name.substr(0, name.rfind('.'));
}

std::set<std::string_view> dense_embeddings(const Peak& peak) {
  std::set<std::string_view> names;
  std::map<std::string_view, std::uint64_t> sizes;
  peak.for_each([&](const Allocation& each) {
    const std::string_view name = parameter_of(each);
    if (each.is(model::kParameter)) sizes[name] = each.size_bytes;
    if (!each.is(model::kGradient) || name.empty()) return;
    const bool is_looked_up = each.op().has(evidence::Operator::kLookupBackward);
    if (is_looked_up && sizes[name] == each.size_bytes) names.insert(name);
  });
  return names;
}

Steps steps_for_embeddings(const Peak& peak, const std::set<std::string_view>& names) {
  std::vector<std::uint32_t> gradients, state;
  std::set<std::uint64_t> sizes;
  bool is_adam = false;
  peak.for_each([&](const Allocation& each) {
    const bool is_theirs = names.contains(parameter_of(each));
    if (is_theirs && each.is(model::kParameter)) sizes.insert(each.size_bytes);
    // Or what the step needs for the gradient.
    const bool is_gradient =
        is_theirs ? each.is(model::kGradient)
                  : each.is(model::kOptimizerScratch) && sizes.contains(each.size_bytes);
    if (is_gradient) gradients.push_back(each.lifetime);
    if (!is_theirs || !each.is(model::kOptimizerState)) return;
    state.push_back(each.lifetime);
    is_adam = is_adam || each.name().ends_with(".exp_avg");
  });
  const std::string what =
      names.size() == 1 ? std::string(*names.begin()) : std::string("the embeddings");
  Steps steps = {step_up_to(
      "If a batch uses few rows of " + what +
          ", pass sparse=True to nn.Embedding: its gradient is then as small as these rows." +
          (is_adam ? " Adam and AdamW raise an error for such a gradient: give it "
                     "torch.optim.SparseAdam."
                   : ""),
      peak.replay().never_made(gradients))};
  if (!state.empty()) {
    steps.push_back({"Give " + what + " an optimizer without state, such as torch.optim.SGD.",
                     peak.replay().never_made(state)});
  }
  order_by_saving(steps);
  return steps;
}

}  // namespace plimsoll::findings

// The categories of memory (docs/attribution.md), their names, and the rule that decides between
// them from the facts about an allocation. Readers of recordings and of torch's history know all
// facts in hindsight; monitors know only those of live memory (is_found_live).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/recorder_names.h"

namespace plimsoll::base {

enum class Category : std::uint8_t {
  kParameter,
  kGradient,  // a parameter's .grad
  kOptimizerState,
  kBuffer,
  kInput,
  kWorkspace,  // allocated by a library for itself: cuBLAS, cuDNN
  kActivation,
  kActivationGradient,
  kTemporary,
  kCommunication,     // of DDP and FSDP: gradient buckets, gathered parameters
  kOptimizerScratch,  // allocated in an optimizer's step, freed before it ended
  kOther,
  kUnknown,    // no reader could attribute it
  kPinnedHost  // page-locked memory of the host; snapshots have no further details
};

inline constexpr std::array<std::string_view, 14> kCategoryNames = {
    "parameter", "gradient",      "optimizer_state",   "buffer",
    "input",     "workspace",     "activation",        "activation_gradient",
    "temporary", "communication", "optimizer_scratch", "other",
    "unknown",   "pinned_host"};

constexpr std::string_view name_of(Category category) {
  return kCategoryNames[static_cast<std::size_t>(category)];
}

// The order of a chart's bands, bottom up: long-lived memory below, short-lived memory on top.
inline constexpr std::array<Category, kCategoryNames.size()> kStackOrder = {
    Category::kParameter,      Category::kBuffer,
    Category::kOptimizerState, Category::kGradient,
    Category::kOther,          Category::kWorkspace,
    Category::kCommunication,  Category::kInput,
    Category::kActivation,     Category::kActivationGradient,
    Category::kTemporary,      Category::kOptimizerScratch,
    Category::kUnknown,        Category::kPinnedHost};

// Whether monitors can find the category in live memory. They do not read stacks, which
// communication is recognized by. Scratch is recognized only after it has been freed. To monitors,
// both count as other categories. The host's pinned memory has a device of its own. Samples are
// taken between operators, when there are no temporaries.
constexpr bool is_found_live(Category category) {
  return category != Category::kCommunication && category != Category::kOptimizerScratch &&
         category != Category::kPinnedHost;
}

struct CategoryFacts {
  std::uint8_t role = 0;  // number of a name in kRoleNames; unknown ones count as 0
  Phase phase = Phase::kOther;
  bool is_adopted = false;        // it was allocated before the recording
  bool is_temporary = false;      // freed in the operator that allocated it
  bool is_communication = false;  // allocated by a collective, or for one
  bool ends_with_step = false;    // freed before the optimizer's step ended
};

// Whether the role alone decides the category, which then has the same name.
constexpr bool is_deciding(std::uint8_t role) { return role > 0 && role < kRoleNames.size(); }

constexpr Category category_of(const CategoryFacts& facts) {
  if (is_deciding(facts.role)) return static_cast<Category>(facts.role - 1);
  if (facts.is_adopted) return Category::kUnknown;
  if (facts.is_temporary) return Category::kTemporary;
  if (facts.is_communication) return Category::kCommunication;
  if (facts.phase == Phase::kForward) return Category::kActivation;
  if (facts.phase == Phase::kBackward) return Category::kActivationGradient;
  const bool is_scratch = facts.phase == Phase::kOptimizer && facts.ends_with_step;
  return is_scratch ? Category::kOptimizerScratch : Category::kOther;
}

// If a tensor has several roles, the one with the highest precedence counts. 0: it is unknown what
// the tensor is used for.
constexpr unsigned role_precedence(std::uint8_t role) {
  return is_deciding(role) ? 255u - role : 0;
}

}  // namespace plimsoll::base

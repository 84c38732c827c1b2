// What memory is used for: the eleven categories of docs/recording.md and two parts of "other", and
// the one rule that decides between them from the facts about an allocation. Readers of recordings
// have all facts in hindsight; monitors and histories of torch lack some, and leave those false.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

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
  kUnknown  // no reader could attribute it
};

inline constexpr std::array<std::string_view, 13> kCategoryNames = {
    "parameter", "gradient",      "optimizer_state",   "buffer",
    "input",     "workspace",     "activation",        "activation_gradient",
    "temporary", "communication", "optimizer_scratch", "other",
    "unknown"};

constexpr std::string_view name_of(Category category) {
  return kCategoryNames[static_cast<std::size_t>(category)];
}

// The order of the bands of a chart, bottom up: what stays is low, what comes and goes is high.
inline constexpr std::array<Category, kCategoryNames.size()> kStackOrder = {
    Category::kParameter,      Category::kBuffer,
    Category::kOptimizerState, Category::kGradient,
    Category::kOther,          Category::kWorkspace,
    Category::kCommunication,  Category::kInput,
    Category::kActivation,     Category::kActivationGradient,
    Category::kTemporary,      Category::kOptimizerScratch,
    Category::kUnknown};

// Roles and phases by their numbers in plimsoll/recorder_c.h, which recorder_names_test.cc
// compares.
inline constexpr std::uint8_t kFirstOwnedRole = 1, kLastOwnedRole = 6;
inline constexpr std::uint8_t kForwardPhase = 1, kBackwardPhase = 2, kOptimizerPhase = 3;

struct CategoryFacts {
  std::uint8_t role = 0;
  std::uint8_t phase = 0;
  bool is_adopted = false;        // it was allocated before the recording
  bool is_temporary = false;      // freed in the operator that allocated it
  bool is_communication = false;  // allocated by a collective, or for one
  bool ends_with_step = false;    // freed before the optimizer's step ended
};

constexpr Category category_of(const CategoryFacts& facts) {
  if (facts.role >= kFirstOwnedRole && facts.role <= kLastOwnedRole) {
    return static_cast<Category>(facts.role - kFirstOwnedRole);
  }
  if (facts.is_adopted) return Category::kUnknown;
  if (facts.is_temporary) return Category::kTemporary;
  if (facts.is_communication) return Category::kCommunication;
  if (facts.phase == kForwardPhase) return Category::kActivation;
  if (facts.phase == kBackwardPhase) return Category::kActivationGradient;
  const bool is_scratch = facts.phase == kOptimizerPhase && facts.ends_with_step;
  return is_scratch ? Category::kOptimizerScratch : Category::kOther;
}

// If a tensor has several roles, the one with the highest precedence counts. 0: the tensor is
// known, but not what it is used for.
constexpr unsigned role_precedence(std::uint8_t role) {
  return role < kFirstOwnedRole || role > kLastOwnedRole ? 0 : 255u - role;
}

}  // namespace plimsoll::base

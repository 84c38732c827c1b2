#include "attribution/inferred_roles.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "attribution/library_workspaces.h"
#include "attribution/stack_roles.h"
#include "model/categories.h"
#include "model/library_workspaces.h"
#include "model/live_set.h"

namespace plimsoll::attribution {
namespace {

using model::Action;
using model::DeviceTrace;
using model::Lifetimes;
using model::StringId;
using model::Trace;

// An event that never happens.
constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();

// An allocation made while the model is built that dies within this many events was an intermediate
// on the way to a parameter: its initial values, or a copy in another dtype.
constexpr std::uint32_t kShortLife = 40;

// Among the bytes from before the history, sizes below this share are too small to classify.
constexpr double kNotableShare = 0.001;
// A single block with at least this share rules out several copies of a model.
constexpr double kLargeShare = 0.01;

bool is_backward(Activity activity) { return activity == Activity::kBackward; }
bool is_step(Activity activity) {
  return activity == Activity::kOptimizer || activity == Activity::kStateBegins;
}

// The history of one device: its allocations, and what follows each of them.
class DeviceRoles {
 public:
  DeviceRoles(Trace& trace, DeviceTrace& device, const std::vector<Activity>& activities)
      : trace_(trace), device_(device), lifetimes_(device.lifetimes) {
    const std::vector<std::uint32_t> workspaces = find_workspaces(trace, device, activities);
    auto workspace = workspaces.begin();
    Activity last = Activity::kProgram;
    for (std::size_t row = lifetimes_.baseline_count; row < lifetimes_.size(); ++row) {
      const std::uint32_t born = lifetimes_.alloc[row];
      const std::uint32_t died = model::death(lifetimes_, row, model::Liveness::kAllocated);
      const bool is_workspace = workspace != workspaces.end() && *workspace == row;
      if (is_workspace) ++workspace;
      const Activity activity =
          is_workspace ? Activity::kWorkspace : activities[trace.site(device, born).stack.index()];
      if (is_of_training(activity)) last = activity;
      has_backward_ = has_backward_ || is_backward(activity);
      history_.push_back({born, died == model::kNone ? kNever : died, trace.size_bytes(device, row),
                          activity, last});
    }
    note_sizes_of_model();
    workspaces_ = workspaces;
  }

  // From the last allocation to the first: the category depends on what comes after the allocation.
  void infer() {
    Next next;
    for (auto made = history_.rbegin(); made != history_.rend(); ++made) {
      const std::string_view category = category_of(*made, next);
      const auto later = static_cast<std::size_t>(made - history_.rbegin());
      lifetimes_.category.set(lifetimes_.size() - 1 - later, trace_.strings.intern(category));
      if (made->activity == Activity::kWorkspace) continue;
      if (category == model::kGradient) count_gradient(made->size_bytes, next);
      if (made->activity == Activity::kForward) next.forward = made->born;
      if (is_backward(made->activity)) next.backward = made->born;
      if (is_step(made->activity)) next.step = made->born;
      if (!is_backward(made->activity)) next.not_backward = made->born;
    }
    infer_baseline();
    name_workspaces(trace_, device_, workspaces_);
  }

 private:
  struct Made {
    std::uint32_t born;
    std::uint32_t died;  // kNever: live at the end
    std::uint64_t size_bytes;
    Activity activity;
    Activity last;  // forward, backward or step: the last to run, including this one
  };
  // After an allocation: the next event of each kind, or kNever.
  struct Next {
    std::uint32_t forward = kNever;
    std::uint32_t backward = kNever;
    std::uint32_t step = kNever;
    std::uint32_t not_backward = kNever;
  };
  // Rows of the baseline that all have the same size.
  struct Copies {
    std::vector<std::uint32_t> freed;
    std::vector<std::uint32_t> replaced;  // freed inside an optimizer's step
    std::vector<std::uint32_t> kept;      // until the end
    std::size_t count() const { return freed.size() + replaced.size() + kept.size(); }
  };

  // A gradient has the same size as its parameter.
  void note_sizes_of_model() {
    for (const Made& made : history_) {
      const bool lives = made.died == kNever || made.died - made.born > kShortLife;
      if (made.activity == Activity::kModelMade && lives) model_sizes_.insert(made.size_bytes);
    }
    for (std::uint32_t row = 0; row < lifetimes_.baseline_count; ++row) {
      model_sizes_.insert(trace_.size_bytes(device_, row));
    }
  }
  bool has_size_of_model(std::uint64_t size_bytes) const {
    return model_sizes_.empty() || model_sizes_.contains(size_bytes);
  }

  static bool is_of_training(Activity activity) {
    return activity == Activity::kForward || is_backward(activity) || is_step(activity);
  }

  std::string_view category_of(const Made& made, const Next& next) const {
    switch (made.activity) {
      case Activity::kStateBegins:
      case Activity::kOptimizerMade:
      case Activity::kOptimizer: {
        // Still live when the next backward begins, or at the end.
        const bool is_left =
            next.backward == kNever ? made.died == kNever : made.died > next.backward;
        if (is_left) return model::kOptimizerState;
        return made.activity == Activity::kOptimizerMade ? model::kOtherCategory
                                                         : model::kOptimizerScratch;
      }
      case Activity::kModelMade: {
        // Still live when the next forward pass begins, or at the end.
        const bool is_used =
            next.forward == kNever ? made.died == kNever : made.died > next.forward;
        return is_used ? model::kParameter : model::kOtherCategory;
      }
      case Activity::kForward:
        return made.died - made.born == 1 ? model::kTemporaryCategory : model::kActivation;
      case Activity::kBackward: {
        const bool outlives_backward = made.died > next.not_backward || made.died == kNever;
        return outlives_backward && has_size_of_model(made.size_bytes) ? model::kGradient
                                                                       : model::kActivationGradient;
      }
      case Activity::kData:
        return model::kInput;
      case Activity::kWorkspace:
        return model::kWorkspace;
      case Activity::kProgram:
        break;
    }
    // A loss is made outside of every module, between forward and backward. The history may end
    // before that backward.
    if (made.last == Activity::kForward) {
      const bool has_next = next.backward != kNever || next.step != kNever;
      const bool is_saved = has_next
                                ? next.backward < next.step && made.died > next.backward
                                : has_backward_ && next.forward == kNever && made.died == kNever;
      if (is_saved) return model::kActivation;
    }
    const bool is_used = next.forward != kNever && made.died > next.forward;
    return is_used && made.last != Activity::kForward ? model::kInput : model::kUnknownCategory;
  }

  // ---- memory from before the history -----------------------------------------------------------

  void count_gradient(std::uint64_t size_bytes, const Next& next) {
    // Each backward pass is identified by what follows it.
    std::map<std::uint64_t, std::size_t>& of_backward = gradients_[next.not_backward];
    std::size_t& most = parameters_of_size_[size_bytes];
    most = std::max(most, ++of_backward[size_bytes]);
  }

  // The optimizer replaces its two moments at each step, while parameters and retained gradients
  // are kept. So for each size, as many blocks are replaced as are kept, and half of those kept are
  // parameters.
  template <typename IsNotable>
  bool count_by_moments(const std::map<std::uint64_t, Copies>& baseline, IsNotable&& is_notable) {
    const auto is_half_replaced = [](const auto& entry) {
      const Copies& copies = entry.second;
      return copies.freed.empty() && copies.kept.size() % 2 == 0 &&
             copies.replaced.size() == copies.kept.size();
    };
    const auto contradicts = [&](const auto& entry) {
      return is_notable(entry) && !is_half_replaced(entry);
    };
    if (std::ranges::none_of(baseline, is_notable)) return false;
    if (std::ranges::any_of(baseline, contradicts)) return false;
    for (const auto& entry : baseline) {
      if (is_half_replaced(entry)) parameters_of_size_[entry.first] = entry.second.kept.size() / 2;
    }
    return true;
  }

  // A model has few weights of one size, but many vectors (norms and biases) as wide as its layers.
  // If their number is not a multiple of `copies`, the memory does not consist of that many copies
  // of the model, however few bytes the vectors have. A vector's size divides each of the large
  // sizes; buffers of other sizes do not count.
  template <typename HasShare>
  static bool vectors_contradict(const std::map<std::uint64_t, Copies>& baseline,
                                 HasShare&& has_share, std::size_t copies) {
    constexpr std::size_t kFewestVectors = 8;
    constexpr std::uint64_t kLeastVectorBytes = 1024;
    return std::ranges::any_of(baseline, [&](const auto& vectors) {
      const std::uint64_t bytes = vectors.first;
      const Copies& found = vectors.second;
      if (found.count() < kFewestVectors || found.count() % copies == 0) return false;
      if (bytes < kLeastVectorBytes || found.kept.size() != found.count()) return false;
      return std::ranges::all_of(baseline, [&](const auto& entry) {
        const bool is_multiple = entry.first > bytes && entry.first % bytes == 0;
        return !has_share(entry, kLargeShare) || is_multiple;
      });
    });
  }

  // Whether vectors rule out two copies, and large blocks rule out three. Vectors are not used to
  // rule out three copies: a single buffer as wide as the layers would do that too.
  template <typename HasShare>
  static bool is_single_copy(const std::map<std::uint64_t, Copies>& baseline,
                             HasShare&& has_share) {
    const auto contradicts_three = [&](const auto& entry) {
      return has_share(entry, kLargeShare) && entry.second.count() % 3 != 0;
    };
    return std::ranges::any_of(baseline, contradicts_three) &&
           vectors_contradict(baseline, has_share, 2);
  }

  // How many parameters the model has of each size: the number of gradients of that size. If no
  // gradients are seen, all sizes must have the same number of copies.
  void count_parameters(const std::map<std::uint64_t, Copies>& baseline, double baseline_bytes) {
    if (!parameters_of_size_.empty()) return;
    std::size_t copies = 0;
    const auto has_share = [&](const auto& entry, double share) {
      const auto bytes =
          static_cast<double>(entry.first) * static_cast<double>(entry.second.count());
      return entry.first != model::kSmallCublasWorkspaceBytes && bytes > share * baseline_bytes;
    };
    const auto is_notable = [&](const auto& entry) {
      return entry.second.count() > 1 && has_share(entry, kNotableShare);
    };
    if (count_by_moments(baseline, is_notable)) return;
    for (const auto& entry : baseline) {
      if (is_notable(entry)) copies = std::gcd(copies, entry.second.count());
    }
    if (copies % 2 == 0 && is_single_copy(baseline, has_share)) copies = 1;
    if (copies == 4 && vectors_contradict(baseline, has_share, 4)) return;
    // One copy, or four: parameters, gradients and two moments. Two or three would be ambiguous.
    if (copies != 1 && copies != 4) return;
    const bool is_single = std::ranges::any_of(baseline, [&](const auto& entry) {
      return entry.second.count() % copies != 0 && has_share(entry, kLargeShare);
    });
    if (is_single) return;
    for (const auto& entry : baseline) {
      if (is_notable(entry)) parameters_of_size_[entry.first] = entry.second.count() / copies;
    }
  }

  // Between two allocations of a step, or after the last one in the history.
  bool is_in_step(std::uint32_t event) const {
    const auto after = std::ranges::lower_bound(history_, event, {}, &Made::born);
    const bool is_last = after == history_.end();
    return after != history_.begin() && (is_last || is_step(after->activity)) &&
           is_step(std::prev(after)->activity);
  }

  void infer_baseline() {
    std::map<std::uint64_t, Copies> baseline;
    double bytes = 0;
    for (std::uint32_t row = 0; row < lifetimes_.baseline_count; ++row) {
      const std::uint64_t size_bytes = trace_.size_bytes(device_, row);
      bytes += static_cast<double>(size_bytes);
      const std::uint32_t died = model::death(lifetimes_, row, model::Liveness::kAllocated);
      Copies& copies = baseline[size_bytes];
      if (died == model::kNone) {
        copies.kept.push_back(row);
      } else {
        (is_in_step(died) ? copies.replaced : copies.freed).push_back(row);
      }
    }
    count_parameters(baseline, bytes);
    const StringId unknown = trace_.strings.intern(model::kUnknownCategory);
    for (std::uint32_t row = 0; row < lifetimes_.baseline_count; ++row) {
      lifetimes_.category.set(row, unknown);
    }
    copies_ = copies_kept(baseline);
    for (auto& [size_bytes, copies] : baseline) {
      for (std::size_t i = workspaces_among(baseline, size_bytes); i > 0; --i) {
        workspaces_.push_back(copies.kept.back());
        copies.kept.pop_back();
      }
      const auto found = parameters_of_size_.find(size_bytes);
      if (found != parameters_of_size_.end()) share_out(copies, found->second);
    }
  }

  // How many of the blocks of this size that are kept to the end are workspaces of cuBLAS. No
  // tensor has the smaller workspace size. Among blocks of the larger sizes, those that the copies
  // of the model do not explain are workspaces: one for forward's thread, one for backward's, and
  // one of cuBLASLt.
  std::size_t workspaces_among(const std::map<std::uint64_t, Copies>& baseline,
                               std::uint64_t size_bytes) const {
    const std::size_t kept = baseline.at(size_bytes).kept.size();
    if (size_bytes == model::kSmallCublasWorkspaceBytes) {
      const bool is_of_model = parameters_of_size_.contains(size_bytes);
      return is_of_model || has_large_workspace() ? 0 : kept;
    }
    const bool is_large = size_bytes == model::kLargeCublasWorkspaceBytes;
    if ((!is_large && size_bytes != model::kCublasLtWorkspaceBytes) || gradients_.empty()) return 0;
    if (!is_large && !baseline.contains(model::kLargeCublasWorkspaceBytes)) return 0;
    if (baseline.contains(model::kSmallCublasWorkspaceBytes)) return 0;
    const auto own = parameters_of_size_.find(size_bytes);
    if (own != parameters_of_size_.end() && copies_ == 0) return 0;
    const std::size_t expected = own != parameters_of_size_.end() ? copies_ * own->second : 0;
    const std::size_t left = kept > expected ? kept - expected : 0;
    return left <= (is_large ? 2 : 1) ? left : 0;
  }

  // Whether the history shows workspaces of the larger size: a device has one size.
  bool has_large_workspace() const {
    return std::ranges::any_of(workspaces_, [&](std::uint32_t row) {
      return trace_.size_bytes(device_, row) == model::kLargeCublasWorkspaceBytes;
    });
  }

  // How many blocks are kept to the end for each parameter: the parameter and its moments. The
  // number with the most bytes wins, because buffers may have the same sizes as parameters. Sizes
  // of workspaces count only if the model has no other sizes. 0: unknown.
  std::size_t copies_kept(const std::map<std::uint64_t, Copies>& baseline) const {
    std::map<std::size_t, std::uint64_t> bytes, of_workspaces;  // by number of copies
    for (const auto& [size_bytes, parameters] : parameters_of_size_) {
      const auto found = baseline.find(size_bytes);
      if (found == baseline.end() || found->second.kept.size() % parameters != 0) continue;
      if (size_bytes == model::kLargeCublasWorkspaceBytes) continue;
      const bool is_other = size_bytes != model::kCublasLtWorkspaceBytes;
      (is_other ? bytes : of_workspaces)[found->second.kept.size() / parameters] +=
          size_bytes * parameters;
    }
    if (bytes.empty()) bytes = of_workspaces;
    const auto most =
        std::ranges::max_element(bytes, {}, [](const auto& each) { return each.second; });
    return most == bytes.end() ? 0 : most->first;
  }

  // Divides the blocks of one size among the categories. `parameters` is the number of parameters
  // of this size.
  void share_out(const Copies& copies, std::size_t parameters) {
    if (copies.kept.size() < parameters) return;
    const auto take = [&](const std::vector<std::uint32_t>& rows, std::size_t first,
                          std::size_t count, std::string_view category) {
      const StringId word = trace_.strings.intern(category);
      for (std::size_t i = first; i < std::min(first + count, rows.size()); ++i) {
        lifetimes_.category.set(rows[i], word);
      }
    };
    take(copies.kept, 0, parameters, model::kParameter);
    // An optimizer may rewrite its state at each step; zero_grad() frees the gradients of the step
    // before.
    if (copies.replaced.size() % parameters == 0) {
      take(copies.replaced, 0, copies.replaced.size(), model::kOptimizerState);
    }
    take(copies.freed, 0, parameters, model::kGradient);
    std::size_t used = parameters;
    const std::size_t left = copies.kept.size() - used;
    // zero_grad(set_to_none=False) keeps the gradients; the optimizer may replace its two moments.
    const bool has_moments = copies.replaced.size() == 2 * parameters && gradients_.empty();
    const bool keeps_gradients = copies.freed.empty() && (copies.replaced.empty() || has_moments);
    if (keeps_gradients && copies.count() == 4 * parameters) {
      take(copies.kept, used, parameters, model::kGradient);
      used += parameters;
    }
    // Blocks without a counterpart among the other sizes are buffers, not state.
    const std::size_t expected = copies_ * parameters;
    if (copies_ != 0 && copies.kept.size() > expected && expected >= used) {
      take(copies.kept, used, expected - used, model::kOptimizerState);
    } else if (left != 0 && left % parameters == 0) {
      take(copies.kept, used, copies.kept.size() - used, model::kOptimizerState);
    }
  }

  Trace& trace_;
  DeviceTrace& device_;
  Lifetimes& lifetimes_;
  std::vector<Made> history_;  // in order of birth
  std::vector<std::uint32_t> workspaces_;
  std::size_t copies_ = 0;  // copies_kept()
  bool has_backward_ = false;
  std::unordered_set<std::uint64_t> model_sizes_;
  std::map<std::uint32_t, std::map<std::uint64_t, std::size_t>> gradients_;  // by backward pass
  std::map<std::uint64_t, std::size_t> parameters_of_size_;
};

// Whether any allocation of the history has a stack with frames.
bool has_stacks(const Trace& trace) {
  for (const DeviceTrace& device : trace.devices) {
    for (std::size_t row = 0; row < device.events.size(); ++row) {
      const bool is_alloc = device.events.action[row] == Action::kAlloc;
      if (is_alloc && !trace.stacks.frames(trace.site(device, row).stack).empty()) return true;
    }
  }
  return false;
}

// Pinned host memory has no stacks with torch's operators that would show a role.
void name_pinned(Trace& trace, DeviceTrace& device) {
  const model::StringId word = trace.strings.intern(model::kPinnedHostCategory);
  for (std::uint32_t row = 0; row < device.lifetimes.size(); ++row) {
    device.lifetimes.category.set(row, word);
  }
}

}  // namespace

void infer_roles(Trace& trace) {
  if (trace.has_categories() || !has_stacks(trace)) return;
  const std::vector<Activity> activities = activities_of_stacks(trace);
  for (DeviceTrace& device : trace.devices) {
    if (device.events.size() == 0) continue;
    if (device.device.type == model::DeviceType::kPinnedHost) {
      name_pinned(trace, device);
    } else {
      DeviceRoles(trace, device, activities).infer();
    }
  }
  trace.has_inferred_roles = trace.has_categories();
}

}  // namespace plimsoll::attribution

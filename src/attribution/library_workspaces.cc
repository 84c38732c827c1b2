#include "attribution/library_workspaces.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "model/categories.h"
#include "model/library_workspaces.h"
#include "model/live_set.h"
#include "model/workspace_stack.h"

namespace plimsoll::attribution {
namespace {

using model::DeviceTrace;
using model::Lifetimes;
using model::Trace;

constexpr std::uint32_t kNeverFreed = std::numeric_limits<std::uint32_t>::max();
// A line may run a million times; its candidates are compared only with the next runs.
constexpr std::ptrdiff_t kMostRunsCompared = 1000;
// One workspace of cuBLAS and one of cuBLASLt.
constexpr std::size_t kMostInOperator = 2;

// The operators that multiply matrices through cuBLAS or cuBLASLt.
constexpr std::array<std::string_view, 15> kMultiplications = {
    "aten::mm",          "aten::addmm",         "aten::bmm",
    "aten::baddbmm",     "aten::addbmm",        "aten::mv",
    "aten::addmv",       "aten::dot",           "aten::vdot",
    "aten::_scaled_mm",  "aten::_int_mm",       "aten::_addmm_activation",
    "aten::_grouped_mm", "aten::_scaled_mm_v2", "aten::addr"};

// The sizes of workspaces that are kept. Up to torch 2.8, cuBLASLt's workspace is a temporary.
constexpr std::array kCudaBytes = {model::kSmallCublasWorkspaceBytes,
                                   model::kLargeCublasWorkspaceBytes,
                                   model::kCublasLtWorkspaceBytes};
constexpr std::array kHipBytes = {model::kHipblasWorkspaceBytes, model::kLargeHipblasWorkspaceBytes,
                                  model::kHipblasLtWorkspaceBytes};

bool has_size_of_workspace(model::DeviceType type, std::uint64_t size_bytes) {
  const auto& sizes = type == model::DeviceType::kHip ? kHipBytes : kCudaBytes;
  return std::ranges::find(sizes, size_bytes) != sizes.end();
}

bool multiplies(std::string_view op) {
  return std::ranges::find(kMultiplications, op) != kMultiplications.end();
}

class WorkspaceSearch {
 public:
  WorkspaceSearch(const Trace& trace, const DeviceTrace& device,
                  const std::vector<Activity>& activities)
      : trace_(trace), device_(device), lifetimes_(device.lifetimes), activities_(activities) {}

  std::vector<std::uint32_t> find() {
    find_framed();
    if (found_.empty()) {
      find_candidates();
      if (!candidates_.empty()) {
        note_runs();
        note_passes();
        note_what_backwards_leave();
        for (const Candidate& candidate : candidates_) consider(candidate);
        keep_one_size();
      }
    }
    std::ranges::sort(found_);
    return found_;
  }

 private:
  struct Candidate {
    std::uint32_t row;
    std::uint64_t size_bytes;
  };
  // Consecutive allocations with one site: those of an operator, or of a line.
  struct Run {
    std::uint32_t first_row, last_row;
    std::size_t length() const { return last_row - first_row + 1; }
  };
  // Consecutive allocations of a stream by backward.
  struct Pass {
    std::uint32_t first_row, last_row;
    std::uint32_t end;  // the event of the next allocation that is not backward's
  };

  const model::Site& site(std::size_t row) const {
    return trace_.site(device_, lifetimes_.alloc[row]);
  }
  model::SiteId site_id(std::size_t row) const {
    return device_.events.site[lifetimes_.alloc[row]];
  }
  std::string_view op(std::size_t row) const {
    const model::Site& where = site(row);
    return trace_.strings[where.inner_op != model::StringId{} ? where.inner_op : where.op];
  }
  Activity activity(std::size_t row) const { return activities_[site(row).stack.index()]; }
  bool is_inferred() const { return !activities_.empty(); }
  bool is_backward(std::size_t row) const {
    return is_inferred() ? activity(row) == Activity::kBackward
                         : site(row).phase == model::Phase::kBackward;
  }
  std::uint32_t death(std::size_t row) const {
    const std::uint32_t died = model::death(lifetimes_, row, model::Liveness::kAllocated);
    return died == model::kNone ? kNeverFreed : died;
  }

  void find_framed() {
    if (!is_inferred()) return;
    for (std::uint32_t row = lifetimes_.baseline_count; row < lifetimes_.size(); ++row) {
      if (activity(row) == Activity::kWorkspace) found_.push_back(row);
    }
  }

  // Whether the allocation may be a workspace: the recording does not show that it is something
  // else, such as a parameter or a gradient.
  bool is_unclaimed(std::size_t row) const {
    if (is_inferred()) {
      const Activity made = activity(row);
      return made == Activity::kForward || made == Activity::kBackward ||
             made == Activity::kProgram;
    }
    const std::string_view category = trace_.strings[trace_.category(device_, row)];
    if (!op(row).empty() && !multiplies(op(row))) return false;
    return category == model::kActivation || category == model::kActivationGradient ||
           category == model::kOtherCategory;
  }

  void find_candidates() {
    for (std::uint32_t row = lifetimes_.baseline_count; row < lifetimes_.size(); ++row) {
      const std::uint64_t size_bytes = trace_.size_bytes(device_, row);
      if (!has_size_of_workspace(device_.device.type, size_bytes)) continue;
      if (death(row) != kNeverFreed || !is_unclaimed(row)) continue;
      candidates_.push_back({row, size_bytes});
    }
  }

  void note_runs() {
    for (std::uint32_t row = lifetimes_.baseline_count; row < lifetimes_.size(); ++row) {
      const bool is_first = row == lifetimes_.baseline_count || site_id(row) != site_id(row - 1);
      std::vector<Run>& runs = runs_[site_id(row).value];
      if (is_first) {
        runs.push_back({row, row});
      } else {
        runs.back().last_row = row;
      }
    }
  }

  void note_passes() {
    bool is_in_pass = false;
    for (std::uint32_t row = lifetimes_.baseline_count; row < lifetimes_.size(); ++row) {
      if (is_backward(row)) {
        if (!is_in_pass) passes_.push_back({row, row, kNeverFreed});
        passes_.back().last_row = row;
      } else if (is_in_pass) {
        passes_.back().end = lifetimes_.alloc[row];
      }
      is_in_pass = is_backward(row);
    }
  }

  void note_what_backwards_leave() {
    const auto is_complete = [](const Pass& pass) { return pass.end != kNeverFreed; };
    const auto last = std::ranges::find_if(passes_.rbegin(), passes_.rend(), is_complete);
    if (last != passes_.rend()) last_backward_ = last->last_row;
    if (passes_.empty() || !is_inferred()) return;
    left_ = left_by(passes_.front());
    if (passes_.size() > 1) left_again_ = left_by(passes_[1]);
    count_parameters();
  }

  void consider(const Candidate& candidate) {
    // There is one workspace for each stream, and one more for autograd's thread.
    const auto key = std::tuple(site(candidate.row).stream.value, candidate.size_bytes,
                                is_backward(candidate.row));
    if (is_found_[key]) return;
    // Backward has no frames in snapshots, so its gradients have the same site as its workspace.
    const bool is_workspace = is_inferred() && is_backward(candidate.row)
                                  ? is_surplus_of_backward(candidate)
                                  : is_made_once(candidate);
    if (!is_workspace) return;
    is_found_[key] = true;
    found_.push_back(candidate.row);
  }

  // All workspaces of cuBLAS on a device have one size: that of the first.
  void keep_one_size() {
    const auto is_other = [&](std::uint32_t row) {
      return trace_.size_bytes(device_, row) != model::kCublasLtWorkspaceBytes &&
             trace_.size_bytes(device_, row) != model::kHipblasLtWorkspaceBytes;
    };
    const auto first = std::ranges::find_if(found_, is_other);
    if (first == found_.end()) return;
    const std::uint64_t size_bytes = trace_.size_bytes(device_, *first);
    std::erase_if(found_, [&](std::uint32_t row) {
      return is_other(row) && trace_.size_bytes(device_, row) != size_bytes;
    });
  }

  // A workspace comes after the result, and its line or operator later runs again without it: with
  // fewer allocations, by the number of workspaces in the first run.
  bool is_made_once(const Candidate& candidate) const {
    // Memory kept by a forward is freed by its backward, which may come after the end of the
    // history.
    if (candidate.row > last_backward_) return false;
    const std::vector<Run>& runs = runs_.at(site_id(candidate.row).value);
    const auto run = std::ranges::lower_bound(runs, candidate.row, {}, &Run::last_row);
    if (candidate.row == run->first_row) return false;
    const auto first = std::ranges::lower_bound(candidates_, run->first_row, {}, &Candidate::row);
    const auto last = std::ranges::upper_bound(candidates_, run->last_row, {}, &Candidate::row);
    const auto inside = static_cast<std::size_t>(last - first);
    if (inside > kMostInOperator) return false;
    if (std::next(run) == runs.end()) return multiplies(op(candidate.row));
    const auto compared = std::min<std::ptrdiff_t>(runs.end() - run, kMostRunsCompared);
    return std::any_of(std::next(run), run + compared,
                       [&](const Run& later) { return later.length() + inside == run->length(); });
  }

  // Whether the first backward left one more block of this size than the model has gradients of
  // this size.
  bool is_surplus_of_backward(const Candidate& candidate) const {
    if (passes_.empty() || candidate.row > passes_.front().last_row) return false;
    if (candidate.row == passes_.front().first_row) return false;  // no result comes before it
    const std::size_t here = left_.at(candidate.size_bytes);
    const auto own = parameters_.find(candidate.size_bytes);
    if (here == (own == parameters_.end() ? 0 : own->second) + 1) return true;
    // The next backward, which makes the gradients again, leaves the same blocks except for one.
    if (left_again_.empty() || left_again_.size() + 1 < left_.size()) return false;
    std::map<std::uint64_t, std::size_t> again = left_again_;
    return ++again[candidate.size_bytes] == here && again == left_;
  }

  // The number of blocks of each size that outlive a backward.
  std::map<std::uint64_t, std::size_t> left_by(const Pass& pass) const {
    std::map<std::uint64_t, std::size_t> counts;
    for (std::uint32_t row = pass.first_row; row <= pass.last_row; ++row) {
      if (outlives(pass, row)) ++counts[trace_.size_bytes(device_, row)];
    }
    return counts;
  }

  bool outlives(const Pass& pass, std::uint32_t row) const {
    return pass.end == kNeverFreed ? death(row) == kNeverFreed : death(row) > pass.end;
  }

  // Blocks from before the first backward that may be parameters, by size.
  void count_parameters() {
    for (std::uint32_t row = 0; row < passes_.front().first_row; ++row) {
      const bool is_made =
          row < lifetimes_.baseline_count ||
          ((activity(row) == Activity::kModelMade || activity(row) == Activity::kProgram) &&
           death(row) == kNeverFreed);
      if (is_made) ++parameters_[trace_.size_bytes(device_, row)];
    }
  }

  const Trace& trace_;
  const DeviceTrace& device_;
  const Lifetimes& lifetimes_;
  const std::vector<Activity>& activities_;
  std::vector<Candidate> candidates_;
  std::vector<Pass> passes_;
  std::uint32_t last_backward_ = kNeverFreed;  // the last row of the last backward that ends
  // Blocks that the first and the second backward leave, and possible parameters, by size.
  std::map<std::uint64_t, std::size_t> left_, left_again_, parameters_;
  std::unordered_map<std::uint32_t, std::vector<Run>> runs_;  // by site
  std::map<std::tuple<std::uint32_t, std::uint64_t, bool>, bool> is_found_;
  std::vector<std::uint32_t> found_;
};

bool names_workspaces(const Trace& trace) {
  for (const DeviceTrace& device : trace.devices) {
    for (std::size_t row = 0; row < device.lifetimes.size(); ++row) {
      if (trace.strings[trace.category(device, row)] == model::kWorkspace) return true;
    }
  }
  return false;
}

}  // namespace

std::vector<std::uint32_t> find_workspaces(const Trace& trace, const DeviceTrace& device,
                                           const std::vector<Activity>& activities) {
  if (device.device.type != model::DeviceType::kCuda &&
      device.device.type != model::DeviceType::kHip) {
    return {};
  }
  return WorkspaceSearch(trace, device, activities).find();
}

void name_workspaces(Trace& trace, DeviceTrace& device, const std::vector<std::uint32_t>& rows) {
  if (rows.empty()) return;
  const model::StringId category = trace.strings.intern(model::kWorkspace);
  const model::StackId stack = model::workspace_stack(trace.strings, trace.stacks);
  for (const std::uint32_t row : rows) {
    device.lifetimes.category.set(row, category);
    const std::uint32_t born = device.lifetimes.alloc[row];
    if (born == model::kNone) continue;
    const std::uint32_t block = device.lifetimes.block[row];
    model::Site site = trace.site(device, born);
    site.layer = {};
    const auto shows_it = [&](model::FrameId id) {
      return model::is_workspace_frame(trace.strings[trace.stacks.frame(id).function]);
    };
    if (!std::ranges::any_of(trace.stacks.frames(site.stack), shows_it)) site.stack = stack;
    device.events.site[born] = trace.sites.intern(site);
    if (block != model::kNone) trace.blocks[block].stack = site.stack;
  }
}

void name_unrecorded_workspaces(Trace& trace) {
  if (!trace.has_attribution || names_workspaces(trace)) return;
  for (DeviceTrace& device : trace.devices) {
    if (device.events.size() > 0)
      name_workspaces(trace, device, find_workspaces(trace, device, {}));
  }
}

}  // namespace plimsoll::attribution

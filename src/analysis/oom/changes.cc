#include "analysis/oom/changes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "analysis/oom/cause.h"
#include "model/categories.h"
#include "model/layers.h"

namespace plimsoll::analysis::oom {
namespace {

using report::OomChange;

// A change that saves less than 2 % of what is needed is not reported.
constexpr std::uint64_t kLeastSaving = 50;
// For a batch of unknown size: the smallest share that is useful advice.
constexpr double kLeastShare = 0.01;

// The memory of one of several equal layers at the peak.
struct Block {
  std::uint64_t bytes = 0;
  std::pair<bool, std::uint32_t> last;  // its output: what a checkpoint keeps
  std::uint64_t last_bytes = 0;
};
// The layers of one list, by number.
using Blocks = std::map<std::uint64_t, Block>;

// Splits "model.layers.12.mlp" into "model.layers" and 12.
std::optional<std::pair<std::string, std::uint64_t>> block_of(const std::string& path) {
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const std::string_view part = std::string_view(path).substr(begin, end - begin);
    const bool is_number = !part.empty() && part.size() < 9 &&
                           part.find_first_not_of("0123456789") == std::string_view::npos;
    if (is_number && begin > 0) {
      return std::pair(path.substr(0, begin - 1), std::stoull(std::string(part)));
    }
    begin = end + 1;
  }
  return std::nullopt;
}

class Checkpoints {
 public:
  explicit Checkpoints(const History& history) : history_(history), layers_(history.trace()) {}

  std::optional<OomChange> change(const Need& need) {
    if (!model::Layers::are_known(history_.trace())) return std::nullopt;
    std::map<std::string, Blocks> lists;
    for (const Part& part : need.parts) {
      if (!part.scales || !is_kept(part.row)) continue;
      const model::StackId stack = history_.trace().stack(history_.device(), part.row);
      if (history_.stacks().has(stack, evidence::StackFlag::kCheckpoint)) return std::nullopt;
      const auto found = block_of(layers_.path(layers_.of(history_.device(), part.row)));
      if (!found) continue;
      Block& block = lists[found->first][found->second];
      block.bytes += part.bytes;
      const std::pair place(part.is_rest, part.row);
      if (place < block.last) continue;
      block.last = place;
      block.last_bytes = part.bytes;
    }
    std::uint64_t saving = 0;
    OomChange change;
    for (const auto& [path, blocks] : lists) {
      const std::uint64_t of_list = saving_of(blocks);
      if (of_list <= saving) continue;
      saving = of_list;
      change.layers = path + "." + std::to_string(blocks.begin()->first) + "…" +
                      std::to_string(blocks.rbegin()->first);
    }
    if (saving == 0) return std::nullopt;
    change.change = "checkpoint";
    change.needed_bytes = need.bytes - saving;
    return change;
  }

 private:
  // A checkpoint saves everything but the outputs, except the memory of one layer, which backward
  // computes again.
  static std::uint64_t saving_of(const Blocks& blocks) {
    std::uint64_t inside = 0, largest = 0;
    for (const auto& [number, block] : blocks) {
      inside += block.bytes - block.last_bytes;
      largest = std::max(largest, block.bytes - block.last_bytes);
    }
    return blocks.size() < 2 ? 0 : inside - largest;
  }

  bool is_kept(std::uint32_t row) const {
    const model::Trace& trace = history_.trace();
    return trace.strings[trace.category(history_.device(), row)] == model::kActivation;
  }

  const History& history_;
  model::Layers layers_;
};

// In 8 bits, state in float32 takes a quarter of its bytes, and state in 16 bits half. Returns 0
// unless nearly all of the state has a known dtype.
std::uint64_t saving_of_8bit(const History& history, const Need& need) {
  const model::Trace& trace = history.trace();
  std::uint64_t state = 0, saving = 0, known = 0;
  for (const Part& part : need.parts) {
    if (trace.strings[trace.category(history.device(), part.row)] != model::kOptimizerState) {
      continue;
    }
    state += part.bytes;
    const model::TensorId tensor = history.device().lifetimes.tensor[part.row];
    const std::string_view dtype = trace.strings[trace.tensors[tensor.index()].dtype];
    if (dtype == "float32") {
      known += part.bytes;
      saving += part.bytes / 4 * 3;
    } else if (dtype == "bfloat16" || dtype == "float16") {
      known += part.bytes;
      saving += part.bytes / 2;
    }
  }
  if (state == 0 || static_cast<double>(known) < 0.95 * static_cast<double>(state)) return 0;
  // State that did not exist yet will have the dtypes of the existing state.
  const double share = static_cast<double>(saving) / static_cast<double>(state);
  const bool is_missing = need.basis == "optimizer_state";
  const std::uint64_t missing = is_missing ? need.state_bytes : 0;
  return saving + static_cast<std::uint64_t>(share * static_cast<double>(missing));
}

OomChange smaller_batch(const Need& need, std::uint64_t available_bytes,
                        std::optional<std::uint64_t> batch) {
  OomChange change;
  change.change = "smaller_batch";
  double share = largest_share(need, available_bytes);
  if (batch) {
    change.batch_size = static_cast<std::uint64_t>(share * static_cast<double>(*batch));
    share = static_cast<double>(*change.batch_size) / static_cast<double>(*batch);
  }
  change.batch_share = share;
  change.is_enough = share >= (batch ? 0.0 : kLeastShare) && share > 0;
  if (!change.is_enough && batch) share = 1.0 / static_cast<double>(*batch);
  if (share == 0) return change;
  double most = 0;
  for (const Point& point : need.points) {
    most = std::max(most, static_cast<double>(point.fixed_bytes) +
                              share * static_cast<double>(point.scaling_bytes));
  }
  constexpr double kMostBytes = 1e18;  // a hostile file may have any size
  change.needed_bytes = static_cast<std::uint64_t>(std::min(most, kMostBytes));
  return change;
}

}  // namespace

double largest_share(const Need& need, std::uint64_t available_bytes) {
  double share = 1.0;
  for (const Point& point : need.points) {
    if (point.fixed_bytes >= available_bytes) return 0.0;
    if (point.fixed_bytes + point.scaling_bytes <= available_bytes) continue;
    share = std::min(share, static_cast<double>(available_bytes - point.fixed_bytes) /
                                static_cast<double>(point.scaling_bytes));
  }
  return share;
}

std::vector<OomChange> changes_for(const History& history, const Need& need,
                                   std::uint64_t available_bytes,
                                   std::optional<std::uint64_t> batch) {
  const std::uint64_t safe = safe_bytes(available_bytes);
  std::vector<OomChange> changes;
  OomChange contiguous;
  contiguous.change = "contiguous_memory";
  contiguous.needed_bytes = need.bytes;
  contiguous.is_enough = need.bytes <= safe;
  changes.push_back(std::move(contiguous));
  if (need.bytes <= safe) return changes;
  const bool scales = std::ranges::any_of(need.parts, &Part::scales);
  if (scales) changes.push_back(smaller_batch(need, safe, batch));
  if (auto checkpoint = Checkpoints(history).change(need)) {
    checkpoint->is_enough = *checkpoint->needed_bytes <= safe;
    changes.push_back(*std::move(checkpoint));
  }
  const std::uint64_t saving = saving_of_8bit(history, need);
  if (saving >= need.bytes / kLeastSaving) {
    OomChange change;
    change.change = "optimizer_8bit";
    change.needed_bytes = need.bytes - saving;
    change.is_enough = *change.needed_bytes <= safe;
    changes.push_back(std::move(change));
  }
  return changes;
}

}  // namespace plimsoll::analysis::oom

#include "analysis/evidence/evidence.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "model/categories.h"
#include "model/live_set.h"

namespace plimsoll::analysis::evidence {

using model::kNone;
using model::LifetimeFlags;

Evidence::Evidence(const model::Trace& trace, const TraceFacts& of_trace,
                   const model::DeviceTrace& device)
    : trace_(trace), device_(device), of_trace_(of_trace), spans_(trace, device) {}

Fate Evidence::fate(std::uint32_t lifetime) const {
  const model::Lifetimes& lifetimes = device_.lifetimes;
  const model::Liveness liveness = model::default_liveness(device_);
  const std::uint32_t died = model::death(lifetimes, lifetime, liveness);
  if (died == kNone) return Fate::kLive;
  if (has(lifetimes.flags[lifetime], LifetimeFlags::kTemporary)) return Fate::kOperator;
  const auto collections = spans_.collections();
  const bool is_collected = has(lifetimes.flags[lifetime], LifetimeFlags::kCollected);
  if (is_collected && !collections.empty() && died >= collections.front()) return Fate::kCollector;
  const std::uint32_t requested = lifetimes.free_requested[lifetime];
  const bool waits =
      liveness == model::Liveness::kActive && requested < died && died - requested > 1;
  if (waits) return Fate::kStream;
  return spans_.backward_at(died) < spans_.backwards().size() ? Fate::kBackward : Fate::kProgram;
}

Pass Evidence::pass_of(std::uint32_t lifetime) const {
  const std::uint32_t born = device_.lifetimes.alloc[lifetime];
  if (born == kNone) return {};
  const model::StringId layer = site(lifetime).layer;
  return {root_of(trace_.strings[layer]), passes().of(layer, born), spans_.round(born)};
}

bool Evidence::is_freed_by_backward(std::uint32_t lifetime) const {
  const std::uint32_t died =
      model::death(device_.lifetimes, lifetime, model::default_liveness(device_));
  return spans_.backward_at(died) < spans_.backwards().size();
}

bool Evidence::is_used_by_backward(std::uint32_t lifetime) const {
  if (device_.lifetimes.alloc[lifetime] == kNone) return false;
  return is_freed_by_backward(lifetime) || use_of(pass_of(lifetime)).is_used;
}

bool Evidence::may_be_used_by_backward(std::uint32_t lifetime) const {
  if (device_.lifetimes.alloc[lifetime] == kNone) return false;
  return is_used_by_backward(lifetime) || use_of(pass_of(lifetime)).is_open;
}

bool Evidence::is_left_by_backward(std::uint32_t lifetime) const {
  return device_.lifetimes.alloc[lifetime] != kNone && use_of(pass_of(lifetime)).is_left;
}

bool Evidence::is_used_in_vain(std::uint32_t lifetime) const {
  return device_.lifetimes.alloc[lifetime] != kNone && use_of(pass_of(lifetime)).is_in_vain;
}

bool Evidence::is_of_graph(std::uint32_t lifetime) const {
  if (device_.lifetimes.alloc[lifetime] == kNone) return false;
  const model::Autograd autograd = site(lifetime).autograd;
  return autograd == model::Autograd::kBuilt ||
         (autograd == model::Autograd::kUnknown && use_of(pass_of(lifetime)).keeps_most);
}

bool Evidence::meets_oom(std::uint32_t lifetime) const {
  const std::uint32_t born = device_.lifetimes.alloc[lifetime];
  const std::uint32_t died =
      model::death(device_.lifetimes, lifetime, model::default_liveness(device_));
  const auto& ooms = spans_.ooms();
  const auto oom = std::ranges::upper_bound(ooms, born);
  return oom != ooms.end() && *oom <= died && spans_.round(*oom) == spans_.round(born);
}

const Passes& Evidence::passes() const {
  if (!passes_) passes_.emplace(trace_, device_);
  return *passes_;
}

const Evidence::PassUse& Evidence::use_of(const Pass& pass) const {
  static const PassUse kNoForward;
  if (uses_of_passes_.empty()) uses_of_passes_ = find_uses();
  const auto found = uses_of_passes_.find(pass);
  return found == uses_of_passes_.end() ? kNoForward : found->second;
}

std::map<Pass, Evidence::PassUse> Evidence::find_uses() const {
  constexpr std::uint64_t kLeastUsed = 10;  // a tenth: a module may be frozen in part
  // Without a graph, only what is in variables stays: in a U-Net, a third.
  constexpr double kShareKept = 0.45;
  struct Kept {
    std::uint32_t last_born = 0;  // its result, which other graphs may use
    std::uint32_t last_died = 0;
    std::uint64_t bytes = 0, used_bytes = 0, left_bytes = 0;
    std::size_t made = 0, kept = 0;
    std::uint32_t first_born = kNone;
    model::StackId first_stack;
    bool keeps_first = false;  // which few modules return
  };
  std::map<Pass, Kept> passes;
  std::vector<std::uint32_t> latest(spans_.backwards().size());  // birth of what each frees
  const model::Lifetimes& lifetimes = device_.lifetimes;
  const auto for_each_of_graph = [&](auto&& each) {
    for (std::uint32_t row = lifetimes.baseline_count; row < lifetimes.size(); ++row) {
      const bool is_of_graph = site(row).phase == model::Phase::kForward &&
                               site(row).autograd != model::Autograd::kOff &&
                               !has(lifetimes.flags[row], LifetimeFlags::kTemporary);
      if (is_of_graph) each(row, passes[pass_of(row)]);
    }
  };
  const auto next_born = [&](std::uint32_t event) {
    const auto begin = lifetimes.alloc.data() + lifetimes.baseline_count;
    const auto end = lifetimes.alloc.data() + lifetimes.size();
    const auto next = std::upper_bound(begin, end, event);
    return next == end ? kNone : *next;
  };
  for_each_of_graph([&](std::uint32_t row, Kept& kept) {
    if (kept.made == 0) kept.first_stack = site(row).stack;
    kept.first_born = std::min(kept.first_born, lifetimes.alloc[row]);
    kept.last_born = lifetimes.alloc[row];
    ++kept.made;
  });
  for_each_of_graph([&](std::uint32_t row, Kept& kept) {
    const std::uint32_t died = model::death(lifetimes, row, model::default_liveness(device_));
    kept.last_died = std::max(kept.last_died, died);
    if (died <= kept.last_born || lifetimes.alloc[row] == kept.last_born) return;
    const std::uint64_t bytes = trace_.lifetime_bytes(device_, row);
    kept.bytes += bytes;
    // The last use is before this event.
    const std::uint32_t unused_from = trace_.has_uses ? lifetimes.unused_from[row] : kNone;
    const std::size_t using_it = unused_from == kNone || unused_from == 0
                                     ? latest.size()
                                     : spans_.backward_at(unused_from - 1);
    const bool is_last_used = using_it < latest.size();
    if (is_last_used && died > spans_.backwards()[using_it].end) kept.left_bytes += bytes;
    const std::size_t freeing = spans_.backward_at(died);
    if (freeing < latest.size()) latest[freeing] = std::max(latest[freeing], lifetimes.alloc[row]);
    if (is_last_used || freeing < latest.size()) kept.used_bytes += bytes;
    // Variables of the forward die when it returns, before anything else is made.
    if (died <= next_born(kept.last_born)) return;
    ++kept.kept;
    kept.keeps_first |= lifetimes.alloc[row] == kept.first_born;
  });
  std::map<Pass, PassUse> uses;
  std::map<Pass, PassSpan> pass_spans;
  for (const auto& [pass, kept] : passes) {
    pass_spans[pass] = {kept.first_born, kept.last_born, kept.first_stack};
    // Without uses: a backward may retain what it uses, unless it frees what a later pass made.
    const std::uint32_t next = spans_.round(kept.last_born);
    const bool may_be_retained = !trace_.has_uses && next < latest.size() &&
                                 spans_.backwards()[next].begin < kept.last_died &&
                                 latest[next] <= kept.last_born;
    const double least = kShareKept * static_cast<double>(kept.made);
    // Neither a pass of its root nor two backwards follow.
    const bool is_open =
        kept.last_died == kNone && latest.size() < next + 2 && next_pass(pass) == kNone;
    uses[pass] = {may_be_retained || kept.used_bytes > kept.bytes / kLeastUsed, is_open,
                  kept.left_bytes > kept.bytes / 2,
                  kept.keeps_first && static_cast<double>(kept.kept) >= least};
  }
  if (trace_.has_uses) find_uses_in_vain(pass_spans, uses);
  return uses;
}

void Evidence::find_uses_in_vain(const std::map<Pass, PassSpan>& spans,
                                 std::map<Pass, PassUse>& uses) const {
  const model::Lifetimes& lifetimes = device_.lifetimes;
  const std::size_t count = spans_.backwards().size();
  // Of each backward, the modules whose gradients something reads, or whose gradients are last
  // touched by it and then cleared. One that makes anything else which outlives it, such as the
  // gradient of an input, has no entry in `cleared`.
  std::vector<std::set<std::string_view>> read(count), cleared(count);
  std::vector<bool> makes_more(count);
  for (std::uint32_t row = lifetimes.baseline_count; row < lifetimes.size(); ++row) {
    const std::size_t made_in = spans_.backward_at(lifetimes.alloc[row]);
    const std::uint32_t died = model::death(lifetimes, row, model::default_liveness(device_));
    if (made_in >= count || died <= spans_.backwards()[made_in].end) continue;
    const std::string_view category = trace_.strings[trace_.category(device_, row)];
    const model::StringId name = trace_.tensors[lifetimes.tensor[row].index()].name;
    if (category != model::kGradient || name == model::StringId{}) {
      makes_more[made_in] = makes_more[made_in] || category == model::kActivationGradient;
      continue;
    }
    const std::string_view root = root_of(trace_.strings[name]);
    const std::uint32_t unused_from = lifetimes.unused_from[row];
    const std::size_t last = spans_.round(unused_from) - 1;  // it is made in one
    const std::uint32_t end = spans_.backwards()[last].end;
    if (died != kNone && unused_from <= end + 1) {
      // An optimizer that allocates nothing may follow at the event at which it ends.
      if (unused_from <= end) cleared[last].insert(root);
      continue;
    }
    for (std::size_t each = made_in; each < std::min<std::size_t>(count, spans_.round(died));
         ++each) {
      read[each].insert(root);
    }
  }
  std::map<std::pair<std::uint32_t, std::string_view>, std::uint32_t> first;  // by round and root
  for (const auto& [pass, span] : spans) {
    const auto [known, is_new] = first.try_emplace({pass.round, pass.root}, span.first);
    if (!is_new) known->second = std::min(known->second, span.first);
  }
  std::set<std::pair<std::string_view, std::uint32_t>> calls;  // of passes in vain: root, stack
  const auto is_of_no_use = [&](const Pass& pass, const PassSpan& span) {
    if (pass.round >= count || makes_more[pass.round] || read[pass.round].contains(pass.root)) {
      return false;
    }
    return std::ranges::all_of(read[pass.round], [&](std::string_view root) {
      const auto other = first.find({pass.round, root});
      return other != first.end() && other->second > span.last;
    });
  };
  for (const auto& [pass, span] : spans) {
    const bool is_cleared = pass.round < count && cleared[pass.round].contains(pass.root);
    if (is_cleared && is_of_no_use(pass, span)) calls.emplace(pass.root, span.stack.value);
  }
  for (const auto& [pass, span] : spans) {
    if (!calls.contains({pass.root, span.stack.value}) || !is_of_no_use(pass, span)) continue;
    uses[pass].is_in_vain = uses[pass].is_used;
  }
}

}  // namespace plimsoll::analysis::evidence

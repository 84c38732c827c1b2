#include "analysis/oom/need.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "analysis/oom/alignment.h"
#include "analysis/oom/optimizer_need.h"
#include "analysis/oom/sizes.h"
#include "model/categories.h"
#include "model/live_set.h"

namespace plimsoll::analysis::oom {
namespace {

// If a step keeps more different memory than this share, as a forward under no_grad does, it
// continues differently from its counterpart.
constexpr double kMostOther = 0.15;

std::vector<Part> live_at(const History& history, const Step& failed) {
  const model::Trace& trace = history.trace();
  const model::DeviceTrace& device = history.device();
  std::vector<Part> parts;
  for (const std::uint32_t row :
       model::live_set(device, model::default_liveness(device), failed.end)) {
    const std::uint32_t born = device.lifetimes.alloc[row];
    const bool is_of_step = born != model::kNone && born >= failed.begin;
    const model::Site& site = trace.birth(device, row);
    const bool scales = is_of_step && site.phase != model::Phase::kOptimizer &&
                        History::scales(trace.strings[trace.category(device, row)]);
    parts.push_back({row, trace.lifetime_bytes(device, row), scales});
  }
  return parts;
}

std::uint64_t sum_of(const std::vector<Part>& parts) {
  std::uint64_t sum = 0;
  for (const Part& part : parts) sum += part.bytes;
  return sum;
}

// The most bytes live since the failed step began.
std::uint64_t peak_so_far(const History& history, const Step& failed, std::uint64_t live_bytes) {
  const auto& made = history.made();
  const model::DeviceTrace& device = history.device();
  const model::Lifetimes& lifetimes = device.lifetimes;
  std::vector<std::int64_t> changes(failed.end - failed.begin + 1);
  for (std::size_t at = failed.first; at < failed.last; ++at) {
    changes[made[at].born - failed.begin] += static_cast<std::int64_t>(made[at].bytes);
  }
  for (std::uint32_t row = 0; row < lifetimes.size(); ++row) {
    const std::uint32_t died = model::death(lifetimes, row, model::default_liveness(device));
    if (died < failed.begin || died > failed.end) continue;
    changes[died - failed.begin] -=
        static_cast<std::int64_t>(history.trace().lifetime_bytes(device, row));
  }
  auto live = static_cast<std::int64_t>(live_bytes);
  std::int64_t most = live;
  for (std::size_t at = changes.size(); at-- > 0;) {
    live -= changes[at];
    most = std::max(most, live);
  }
  return static_cast<std::uint64_t>(std::max<std::int64_t>(most, 0));
}

// Replays the rest of the earlier step, starting from the memory live at the failure.
class Replay {
 public:
  Replay(const History& history, const Step& failed, const Alignment& alignment,
         std::uint64_t requested_bytes, const Sizes& sizes)
      : history_(history), failed_(failed), alignment_(alignment), sizes_(sizes) {
    for (const Part& part : live_at(history, failed)) {
      (part.scales ? scaling_ : fixed_) += part.bytes;
      live_.emplace(part.row, part);
    }
    const auto& made = history.made();
    for (const Pair& pair : alignment.pairs) twins_.emplace(made[pair.before].row, pair.now);
    rest_end_ = alignment.step.last;
    for (std::size_t at = 0; at < failed.first; ++at) {
      if (at < alignment.step.first || at >= alignment.step.last) places_.insert(made[at].place);
    }
    const Made& anchor = made[alignment.anchor];
    request_ = Part{anchor.row, requested_bytes, anchor.scales};
  }

  // Whether the two steps keep the same memory, apart from a small share of the bytes.
  bool keeps_the_same() const {
    const auto& made = history_.made();
    const std::uint32_t now = failed_.end, before = made[alignment_.anchor].born;
    std::uint64_t kept = 0, other = 0;
    for (const Pair& pair : alignment_.pairs) {
      const bool is_kept = made[pair.before].died > before;
      const bool is_live = made[pair.now].died > now;
      if (is_kept) kept += made[pair.now].bytes;
      if (is_kept != is_live) other += made[pair.now].bytes;
    }
    return static_cast<double>(other) <= kMostOther * static_cast<double>(kept);
  }

  // Shortens the rest so that it ends at the first allocation of backward or the optimizer.
  void leave_out_backward() {
    const auto& made = history_.made();
    for (std::size_t at = alignment_.anchor; at < alignment_.step.last; ++at) {
      const model::Phase phase = birth(made[at]).phase;
      if (phase != model::Phase::kBackward && phase != model::Phase::kOptimizer) continue;
      rest_end_ = at;
      return;
    }
  }

  Need run() {
    Replay again = *this;
    Need need;
    const std::size_t peak = replay(need, made_of_rest());
    Need until_peak;
    again.replay(until_peak, peak);
    for (const auto& each : again.live_) need.parts.push_back(each.second);
    for (const auto& each : again.added_) need.parts.push_back(each.second);
    return need;
  }

 private:
  const model::Site& birth(const Made& made) const {
    return history_.trace().birth(history_.device(), made.row);
  }
  bool is_of_state(const Made& made) const {
    const model::Trace& trace = history_.trace();
    return trace.strings[trace.category(history_.device(), made.row)] == model::kOptimizerState;
  }

  std::size_t made_of_rest() const { return rest_end_ - alignment_.anchor; }

  // Replays the first `count` allocations of the rest; returns how many of them lead to the peak.
  std::size_t replay(Need& need, std::size_t count) {
    add(request_);
    note(need);
    const auto& made = history_.made();
    const auto deaths = deaths_of_rest();
    auto death = deaths.begin();
    std::size_t peak = 1;
    for (std::size_t at = alignment_.anchor + 1; at < alignment_.anchor + count; ++at) {
      for (; death != deaths.end() && death->first < made[at].born; ++death) remove(death->second);
      if (is_made_once(made[at])) continue;
      add({made[at].row, sizes_.of(at), made[at].scales});
      if (note(need)) peak = at - alignment_.anchor + 1;
      if (is_of_state(made[at])) need.state_bytes += made[at].bytes;
    }
    return peak;
  }

  // Whether one step makes this memory and later ones reuse it, such as workspaces and optimizer
  // state.
  bool is_made_once(const Made& made) const {
    return made.died > failed_.end && !places_.contains(made.place);
  }

  // Deaths in the rest of the earlier step: event and row of the lifetimes, by event.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> deaths_of_rest() const {
    const model::DeviceTrace& device = history_.device();
    const std::uint32_t from = history_.made()[alignment_.anchor].born;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> deaths;
    for (std::uint32_t row = 0; row < device.lifetimes.size(); ++row) {
      const std::uint32_t died =
          model::death(device.lifetimes, row, model::default_liveness(device));
      if (died != model::kNone && died > from && died < alignment_.step.end) {
        deaths.emplace_back(died, row);
      }
    }
    std::ranges::sort(deaths);
    return deaths;
  }

  void add(const Part& part) {
    (part.scales ? scaling_ : fixed_) += part.bytes;
    added_[part.row] = part;
    added_[part.row].is_rest = true;
  }

  void remove(std::uint32_t row) {
    if (const auto added = added_.find(row); added != added_.end()) return erase(added_, added);
    if (const auto twin = twins_.find(row); twin != twins_.end()) {
      const auto live = live_.find(history_.made()[twin->second].row);
      if (live != live_.end()) erase(live_, live);
      return;
    }
    const std::uint32_t born = history_.device().lifetimes.alloc[row];
    if (born != model::kNone && born >= alignment_.step.begin) return;  // only the earlier step's
    release_older(row);
  }

  // Handles memory that the earlier step frees although it is older than that step, such as the
  // gradients of the step before it. In the failed step, an older block of the same size and
  // category is freed instead.
  void release_older(std::uint32_t row) {
    const model::Trace& trace = history_.trace();
    const model::DeviceTrace& device = history_.device();
    if (older_.empty()) {
      for (const auto& [live, part] : live_) {
        const std::uint32_t born = device.lifetimes.alloc[live];
        if (born == model::kNone || born < failed_.begin) older_[part.bytes].push_back(live);
      }
    }
    const std::string_view category = trace.strings[trace.category(device, row)];
    const auto same_size = older_.find(trace.lifetime_bytes(device, row));
    if (same_size == older_.end()) return;
    auto& rows = same_size->second;
    const auto same = std::ranges::find_if(rows, [&](std::uint32_t other) {
      return trace.strings[trace.category(device, other)] == category;
    });
    if (same == rows.end()) return;
    erase(live_, live_.find(*same));
    rows.erase(same);
  }

  using Parts = std::unordered_map<std::uint32_t, Part>;
  void erase(Parts& parts, Parts::iterator part) {
    (part->second.scales ? scaling_ : fixed_) -= part->second.bytes;
    parts.erase(part);
  }

  // Returns true at a new peak.
  bool note(Need& need) const {
    need.points.push_back({fixed_, scaling_});
    if (fixed_ + scaling_ <= need.bytes) return false;
    need.bytes = fixed_ + scaling_;
    return true;
  }

  const History& history_;
  const Step failed_;
  const Alignment& alignment_;
  const Sizes& sizes_;
  Part request_;
  std::size_t rest_end_ = 0;
  std::uint64_t fixed_ = 0, scaling_ = 0;
  std::unordered_set<std::uint64_t> places_;              // of all other earlier steps
  Parts live_;                                            // at the failure, by row
  Parts added_;                                           // by the rest, by row of the earlier step
  std::unordered_map<std::uint32_t, std::size_t> twins_;  // by row of the earlier step
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> older_;  // rows by bytes
};

Need unknown(std::string why) {
  Need need;
  need.basis = "unknown";
  need.why_unknown = std::move(why);
  return need;
}

// The innermost line of the user's program outside any forward; empty if there is none.
std::string caller_of(const model::UserLines& lines, model::StackId stack) {
  std::string caller = lines.caller(stack);
  if (caller.empty() && lines.why(stack) == model::NoLine::kHasLine) return lines.label(stack);
  return caller;
}

// Fills in the caller if no earlier step called the model from there.
void find_new_caller(const History& history, const Step& failed, std::uint32_t event, Need& need) {
  const model::UserLines& lines = history.lines();
  const model::Trace& trace = history.trace();
  const model::DeviceTrace& device = history.device();
  const auto& made = history.made();
  const model::Site& site = trace.site(device, event);
  const bool is_of_model = site.layer != model::StringId{} || !lines.caller(site.stack).empty();
  std::string caller = caller_of(lines, site.stack);
  if (!is_of_model || caller.empty() || site.phase == model::Phase::kBackward) return;
  std::vector<char> is_of_caller(trace.stacks.stack_count(), 2);  // 2: not known yet
  const auto is_same = [&](const Made& each) {
    const model::StackId stack = trace.birth(device, each.row).stack;
    char& known = is_of_caller[stack.index()];
    if (known == 2) known = caller_of(lines, stack) == caller ? 1 : 0;
    return known == 1;
  };
  for (std::size_t at = 0; at < failed.first; ++at) {
    if (is_same(made[at])) return;
  }
  for (std::size_t at = failed.first; at < failed.last; ++at) {
    const bool is_held = made[at].died > event && made[at].scales;
    if (is_held && is_same(made[at])) need.caller_bytes += made[at].bytes;
  }
  need.new_caller = std::move(caller);
}

Need need_of_first_step(const History& history, const Step& failed, const Failure& failure) {
  Need need = need_of_optimizer(history, failure, failed.begin);
  if (!need.is_known()) return need;
  const std::uint64_t live = sum_of(live_at(history, failed));
  need.bytes = std::max(need.bytes, peak_so_far(history, failed, live));
  return need;
}

Need need_by_alignment(const History& history, const Step& failed, const Failure& failure,
                       std::uint64_t place, bool is_new_call) {
  const std::vector<Step> earlier = history.steps_before(failed.begin);
  const auto alignment = align(history, failed, place, earlier);
  if (!alignment) {
    Need need = need_of_first_step(history, failed, failure);
    if (need.is_known()) return need;
    return unknown("the earlier steps of this recording differ from the failed step");
  }
  const Sizes sizes(history, *alignment, failure.requested_bytes, earlier);
  Replay replay(history, failed, *alignment, failure.requested_bytes, sizes);
  if (!replay.keeps_the_same()) {
    return unknown("the failed step does not keep the same memory as the earlier ones");
  }
  if (is_new_call) replay.leave_out_backward();
  Need need = replay.run();
  need.basis = is_new_call ? "earlier_forward" : "earlier_step";
  need.ratio = sizes.ratio();
  need.counterpart = alignment->anchor;
  need.earlier = alignment->step;
  const std::uint64_t live = sum_of(live_at(history, failed));
  need.bytes = std::max(need.bytes, peak_so_far(history, failed, live));
  return need;
}

}  // namespace

Need estimate_need(const History& history, const Failure& failure) {
  const Step failed = history.step_of(failure.event);
  const model::Site& site = history.trace().site(history.device(), failure.event);
  const std::vector<Step> earlier = history.steps_before(failed.begin);
  if (earlier.empty()) {
    Need need = need_of_first_step(history, failed, failure);
    return need.is_known() ? need : unknown("no earlier step of this recording completed");
  }
  Need called;
  find_new_caller(history, failed, failure.event, called);
  const bool is_new_call = !called.new_caller.empty();
  Need need = need_by_alignment(history, failed, failure, history.place_of(site), is_new_call);
  need.new_caller = std::move(called.new_caller);
  need.caller_bytes = called.caller_bytes;
  return need;
}

}  // namespace plimsoll::analysis::oom

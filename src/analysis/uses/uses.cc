#include "analysis/uses/uses.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analysis/evidence/buffers.h"
#include "analysis/evidence/spans.h"
#include "analysis/uses/sentence.h"
#include "analysis/whatif/whatif.h"
#include "base/hash.h"
#include "model/categories.h"
#include "model/group_names.h"
#include "model/last_use.h"
#include "model/live_allocations.h"
#include "model/live_set.h"

namespace plimsoll::analysis::uses {
namespace {

using model::kNone;
using report::UnusedKind;
using report::UnusedRow;

// A line with a thousandth of the peak changes no decision.
constexpr std::uint64_t kLeastPartOfPeak = 1000;
constexpr std::size_t kLifetimesPerProgress = std::size_t{1} << 16U;

// Reports progress over the lifetimes of a device; false after an interruption.
bool continues(base::Progress& progress, std::size_t row, std::size_t count) {
  if (row % kLifetimesPerProgress == 0) progress.advance("uses", row, count);
  return !progress.interrupted();
}

// The places that allocate, as far as their memory has one purpose: allocations of the same line by
// the same operator, in backward or not.
class Places {
 public:
  Places(const model::Trace& trace, const model::UserLines& lines) : of_site_(trace.sites.size()) {
    std::unordered_map<Key, std::uint32_t, Hash> ids;
    for (std::uint32_t id = 0; id < of_site_.size(); ++id) {
      const model::Site& site = trace.sites[model::SiteId{id}];
      const bool is_in_backward = site.phase == model::Phase::kBackward;
      const Key key{lines.line(site.stack).value, site.op.value << 1u | (is_in_backward ? 1u : 0u)};
      of_site_[id] = ids.try_emplace(key, static_cast<std::uint32_t>(ids.size())).first->second;
    }
    count_ = ids.size();
  }
  std::uint32_t of(const model::DeviceTrace& device, std::size_t lifetime) const {
    const std::uint32_t born = device.lifetimes.alloc[lifetime];
    return of_site_[born == kNone ? 0 : device.events.site[born].index()];
  }
  std::size_t count() const { return count_; }

 private:
  struct Key {
    std::uint32_t line = 0, rest = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const {
      return base::hash_u64(std::uint64_t{key.line} << 32u | key.rest);
    }
  };
  std::vector<std::uint32_t> of_site_;
  std::size_t count_ = 0;
};

// Whether there are allocations outside the spans in which uses are observed.
bool is_sampled(const model::Trace& trace, const model::DeviceTrace& device,
                const evidence::Spans& spans) {
  const auto marks_of = [&](model::MarkKind kind) {
    return evidence::marks_of(trace, device, kind);
  };
  if (marks_of(model::MarkKind::kUsesBegin).size() > 1) return true;
  const auto ends = marks_of(model::MarkKind::kUsesEnd);
  const auto all = static_cast<std::uint32_t>(device.events.size());
  return !ends.empty() && spans.allocations(ends.back(), all) > 0;
}

// An allocation that is live at the peak and that no operator uses again.
struct Unused {
  std::uint32_t lifetime = 0;
  std::uint32_t place = 0;
  model::LineId line;
  std::uint64_t size_bytes = 0;
  UnusedKind kind = UnusedKind::kLocal;
  bool is_certain = false;
};

class DeviceUses {
 public:
  DeviceUses(const PassContext& context, const model::DeviceTrace& device, std::uint32_t peak)
      : trace_(context.trace),
        progress_(context.progress),
        lines_(context.lines),
        device_(device),
        peak_(peak),
        uses_(trace_, device),
        places_(trace_, context.lines),
        spans_(trace_, device),
        step_(spans_.allocations_per_step()) {}

  // Unfinished if the progress is interrupted.
  report::LastUse find() {
    find_unused();
    find_longest_gaps();
    for (Unused& each : unused_) each.is_certain = is_silent(each.lifetime);
    count_of_place_.resize(places_.count());
    for (const Unused& each : unused_) ++count_of_place_[each.place];
    for (Unused& each : unused_) each.kind = kind_of(each);
    add_rows();
    add_replays();
    found_.is_sampled = is_sampled(trace_, device_, spans_);
    found_.is_all_used = is_all_used(found_);
    found_.text = sentence(found_, at_end_bytes_);
    return std::move(found_);
  }

 private:
  void find_unused() {
    const model::AllocationKeys keys(trace_, device_, lines_);
    for (const std::uint32_t row :
         live_set(device_, model::default_liveness(device_), std::int64_t{peak_})) {
      const std::uint64_t size = trace_.lifetime_bytes(device_, row);
      found_.live_bytes += size;
      const model::UsedAgain again = uses_.used_again(row, peak_);
      if (again == model::UsedAgain::kUnknown) found_.unknown_bytes += size;
      if (again != model::UsedAgain::kNo) continue;
      found_.unused_bytes += size;
      const std::uint32_t died = death(device_.lifetimes, row, model::default_liveness(device_));
      if (died == kNone) at_end_bytes_ += size;
      unused_.push_back({row, places_.of(device_, row), keys.line(row), size});
    }
  }

  // Only a use ends a gap: what a pool has not used for this long may still be used again.
  void find_longest_gaps() {
    longest_gap_.resize(places_.count());
    for (std::size_t row = 0; row < device_.lifetimes.size(); ++row) {
      if (!continues(progress_, row, device_.lifetimes.size())) return;
      if (device_.lifetimes.use_gap[row] == 0) continue;
      std::uint64_t& longest = longest_gap_[places_.of(device_, row)];
      longest = std::max(longest, device_.lifetimes.use(row).gap_bound());
    }
  }
  bool is_silent(std::size_t lifetime) const {
    const std::uint32_t place = places_.of(device_, lifetime);
    return device_.lifetimes.silence[lifetime] > longest_gap_[place] && !is_read_later(place);
  }
  // Whether something of this place was used again after more than two steps: the program may read
  // the rest at any time, too. Half of a bound is exceeded.
  bool is_read_later(std::uint32_t place) const {
    return step_ && longest_gap_[place] / 2 > 2 * *step_;
  }

  UnusedKind kind_of(const Unused& unused) const {
    if (trace_.strings[trace_.category(device_, unused.lifetime)] == model::kGradient) {
      return UnusedKind::kGradients;
    }
    const std::uint64_t silence =
        spans_.allocations(device_.lifetimes.unused_from[unused.lifetime], peak_ + 1);
    // Without steps, a place that retains several allocations counts.
    const bool is_kept =
        step_ ? silence > 2 * *step_ && !is_read_later(unused.place)
              : unused.is_certain && count_of_place_[unused.place] >= evidence::kFewest;
    if (is_kept) return UnusedKind::kKept;
    const bool is_of_forward =
        trace_.birth(device_, unused.lifetime).phase == model::Phase::kForward;
    const std::size_t running = spans_.backward_at(peak_);
    const bool is_older =
        running < spans_.backwards().size() &&
        device_.lifetimes.alloc[unused.lifetime] < spans_.backwards()[running].begin;
    return is_of_forward && is_older ? UnusedKind::kOutputInBackward : UnusedKind::kLocal;
  }

  using Rows = std::map<std::pair<std::uint32_t, UnusedKind>, UnusedRow>;  // by line and kind

  void add_rows() {
    Rows rows;
    for (const Unused& each : unused_) {
      UnusedRow& row = rows[{each.line.value, each.kind}];
      row.kind = each.kind;
      row.bytes += each.size_bytes;
      ++row.count;
      if (each.is_certain) row.certain_bytes += each.size_bytes;
    }
    const std::uint64_t least = found_.live_bytes / kLeastPartOfPeak;
    std::erase_if(rows, [&](const auto& row) { return row.second.bytes < least; });
    for (auto& [key, row] : rows) {
      row.line = model::line_name(lines_, model::LineId{key.first});
    }
    mark_bounded(rows);
    is_advised_.resize(places_.count());
    is_kept_.resize(places_.count());
    for (const Unused& each : unused_) {
      const auto row = rows.find({each.line.value, each.kind});
      if (row == rows.end() || row->second.is_bounded) continue;
      if (row->second.certain_bytes >= std::max<std::uint64_t>(least, 1) && each.is_certain) {
        is_advised_[each.place] = true;
      }
      if (each.kind != UnusedKind::kKept || row->second.count < evidence::kFewest) continue;
      is_kept_[each.place] = true;
      found_.kept_bytes += each.size_bytes;
    }
    for (auto& [key, row] : rows) found_.rows.push_back(std::move(row));
    std::ranges::stable_sort(found_.rows, std::ranges::greater{}, &UnusedRow::bytes);
  }

  // A row is bounded if the allocations of its line that outlive their last use fill a buffer of
  // constant length.
  void mark_bounded(Rows& rows) const {
    std::vector<std::vector<std::uint32_t>> lines_of_place(places_.count());  // those of kept rows
    for (const Unused& each : unused_) {
      if (each.kind != UnusedKind::kKept || !rows.contains({each.line.value, each.kind})) continue;
      std::vector<std::uint32_t>& lines = lines_of_place[each.place];
      const bool is_listed = std::ranges::find(lines, each.line.value) != lines.end();
      if (!is_listed) lines.push_back(each.line.value);
    }
    std::unordered_map<std::uint32_t, std::vector<evidence::Entry>> entries;  // by line
    const model::Lifetimes& lifetimes = device_.lifetimes;
    for (std::uint32_t row = lifetimes.baseline_count; row < lifetimes.size(); ++row) {
      if (!continues(progress_, row, lifetimes.size())) return;
      const std::vector<std::uint32_t>& lines = lines_of_place[places_.of(device_, row)];
      if (lines.empty()) continue;
      const bool is_long = step_ ? lifetimes.silence[row] > 2 * *step_ : is_silent(row);
      const std::uint32_t died = death(lifetimes, row, model::default_liveness(device_));
      if (!is_long && died != kNone) continue;
      for (const std::uint32_t line : lines) entries[line].push_back({lifetimes.alloc[row], died});
    }
    for (const auto& [line, list] : entries) {
      if (!evidence::is_bounded_buffer(list)) continue;
      rows.at({line, UnusedKind::kKept}).is_bounded = true;
      // Its newest entries.
      const auto local = rows.find({line, UnusedKind::kLocal});
      if (local != rows.end()) local->second.is_bounded = true;
    }
  }

  void add_replays() {
    const whatif::Replay replay(trace_, device_);
    // The peak if what the chosen places allocate is freed at its last use.
    const auto peak_if = [&](auto&& is_chosen) {
      return replay.peak_if([&](std::uint32_t row) {
        if (!continues(progress_, row, device_.lifetimes.size()) ||
            !is_chosen(places_.of(device_, row)))
          return whatif::Absence{};
        return whatif::Absence{uses_.freeable(row), kNone};
      });
    };
    const auto saving = [&](const std::vector<bool>& places) {
      return replay.peak_bytes() - peak_if([&](std::uint32_t place) { return places[place]; });
    };
    found_.reachable_peak_bytes = peak_if([](std::uint32_t) { return true; });
    if (found_.unused_bytes == 0) return;
    found_.certain_saving_bytes = saving(is_advised_);
    found_.kept_saving_bytes = found_.kept_bytes == 0 ? 0 : saving(is_kept_);
  }

  const model::Trace& trace_;
  base::Progress& progress_;
  const model::UserLines& lines_;
  const model::DeviceTrace& device_;
  std::uint32_t peak_;
  model::LastUses uses_;
  Places places_;
  evidence::Spans spans_;
  std::optional<std::uint64_t> step_;  // its allocations
  std::vector<Unused> unused_;
  std::uint64_t at_end_bytes_ = 0;             // of unused_, live when the recording ends
  std::vector<std::uint64_t> longest_gap_;     // by place, in allocations
  std::vector<std::uint32_t> count_of_place_;  // of unused_
  std::vector<bool> is_advised_, is_kept_;     // by place
  report::LastUse found_;
};

class UsesPass final : public Pass {
 public:
  const char* name() const override { return "uses"; }
  std::span<const char* const> depends_on() const override {
    static constexpr const char* kNames[] = {"timeline"};
    return kNames;
  }
  OptionSet uses() const override { return OptionSet::kDevice; }
  void clear(report::Report& report) const override {
    for (report::DeviceReport& device : report.devices) device.last_use.reset();
  }
  Status run(PassContext& context) const override {
    if (!context.trace.has_uses) return {};
    for (std::size_t i = 0; i < context.trace.devices.size(); ++i) {
      const model::DeviceTrace& device = context.trace.devices[i];
      report::DeviceReport& totals = context.report.devices[i];
      if (context.options.device && device.device != *context.options.device) continue;
      const std::optional<std::uint64_t> peak = totals.live_totals().peak_event;
      if (!peak || totals.has_unknown_peak()) continue;
      report::LastUse found = DeviceUses(context, device, static_cast<std::uint32_t>(*peak)).find();
      if (context.progress.interrupted()) return {};
      totals.last_use = std::move(found);
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<Pass> make() { return std::make_unique<UsesPass>(); }

}  // namespace plimsoll::analysis::uses

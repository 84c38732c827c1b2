#include "analysis/digest/digest.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/digest/keys.h"
#include "analysis/digest/modules.h"
#include "analysis/digest/points.h"
#include "analysis/holders/edits.h"
#include "analysis/holders/holders.h"
#include "analysis/holders/reported.h"
#include "analysis/live_bytes.h"
#include "analysis/replay.h"
#include "base/check.h"
#include "base/units.h"
#include "model/live_set.h"
#include "model/steps.h"

namespace plimsoll::analysis::digest {
namespace {

using model::StringId;
using report::DigestInstance;
using report::DigestRow;

constexpr std::size_t kMostHolders = 4;      // of a row
constexpr std::uint64_t kNegligible = 1000;  // keys without rows have at least a 1000th of the peak

// The allocations of a key at a point.
struct Members {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::map<std::uint32_t, std::pair<std::int64_t, std::uint64_t>> layers;  // bytes, count
  std::uint64_t largest_bytes = 0;
  StringId shape;                        // of the largest one
  std::vector<std::uint32_t> lifetimes;  // if the recorder looked for holders
};

// The first of the most frequent values in order of value.
template <typename Counts>
auto commonest(const Counts& counts) {
  return std::ranges::max_element(counts, {}, [](const auto& each) { return each.second; })->first;
}

// "1 × file_cut: The recording has no end (...)", for each diagnostic of missing data; nullopt if
// there is none.
std::optional<std::string> what_is_missing(const report::Source& source) {
  std::string text;
  for (const report::DiagnosticReport& each : source.diagnostics) {
    if (!each.is_incomplete) continue;
    std::string meaning = each.help.substr(0, each.help.find(". "));
    if (meaning.ends_with('.')) meaning.pop_back();
    text += (text.empty() ? "" : "; ") + base::format_count(each.count) + " \u00d7 " + each.name +
            ": " + meaning;
    if (!each.example.empty()) text += " (" + each.example + ")";
  }
  return text.empty() ? std::nullopt : std::optional(std::move(text));
}

class DeviceDigest {
 public:
  DeviceDigest(PassContext& context, std::size_t device, const Repetitions& repetitions)
      : trace_(context.trace),
        device_(context.trace.devices[device]),
        totals_(context.report.devices[device]),
        lines_(context.lines),
        out_(context.report.digest),
        keys_(trace_, device_, lines_, repetitions, out_.keys),
        index_(trace_),
        first_key_(out_.keys.size()) {}

  void fill(Modules& modules) {
    const std::vector<Point> points = find_digest_points(trace_, device_, totals_);
    add_most_bytes();
    for (const Point& point : points) add_point(point);
    remove_small_keys();
    for (std::uint32_t layer = 1; layer < keys_.layers().size(); ++layer) {
      modules.add(keys_.layers().path(model::LayerId{layer}));
    }
  }

 private:
  void add_point(const Point& point) {
    std::map<std::uint32_t, Members> members;
    std::uint64_t live_bytes = 0;
    for (const auto& live : model::live_allocations(trace_, device_, lines_, point.event)) {
      const KeyedLayer key = keys_.of(live);
      add(live, key.layer, members[key.key]);
      live_bytes += live.size_bytes;
    }
    const std::int64_t total = live_bytes_at(device_, totals_, point.event);
    const auto unexplained =
        static_cast<std::int64_t>(static_cast<std::uint64_t>(total) - live_bytes);
    std::vector<DigestRow> rows;
    for (const auto& [key, each] : members) rows.push_back(row_of(key, each));
    if (unexplained != 0) {
      rows.push_back({.key = keys_.unexplained(), .bytes = unexplained});
      rows.back().instance_bytes = unexplained;
    }
    std::uint64_t sum = 0;
    for (DigestRow& row : rows) {
      row.point = out_.points.size();
      sum += static_cast<std::uint64_t>(row.bytes);
    }
    PLIMSOLL_CHECK(sum == static_cast<std::uint64_t>(total));
    out_.points.push_back(describe(point, total));
    std::ranges::move(rows, std::back_inserter(out_.rows));
  }

  // How much of each key was live at once: what it allocates, wherever the points are.
  void add_most_bytes() {
    struct Site {
      std::uint64_t bytes = 0;
      std::uint64_t most_bytes = 0;
    };
    const model::AllocationKeys allocations(trace_, device_, lines_);
    const auto liveness = model::default_liveness(device_);
    std::vector<Site> sites;
    std::vector<std::uint32_t> site_of(device_.lifetimes.size());
    std::uint64_t total = 0;
    std::uint64_t peak = 0;
    const auto begin = [&](std::uint32_t row) {
      site_of[row] = keys_.of(allocations.all(row)).key;
      if (site_of[row] >= sites.size()) sites.resize(site_of[row] + 1);
      Site& site = sites[site_of[row]];
      site.bytes += trace_.lifetime_bytes(device_, row);
      site.most_bytes = std::max(site.most_bytes, site.bytes);
      total += trace_.lifetime_bytes(device_, row);
      peak = std::max(peak, total);
    };
    for (std::uint32_t row = 0; row < device_.lifetimes.baseline_count; ++row) {
      if (model::is_live(device_.lifetimes, row, liveness, model::kBeforeFirst)) begin(row);
    }
    replay(
        device_, liveness, [&](std::uint32_t row, std::uint32_t) { begin(row); },
        [&](std::uint32_t row, std::uint32_t) {
          sites[site_of[row]].bytes -= trace_.lifetime_bytes(device_, row);
          total -= trace_.lifetime_bytes(device_, row);
        });
    for (std::size_t key = 0; key < sites.size(); ++key) {
      if (sites[key].most_bytes == 0) continue;
      out_.keys[key].most_bytes = static_cast<std::int64_t>(sites[key].most_bytes);
    }
    least_most_bytes_ = static_cast<std::int64_t>(peak / kNegligible);
  }

  // Removes the keys of this device that have no row and few bytes.
  void remove_small_keys() {
    std::vector<bool> has_row(out_.keys.size());
    for (const DigestRow& row : out_.rows) has_row[row.key] = true;
    std::vector<std::uint64_t> place(out_.keys.size());
    std::vector<report::DigestKey> kept;
    for (std::size_t key = 0; key < place.size(); ++key) {
      place[key] = kept.size();
      const bool is_kept =
          key < first_key_ || has_row[key] ||
          out_.keys[key].most_bytes.value_or(0) >= std::max<std::int64_t>(least_most_bytes_, 1);
      if (is_kept) kept.push_back(std::move(out_.keys[key]));
    }
    for (DigestRow& row : out_.rows) row.key = place[row.key];
    out_.keys = std::move(kept);
  }

  void add(const model::LiveAllocation& live, model::LayerId layer, Members& to) const {
    const StringId shape = trace_.tensors[device_.lifetimes.tensor[live.lifetime].index()].shape;
    if (live.size_bytes > to.largest_bytes) {
      to.largest_bytes = live.size_bytes;
      to.shape = shape;
    }
    if (device_.lifetimes.holder.present()) to.lifetimes.push_back(live.lifetime);
    to.bytes += live.size_bytes;
    ++to.count;
    auto& [bytes, count] = to.layers[layer.value];
    bytes += static_cast<std::int64_t>(live.size_bytes);
    ++count;
  }

  DigestRow row_of(std::uint32_t key, const Members& members) const {
    DigestRow row;
    row.key = key;
    row.bytes = static_cast<std::int64_t>(members.bytes);
    row.count = members.count;
    row.largest_bytes = members.largest_bytes;
    row.shape = trace_.strings[members.shape];
    row.instances = members.layers.size();
    std::map<std::pair<std::int64_t, std::uint64_t>, std::uint64_t> kinds;
    for (const auto& [layer, held] : members.layers) ++kinds[held];
    const auto usual = commonest(kinds);
    row.instance_bytes = usual.first;
    for (const auto& [layer, held] : members.layers) {
      if (held == usual) continue;
      row.uneven.push_back({keys_.layers().path(model::LayerId{layer}), held.first, held.second});
    }
    std::ranges::sort(row.uneven, {}, &DigestInstance::layer);
    row.holders = holders_of(members.lifetimes);
    return row;
  }

  std::vector<HeldBy> holders_of(std::span<const std::uint32_t> lifetimes) const {
    std::vector<HeldBy> rows;
    if (lifetimes.empty()) return rows;
    for (const holders::Holder& each : holders::holders_of(trace_, index_, device_, lifetimes)) {
      if (rows.size() == kMostHolders) break;
      rows.push_back({holders::as_reported(trace_, each), holders::edit_text(trace_, each)});
      // The class of a root, such as module, says nothing.
      if (trace_.holders.links[each.link].parent == 0) rows.back().holder.type.clear();
    }
    return rows;
  }

  report::DigestPoint describe(const Point& point, std::int64_t bytes) const {
    report::DigestPoint row;
    row.device = to_string(device_.device);
    row.name = point.name;
    row.bytes = bytes;
    if (point.name == "peak" && totals_.last_use) {
      row.unused = {.bytes = static_cast<std::int64_t>(totals_.last_use->unused_bytes),
                    .steps = totals_.last_use->is_sampled ? "some" : "all"};
    }
    if (point.event == model::kBeforeFirst) return row;
    const auto event = static_cast<std::uint32_t>(point.event);
    const auto ends = model::step_ends(trace_, device_);
    const std::size_t step = model::step_of(ends, event);
    if (step < ends.size()) row.step = ends[step].step;
    if (!trace_.has_phases() || device_.events.action[event] != model::Action::kAlloc) return row;
    const model::Site& site = trace_.site(device_, event);
    row.phase = name_of(site.phase);
    row.layer = trace_.strings[site.layer];
    return row;
  }

  const model::Trace& trace_;
  const model::DeviceTrace& device_;
  const report::DeviceReport& totals_;
  const model::UserLines& lines_;
  report::Digest& out_;
  Keys keys_;
  holders::HolderIndex index_;
  std::size_t first_key_ = 0;
  std::int64_t least_most_bytes_ = 0;
};

class DigestPass final : public Pass {
 public:
  const char* name() const override { return "digest"; }
  std::span<const char* const> depends_on() const override {
    static constexpr const char* kNames[] = {"timeline"};
    return kNames;
  }
  std::span<const char* const> runs_after() const override {
    static constexpr const char* kNames[] = {"uses"};
    return kNames;
  }
  OptionSet uses() const override { return OptionSet::kDevice; }
  bool is_only_on_request() const override { return true; }
  void clear(report::Report& report) const override { report.digest = {}; }
  std::string why_not(const model::Trace& trace) const override {
    return trace.oom_messages.empty() ? std::string() : "needs allocations: a text names none";
  }
  Status run(PassContext& context) const override {
    report::Digest& digest = context.report.digest;
    const report::Source& source = context.report.source;
    digest.source = {.path = source.path,
                     .format = source.format,
                     .rank = source.rank,
                     .command = source.command,
                     .python = source.python,
                     .torch = source.torch,
                     .incomplete = what_is_missing(source)};
    const model::Program& program = context.trace.program;
    if (!program.threads.empty()) digest.source.threads = program.threads;
    if (!program.mode.empty()) digest.source.mode = program.mode;
    const auto& walks = context.trace.holders.walks;
    digest.knows_holders =
        !walks.empty() && std::ranges::all_of(walks, [](const model::HolderWalk& walk) {
          return walk.end == PLIMSOLL_WALK_COMPLETE;
        });
    const Repetitions repetitions(context.trace);
    Modules modules(repetitions);
    for (const model::Module& module : context.trace.modules) {
      modules.add(context.trace.strings[module.path], context.trace.strings[module.type],
                  module.parameter_bytes);
    }
    for (std::size_t d = 0; d < context.trace.devices.size(); ++d) {
      const model::DeviceTrace& device = context.trace.devices[d];
      if (context.options.device && device.device != *context.options.device) continue;
      if (context.progress.interrupted()) return {};
      if (device.lifetimes.size() == 0) continue;
      DeviceDigest(context, d, repetitions).fill(modules);
      digest.source.steps =
          std::max<std::uint64_t>(digest.source.steps, step_ends(context.trace, device).size());
    }
    digest.modules = modules.take();
    report::bound_names(digest);
    return {};
  }
};

}  // namespace

std::unique_ptr<Pass> make() { return std::make_unique<DigestPass>(); }

}  // namespace plimsoll::analysis::digest

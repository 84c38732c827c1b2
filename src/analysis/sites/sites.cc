#include "analysis/sites/sites.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <tsl/robin_map.h>

#include "base/hash.h"
#include "model/ids.h"

namespace plimsoll::analysis::sites {
namespace {

using model::kNone;
using model::kNoTime;
using report::SiteRow;

constexpr std::size_t kLifetimesPerProgress = 1 << 20;

// The sums of a line, before its name is needed.
struct SiteSums {
  std::uint64_t allocations = 0;
  std::uint64_t bytes = 0;
  std::uint64_t temporary = 0;
  std::uint64_t temporary_bytes = 0;
  std::uint64_t never_freed = 0;
  std::uint64_t never_freed_bytes = 0;
  std::uint64_t largest_bytes = 0;
  std::uint64_t in_packages = 0;
  double byte_ns = 0;
};

// Finds the size that each of a few lines requests most often. Exact, with memory only for the
// distinct sizes of those lines.
class CommonestSizes {
 public:
  struct Commonest {
    std::uint64_t size_bytes = 0;
    std::uint64_t count = 0;
  };

  explicit CommonestSizes(std::size_t line_count) : best_(line_count) {}

  void add(std::uint32_t line, std::uint64_t size_bytes) { ++counts_[Key{size_bytes, line}]; }

  // The result for each line; of equally frequent sizes, the largest.
  const std::vector<Commonest>& find() {
    for (const auto& [key, count] : counts_) {
      Commonest& best = best_[key.line];
      const bool is_better =
          count > best.count || (count == best.count && key.size_bytes > best.size_bytes);
      if (is_better) best = Commonest{key.size_bytes, count};
    }
    return best_;
  }

 private:
  struct Key {
    std::uint64_t size_bytes;
    std::uint32_t line;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const {
      return base::hash_mix(key.size_bytes ^ 0x9E3779B97F4A7C15u, key.line ^ 0xD6E8FEB86659FD93u);
    }
  };

  tsl::robin_map<Key, std::uint64_t, Hash> counts_;
  std::vector<Commonest> best_;
};

class DeviceSites {
 public:
  DeviceSites(PassContext& context, const model::DeviceTrace& device)
      : context_(context),
        device_(device),
        sizes_(device.events.size_bytes.data()),
        times_(device.events.time_ns.data()),
        sites_(device.events.site.data()) {}

  void append_rows(std::vector<SiteRow>& out) {
    add_up();
    const auto kept = lines_to_keep();
    std::vector<SiteRow> rows = rows_of(kept);
    add_commonest_sizes(kept, rows);
    std::ranges::sort(rows, [](const SiteRow& a, const SiteRow& b) {
      return a.bytes != b.bytes ? a.bytes > b.bytes : a.line < b.line;
    });
    std::ranges::move(rows, std::back_inserter(out));
  }

 private:
  model::StackId stack_of(std::uint32_t born) const {
    return context_.trace.sites[sites_[born]].stack;
  }

  void add_up() {
    sums_.resize(context_.lines.line_count());
    const model::Lifetimes& lifetimes = device_.lifetimes;
    const std::int64_t last_ns = device_.events.size() > 0 ? times_[device_.events.size() - 1] : 0;
    for (std::size_t row = lifetimes.baseline_count; row < lifetimes.size(); ++row) {
      if (row % kLifetimesPerProgress == 0) {
        context_.progress.advance("sites", row, lifetimes.size());
        if (context_.progress.interrupted()) return;
      }
      const std::uint32_t born = lifetimes.alloc[row];
      const std::uint32_t died = lifetimes.free_completed[row];
      const std::uint64_t size = sizes_[born];
      const model::StackId stack = stack_of(born);
      SiteSums& site = sums_[context_.lines.line(stack).index()];
      ++site.allocations;
      if (context_.lines.is_in_package(stack)) ++site.in_packages;
      site.bytes += size;
      site.largest_bytes = std::max(site.largest_bytes, size);
      if (died != kNone && died - born <= SiteRow::kTemporaryEvents) {
        ++site.temporary;
        site.temporary_bytes += size;
      }
      if (died == kNone && lifetimes.free_requested[row] == kNone) {
        ++site.never_freed;
        site.never_freed_bytes += size;
      }
      site.byte_ns += byte_ns(size, times_[born], died == kNone ? last_ns : times_[died]);
    }
  }

  static double byte_ns(std::uint64_t size, std::int64_t born_ns, std::int64_t died_ns) {
    const bool is_known = born_ns != kNoTime && died_ns != kNoTime && died_ns > born_ns;
    if (!is_known) return 0;
    return static_cast<double>(size) *
           (static_cast<double>(died_ns) - static_cast<double>(born_ns));
  }

  // The top lines by each of three measures, without duplicates.
  std::vector<std::uint32_t> lines_to_keep() const {
    std::vector<std::uint32_t> kept;
    for (const auto measure :
         {&SiteSums::bytes, &SiteSums::never_freed_bytes, &SiteSums::temporary}) {
      std::vector<std::uint32_t> lines;
      for (std::uint32_t line = 0; line < sums_.size(); ++line) {
        const bool has_any =
            measure == &SiteSums::bytes ? sums_[line].allocations > 0 : sums_[line].*measure > 0;
        if (has_any) lines.push_back(line);
      }
      const std::size_t top = std::min(context_.options.top, lines.size());
      const auto end = lines.begin() + static_cast<std::ptrdiff_t>(top);
      std::partial_sort(lines.begin(), end, lines.end(), [&](std::uint32_t a, std::uint32_t b) {
        const auto left = sums_[a].*measure, right = sums_[b].*measure;
        return left != right ? left > right : a < b;
      });
      kept.insert(kept.end(), lines.begin(), end);
    }
    std::ranges::sort(kept);
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
    return kept;
  }

  std::vector<SiteRow> rows_of(const std::vector<std::uint32_t>& lines) const {
    std::vector<SiteRow> rows;
    for (const std::uint32_t line : lines) {
      const SiteSums& sums = sums_[line];
      SiteRow row;
      row.device = device_.device.ordinal;
      row.line = context_.lines.label(model::LineId{line});
      row.allocations = sums.allocations;
      row.in_packages = sums.in_packages;
      row.bytes = sums.bytes;
      row.temporary = sums.temporary;
      row.temporary_bytes = sums.temporary_bytes;
      row.never_freed = sums.never_freed;
      row.never_freed_bytes = sums.never_freed_bytes;
      row.byte_seconds = sums.byte_ns * 1e-9;
      row.largest_bytes = sums.largest_bytes;
      rows.push_back(std::move(row));
    }
    return rows;
  }

  // A second pass over the lifetimes, so that sizes are counted only for the kept lines.
  void add_commonest_sizes(const std::vector<std::uint32_t>& kept, std::vector<SiteRow>& rows) {
    std::vector<std::uint32_t> place(sums_.size(), kNone);
    for (std::uint32_t i = 0; i < kept.size(); ++i) place[kept[i]] = i;
    CommonestSizes sizes(kept.size());
    const model::Lifetimes& lifetimes = device_.lifetimes;
    for (std::size_t row = lifetimes.baseline_count; row < lifetimes.size(); ++row) {
      const std::uint32_t born = lifetimes.alloc[row];
      const std::uint32_t line = place[context_.lines.line(stack_of(born)).index()];
      if (line != kNone) sizes.add(line, sizes_[born]);
    }
    const auto& commonest = sizes.find();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i].commonest_size_bytes = commonest[i].size_bytes;
      rows[i].commonest_size_count = commonest[i].count;
    }
  }

  PassContext& context_;
  const model::DeviceTrace& device_;
  const std::uint64_t* sizes_;
  const std::int64_t* times_;
  const model::SiteId* sites_;
  std::vector<SiteSums> sums_;  // by line
};

class SitesPass final : public Pass {
 public:
  const char* name() const override { return "sites"; }
  std::string why_not(const model::Trace& trace) const override {
    return trace.event_count() > 0 ? "" : "needs events: this file has only the final state";
  }
  OptionSet uses() const override { return OptionSet::kDevice | OptionSet::kTop; }
  void clear(report::Report& report) const override { report.tables.sites.clear(); }
  Status run(PassContext& context) const override {
    for (const model::DeviceTrace& device : context.trace.devices) {
      if (context.options.device && device.device != *context.options.device) continue;
      DeviceSites(context, device).append_rows(context.report.tables.sites);
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<Pass> make() { return std::make_unique<SitesPass>(); }

}  // namespace plimsoll::analysis::sites

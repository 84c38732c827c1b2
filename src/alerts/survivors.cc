#include "alerts/survivors.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "alerts/stairs.h"
#include "base/hash.h"
#include "sample/live_rows.h"

namespace plimsoll::alerts {
namespace {

using base::Category;

constexpr std::size_t kMostSites = 256;
// Slower growth counts once it has left this much behind.
constexpr std::uint64_t kLeastLeftBehind = std::uint64_t{1} << 20;
// A site that leaves less behind is not worth naming, and judging it is the most expensive part.
constexpr double kLeastToName = base::kLeastGrowthPerStep / 64;
constexpr std::size_t kIndexSize = 1024;  // few lookups collide with another site
SiteKey site_of(const plimsoll_live& row) {
  return {.layer = row.layer,
          .op = row.outer_op,
          .device = row.device,
          .category = sample::category_of(row)};
}

bool is_of_model(const SiteKey& key) {
  return key.category == Category::kParameter || key.category == Category::kBuffer ||
         key.category == Category::kGradient || key.category == Category::kOptimizerState;
}

SiteKey whole_of(const SiteKey& key) {
  return {.device = key.device, .category = key.category, .is_whole = true};
}

std::size_t place_of(const SiteKey& key) {
  const std::uint64_t names = std::uint64_t{key.layer} << 32 | key.op;
  const std::uint64_t rest = std::uint64_t{key.device} << 16 |
                             std::uint64_t{static_cast<std::uint8_t>(key.category)} << 1 |
                             std::uint64_t{key.is_whole};
  return base::hash_u64(names ^ rest << 40) & (kIndexSize - 1);
}

template <typename Value>
void merge_pairs(std::vector<Value>& by_sample) {
  const std::size_t count = by_sample.size();
  for (std::size_t i = 0; 2 * i < count; ++i) {
    by_sample[i] = by_sample[2 * i];
    if (2 * i + 1 < count) by_sample[i] += by_sample[2 * i + 1];
  }
  by_sample.resize((count + 1) / 2);
}

// Drops the first value of each pair.
template <typename Value>
void keep_every_second(std::vector<Value>& samples) {
  for (std::size_t i = 0; 2 * i + 1 < samples.size(); ++i) samples[i] = samples[2 * i + 1];
  samples.resize(samples.size() / 2);
}

template <typename Value>
void merge_oldest(std::vector<Value>& by_sample) {
  if (by_sample.size() < 2) return;
  by_sample[1] += by_sample[0];
  by_sample.erase(by_sample.begin());
}

template <typename Value>
Value sum(std::span<const Value> values) {
  return std::accumulate(values.begin(), values.end(), Value{0});
}

}  // namespace

void BirthHistory::make_room() {
  const bool merges = when_full_ == WhenFull::kMergePairs;
  for (Site& site : sites_) {
    if (merges) {
      keep_every_second(site.samples);
      for (Counts& counts : site.samples) merge_pairs(counts);
    } else {
      site.samples.erase(site.samples.begin());
      for (Counts& counts : site.samples) merge_oldest(counts);
    }
  }
  if (merges) {
    keep_every_second(iterations_);
    keep_every_second(serial_ends_);
    merged_ *= 2;
    waiting_ = 1;
  } else {
    iterations_.erase(iterations_.begin());
    serial_ends_.erase(serial_ends_.begin());
  }
}

bool BirthHistory::add(std::int64_t iteration, std::span<const plimsoll_live> rows) {
  if (++waiting_ < merged_) return false;
  if (iterations_.size() == most_) {
    make_room();
    if (merged_ > 1) return false;
  }
  waiting_ = 0;
  begin_sample(iteration, rows);
  find_new_sites(rows);
  begin_counts();
  count(rows);
  return true;
}

void BirthHistory::begin_sample(std::int64_t iteration, std::span<const plimsoll_live> rows) {
  std::uint64_t end = serial_ends_.empty() ? 0 : serial_ends_.back();
  for (const plimsoll_live& row : rows) end = std::max(end, row.serial + 1);
  iterations_.push_back(iteration);
  serial_ends_.push_back(end);
}

std::size_t BirthHistory::sample_of(const plimsoll_live& row) const {
  if (row.serial < serial_ends_.front()) return 0;
  return static_cast<std::size_t>(std::ranges::upper_bound(serial_ends_, row.serial) -
                                  serial_ends_.begin());
}

// Allocations made after the first sample that were live at two more.
void BirthHistory::find_new_sites(std::span<const plimsoll_live> rows) {
  if (iterations_.size() < 4) return;
  const std::uint64_t begin = serial_ends_.front();
  const std::uint64_t end = serial_ends_[serial_ends_.size() - 3];
  if (sites_.size() == kMostSites) forget_idle_sites();
  for (const plimsoll_live& row : rows) {
    if (sites_.size() == kMostSites) return;
    if (row.serial < begin || row.serial >= end) continue;
    const SiteKey key = site_of(row);
    if (find(key) != nullptr) continue;
    // A category is added before its sites, because there may be too many sites to track.
    if (find(whole_of(key)) == nullptr) add_site(whole_of(key));
    if (sites_.size() < kMostSites) add_site(key);
  }
}

// Most rows belong to the model, made before the first sample; most of the others leave nothing
// behind.
void BirthHistory::count(std::span<const plimsoll_live> rows) {
  if (sites_.empty()) return;
  for (const plimsoll_live& row : rows) {
    const SiteKey key = site_of(row);
    Site* const site = find(key);
    Site* const whole = find(whole_of(key));
    if (whole == nullptr) continue;
    const std::size_t sample = sample_of(row);
    for (Site* const each : {site, whole}) {
      if (each == nullptr) continue;
      each->samples.back()[sample] += 1;
      each->bytes[sample] += static_cast<std::int64_t>(row.size_bytes);
    }
  }
  // Allocations of a new site from before the first sample are assumed to have stayed.
  for (Site& site : sites_) {
    const std::size_t newest = site.samples.size() - 1;
    for (std::size_t at = 0; at < newest; ++at) {
      if (site.is_new) site.samples[at].front() = site.samples.back().front();
    }
    site.is_new = false;
  }
}

// A new site had no survivors at earlier samples.
void BirthHistory::begin_counts() {
  const std::size_t samples = iterations_.size();
  for (Site& site : sites_) {
    while (site.samples.size() < samples) site.samples.emplace_back(site.samples.size() + 1);
    site.bytes.assign(samples, 0);
  }
}

BirthHistory::Site* BirthHistory::find(const SiteKey& key) {
  if (index_.empty()) return nullptr;
  for (std::size_t i = place_of(key); index_[i] != 0; i = (i + 1) & (kIndexSize - 1)) {
    Site& site = sites_[index_[i] - 1];
    if (site.key == key) return &site;
  }
  return nullptr;
}

void BirthHistory::add_site(const SiteKey& key) {
  sites_.push_back({.key = key, .samples = {}, .bytes = {}});
  index_sites();
}

void BirthHistory::forget_idle_sites() {
  std::erase_if(sites_, [](const Site& site) {
    return !site.key.is_whole && sum(std::span(site.samples.back()).subspan(1)) == 0;
  });
  index_sites();
}

void BirthHistory::index_sites() {
  index_.assign(kIndexSize, 0);
  for (std::size_t i = 0; i < sites_.size(); ++i) {
    std::size_t place = place_of(sites_[i].key);
    while (index_[place] != 0) place = (place + 1) & (kIndexSize - 1);
    index_[place] = static_cast<std::uint16_t>(i + 1);
  }
}

std::optional<LeftBehind> BirthHistory::growth_of(const Site& site) const {
  if (auto steady = steady_growth_of(site)) return steady;
  return growth_in_jumps_of(site);
}

std::optional<LeftBehind> BirthHistory::steady_growth_of(const Site& site) const {
  const std::size_t samples = iterations_.size();
  const auto [warm_up, of_age] = base::ages_of(samples);
  const std::size_t last = samples - of_age - 1;
  const auto counted = std::span(site.bytes).subspan(warm_up, last + 1 - warm_up);
  LeftBehind left{.site = site.key,
                  .bytes = static_cast<std::uint64_t>(sum<std::int64_t>(counted)),
                  .first_iteration = iterations_[warm_up - 1],
                  .last_iteration = iterations_[last],
                  .live_at_iteration = iterations_.back(),
                  .samples = samples * merged_};
  left.bytes_per_iteration = static_cast<double>(left.bytes) /
                             static_cast<double>(left.last_iteration - left.first_iteration);
  if (left.bytes_per_iteration < kLeastToName) return std::nullopt;
  const Counts& newest = site.samples.back();
  const std::vector<std::int64_t> counts(newest.begin(), newest.end());
  std::vector<std::int64_t> aged(samples);
  for (std::size_t at = of_age + 1; at < samples; ++at) {
    aged[at] = sum(std::span(site.samples[at]).subspan(1, at - of_age));
  }
  const auto first = [&](std::size_t sample) {
    return static_cast<std::int64_t>(site.samples[sample].front());
  };
  const auto growth =
      base::growth_of({.born_counts = counts,
                       .born_bytes = site.bytes,
                       .aged_counts = aged,
                       .retired = std::max<std::int64_t>(first(warm_up) - first(samples - 1), 0),
                       .continues = true});
  if (!growth || (left.samples < kManySamples && !growth->is_in_each_step)) return std::nullopt;
  // A model may get new parts in a few stages (a head for each task), or use its experts late.
  // Merged samples do not show the steps in between.
  const bool is_in_stages = merged_ > 1 || growth->birth_steps * 2 <= growth->compared_steps;
  if (is_in_stages && is_of_model(site.key)) return std::nullopt;
  left.allocations = growth->survivors;
  return left;
}

std::optional<LeftBehind> BirthHistory::growth_in_jumps_of(const Site& site) const {
  // Late in a run, a cache that is nearly full gets new entries as rarely as a jump.
  if (when_full_ == WhenFull::kForgetOldest) return std::nullopt;
  if (is_of_model(site.key)) return std::nullopt;  // it may get new parts in a few stages
  const auto stairs =
      stairs_of(site.samples, site.bytes, merged_ > 1 ? Samples::kMerged : Samples::kEach);
  if (!stairs) return std::nullopt;
  // The jump of a sample happened after the sample before.
  const std::int64_t first = iterations_[stairs->first_sample - 1];
  const std::int64_t last_jump = iterations_[stairs->last_jump - 1];
  return LeftBehind{.site = site.key,
                    .bytes = static_cast<std::uint64_t>(stairs->bytes),
                    .allocations = stairs->survivors,
                    .first_iteration = first,
                    .last_iteration = iterations_[stairs->last_sample],
                    .live_at_iteration = iterations_.back(),
                    .samples = iterations_.size() * merged_,
                    .jumps = stairs->jumps,
                    .bytes_per_iteration = static_cast<double>(stairs->later_bytes) /
                                           static_cast<double>(last_jump - first)};
}

std::vector<LeftBehind> BirthHistory::growing() const {
  std::vector<LeftBehind> growing;
  if (!is_known()) return growing;
  for (const Site& site : sites_) {
    if (const auto left = growth_of(site)) growing.push_back(*left);
  }
  std::ranges::sort(growing, [](const LeftBehind& a, const LeftBehind& b) {
    if (a.bytes_per_iteration != b.bytes_per_iteration) {
      return a.bytes_per_iteration > b.bytes_per_iteration;
    }
    return std::pair(a.site.layer, a.site.op) < std::pair(b.site.layer, b.site.op);
  });
  return growing;
}

// ---- the categories that grow -----------------------------------------------------------------

namespace {

bool is_enough(const LeftBehind& left) {
  return left.bytes_per_iteration >= base::kLeastGrowthPerStep || left.bytes >= kLeastLeftBehind;
}

// Returns a history's judgment of one category of a device. `growing` is sorted.
std::optional<CategoryGrowth> category_growth(std::span<const LeftBehind> growing,
                                              const SiteKey& whole) {
  CategoryGrowth found{.category = std::string(name_of(whole.category)), .all = {}, .sites = {}};
  LeftBehind of_sites;
  for (const LeftBehind& left : growing) {
    if (whole_of(left.site) != whole) continue;
    if (left.site.is_whole) {
      found.all = left;
      continue;
    }
    found.sites.push_back(left);
    if (!is_enough(left)) continue;
    const LeftBehind before = std::exchange(of_sites, left);
    of_sites.bytes += before.bytes;
    of_sites.allocations += before.allocations;
    of_sites.bytes_per_iteration += before.bytes_per_iteration;
  }
  if (!is_enough(found.all)) found.all = of_sites;
  if (!is_enough(found.all)) return std::nullopt;
  return found;
}

}  // namespace

void Survivors::observe(std::int64_t iteration, std::span<const plimsoll_live> rows,
                        std::span<const plimsoll_usage> devices) {
  if (iteration_ && iteration == *iteration_) return;
  if (iteration_ && iteration < *iteration_) *this = Survivors(growth_percent_);
  iteration_ = iteration;
  for (const plimsoll_usage& device : devices) {
    devices_.insert_or_assign(sample::device_name(device), device.device);
  }
  if (whole_.add(iteration, rows)) of_whole_run_ = whole_.growing();
  newest_.add(iteration, rows);
  of_newest_ = newest_.growing();
}

// A queue that is small for the device may take as long to fill as the detection takes, and slow
// growth is only worth a warning if memory that is not growing is not much larger.
bool Survivors::is_large_enough(const LeftBehind& left, std::uint64_t live_bytes) const {
  const bool is_fast = left.bytes_per_iteration >= base::kLeastGrowthPerStep;
  if (is_fast && left.samples >= kManySamples) return true;
  const auto grown = static_cast<double>(left.bytes);
  const double before = static_cast<double>(live_bytes) - grown;
  return before <= 0 || 100 * grown >= growth_percent_ * before;
}

std::vector<CategoryGrowth> Survivors::growing_on(const std::string& device,
                                                  std::uint64_t live_bytes) const {
  std::vector<CategoryGrowth> growing;
  const auto known = devices_.find(device);
  if (known == devices_.end()) return growing;
  for (std::size_t category = 0; category < base::kCategoryNames.size(); ++category) {
    const SiteKey whole{
        .device = known->second, .category = static_cast<Category>(category), .is_whole = true};
    auto found = category_growth(of_whole_run_, whole);
    if (!found) found = category_growth(of_newest_, whole);
    if (found && is_large_enough(found->all, live_bytes)) growing.push_back(std::move(*found));
  }
  return growing;
}

}  // namespace plimsoll::alerts

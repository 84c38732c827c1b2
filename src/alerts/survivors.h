// Growth by survivors while the program runs: the rule of base/growth_rule.h, with samples as its
// steps, and that of stairs.h.
//
// Allocations have ascending numbers, so the highest number at each sample divides them by the
// samples between which they were made. Allocations cost nothing extra; a sample walks over
// everything live.
//
// A site is the layer and outermost operator of an allocation, and its category. Two histories are
// judged: the whole run, whose samples are merged in pairs when there are 64, and the newest 32
// samples, for growth that begins late. Memory: at most 12 KiB for a site that retains anything for
// two samples, and at most 256 sites and categories of devices. Use it on one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/categories.h"
#include "base/growth_rule.h"
#include "plimsoll/memory_sample.h"
#include "plimsoll/monitor.h"
#include "plimsoll/recorder_c.h"

namespace plimsoll::alerts {

// A cache that fills more and more slowly looks like a leak at first, with gaps. Growth over fewer
// samples than this counts only if each of them left something behind, or regular jumps did.
inline constexpr std::size_t kManySamples = 96;

struct SiteKey {
  std::uint32_t layer = 0;  // name ids, 0: none
  std::uint32_t op = 0;
  std::uint8_t device = 0;
  base::Category category = base::Category::kOther;
  bool is_whole = false;  // the total of the category on the device

  friend bool operator==(const SiteKey&, const SiteKey&) = default;
};

// The survivors of a site: allocations made between two samples, and live at the newest one.
struct LeftBehind {
  SiteKey site;
  std::uint64_t bytes = 0;
  std::uint64_t allocations = 0;
  std::int64_t first_iteration = 0;  // allocated after it
  std::int64_t last_iteration = 0;   // and no later than it
  std::int64_t live_at_iteration = 0;
  std::size_t samples = 0;  // number of samples judged
  std::size_t jumps = 0;    // if it grows in jumps (stairs.h), else 0
  double bytes_per_iteration = 0;
};

// The live allocations of each site at some samples, by the samples between which they were made.
class BirthHistory {
 public:
  enum class WhenFull : std::uint8_t { kMergePairs, kForgetOldest };
  BirthHistory(std::size_t most_samples, std::size_t fewest_samples, WhenFull when_full)
      : most_(most_samples), fewest_(fewest_samples), when_full_(when_full) {}

  // Returns whether the sample is kept. Other samples are merged with the next one.
  bool add(std::int64_t iteration, std::span<const plimsoll_live> rows);
  bool is_known() const { return iterations_.size() >= fewest_; }
  // The sites that grow, however slowly; steepest first.
  std::vector<LeftBehind> growing() const;

 private:
  using Counts = std::vector<std::uint32_t>;  // by the sample before which they were made
  struct Site {
    SiteKey key;
    std::vector<Counts> samples;
    std::vector<std::int64_t> bytes;  // at the newest sample
    bool is_new = true;               // whether its first survivors are in the newest sample
  };

  void make_room();
  void begin_sample(std::int64_t iteration, std::span<const plimsoll_live> rows);
  std::size_t sample_of(const plimsoll_live& row) const;
  void find_new_sites(std::span<const plimsoll_live> rows);
  void begin_counts();
  void count(std::span<const plimsoll_live> rows);
  Site* find(const SiteKey& key);
  void add_site(const SiteKey& key);
  void forget_idle_sites();
  void index_sites();
  std::optional<LeftBehind> growth_of(const Site& site) const;
  std::optional<LeftBehind> steady_growth_of(const Site& site) const;
  std::optional<LeftBehind> growth_in_jumps_of(const Site& site) const;

  std::size_t most_;
  std::size_t fewest_;
  WhenFull when_full_;
  std::vector<std::int64_t> iterations_;    // of the samples
  std::vector<std::uint64_t> serial_ends_;  // for each sample: allocations from this number on are
                                            // newer
  std::size_t merged_ = 1;                  // number of samples merged into one
  std::size_t waiting_ = 0;                 // samples since the newest one that is kept
  std::vector<Site> sites_;
  std::vector<std::uint16_t> index_;  // of the sites, by hash; 1 + position, or 0
};

// A category of a device that grows.
struct CategoryGrowth {
  std::string category;
  LeftBehind all;
  std::vector<LeftBehind> sites;  // its growing sites, steepest first
};

class Survivors {
 public:
  // `growth_percent`: growth below this share of the other live memory does not count, unless it
  // is fast and many samples show it.
  explicit Survivors(double growth_percent = 10) : growth_percent_(growth_percent) {}

  // `devices` are the recorded ones. An iteration counts only once; a lower one starts a new run.
  void observe(std::int64_t iteration, std::span<const plimsoll_live> rows,
               std::span<const plimsoll_usage> devices);
  bool knows(const std::string& device) const { return devices_.contains(device); }
  // Whether there are enough samples to judge.
  bool is_known_on(const std::string& device) const { return knows(device) && whole_.is_known(); }
  // `live_bytes`: on the device, at the newest sample.
  std::vector<CategoryGrowth> growing_on(const std::string& device, std::uint64_t live_bytes) const;

 private:
  static constexpr std::size_t kMostSamples = 64;
  static constexpr std::size_t kNewest = 32;

  bool is_large_enough(const LeftBehind& left, std::uint64_t live_bytes) const;

  double growth_percent_;
  std::optional<std::int64_t> iteration_;
  BirthHistory whole_{kMostSamples, base::kFewestGrowthSamples,
                      BirthHistory::WhenFull::kMergePairs};
  BirthHistory newest_{kNewest, kNewest, BirthHistory::WhenFull::kForgetOldest};
  std::unordered_map<std::string, std::uint8_t> devices_;
  std::vector<LeftBehind> of_whole_run_;
  std::vector<LeftBehind> of_newest_;
};

}  // namespace plimsoll::alerts

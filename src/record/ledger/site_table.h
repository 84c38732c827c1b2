// The sites of all events so far, interned for the life of the process. Used only by the drain.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/hash.h"
#include "format/records.h"
#include "record/ledger/id_index.h"

namespace plimsoll::record {

class SiteTable {
 public:
  explicit SiteTable(std::size_t limit = 1u << 21) : limit_(limit) {}

  // May throw std::bad_alloc. Beyond the limit a site loses its stack, then everything but its
  // device and phase, and finally becomes 0.
  std::uint32_t id(const format::Site& site) {
    const std::uint64_t hash = hash_of(site);
    const std::uint32_t known = find(site, hash);
    if (known != 0) return known;
    return sites_.size() < limit_ ? add(site, hash) : less_exact(site);
  }

  std::size_t size() const { return sites_.size(); }
  const format::Site& operator[](std::uint32_t id) const { return sites_[id - 1]; }
  std::uint64_t refused() const { return refused_; }

 private:
  static std::uint64_t hash_of(const format::Site& site) {
    const std::uint64_t a = std::uint64_t{site.layer} << 32 | site.outer_op;
    const std::uint64_t b = std::uint64_t{site.inner_op} << 32 | site.forward_op;
    const std::uint64_t c = std::uint64_t{site.stack} << 32 | std::uint64_t{site.autograd} << 16 |
                            std::uint64_t{site.phase} << 8 | site.device;
    const std::uint64_t d = site.stream ^ std::uint64_t{site.pool} << 48;
    return base::hash_u64(base::hash_mix(a ^ 0xA0761D6478BD642Fu, b ^ 0xE7037ED1A0B428DBu) ^ c ^
                          d * 0x9E3779B97F4A7C15u);
  }
  std::uint32_t find(const format::Site& site, std::uint64_t hash) const {
    return index_.find(hash, [&](std::uint32_t id) { return sites_[id - 1] == site; });
  }
  std::uint32_t add(const format::Site& site, std::uint64_t hash) {
    index_.reserve_one();
    sites_.push_back(site);
    const auto id = static_cast<std::uint32_t>(sites_.size());
    index_.insert(hash, id);
    return id;
  }
  std::uint32_t less_exact(format::Site site) {
    ++refused_;
    site.stack = 0;
    const std::uint32_t without_stack = find(site, hash_of(site));
    if (without_stack != 0) return without_stack;
    site = {0, 0, 0, 0, 0, site.phase, site.device};
    const std::uint64_t hash = hash_of(site);
    const std::uint32_t bare = find(site, hash);
    if (bare != 0) return bare;
    return sites_.size() < limit_ + kSpare ? add(site, hash) : 0;
  }

  static constexpr std::size_t kSpare = 4096;  // for bare sites: 16 phases on 256 devices

  const std::size_t limit_;
  std::vector<format::Site> sites_;  // by id - 1
  IdIndex index_;
  std::uint64_t refused_ = 0;
};

}  // namespace plimsoll::record

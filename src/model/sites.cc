#include "model/sites.h"

#include <array>

#include "base/hash.h"

namespace plimsoll::model {
namespace {

template <typename High, typename Low>
std::uint64_t both(High high, Low low) {
  return std::uint64_t{high.value} << 32 | low.value;
}

std::uint64_t hash_of(const Site& site) {
  const StringId state{static_cast<unsigned>(site.autograd) << 8 |
                       static_cast<unsigned>(site.phase)};
  const std::array words{both(site.stack, site.layer), both(site.op, site.inner_op),
                         both(site.forward_op, site.category), both(site.stream, site.pool),
                         both(site.compile_context, state)};
  return base::hash_bytes(words.data(), sizeof words);
}

template <typename Field>
void keep(Field& some, Field value) {
  if (value != Field{}) some = value;
}

}  // namespace

SiteTable::SiteTable() {
  const Site nowhere;
  set_.insert(hash_of(nowhere), 0, [](std::uint32_t) { return std::uint64_t{0}; });
  rows_.push_back(nowhere);
}

SiteId SiteTable::intern_another(const Site& site) {
  const std::uint64_t hash = hash_of(site);
  const std::uint32_t known =
      set_.find(hash, [&](std::uint32_t row) { return rows_[row] == site; });
  if (known != kNone) return last_ = SiteId{known};
  last_ = SiteId{static_cast<std::uint32_t>(rows_.size())};
  set_.insert(hash, last_.value, [&](std::uint32_t row) { return hash_of(rows_[row]); });
  rows_.push_back(site);
  keep(some_.stack, site.stack);
  keep(some_.stream, site.stream);
  keep(some_.pool, site.pool);
  keep(some_.category, site.category);
  keep(some_.op, site.op);
  keep(some_.inner_op, site.inner_op);
  keep(some_.forward_op, site.forward_op);
  keep(some_.layer, site.layer);
  keep(some_.compile_context, site.compile_context);
  keep(some_.phase, site.phase);
  keep(some_.autograd, site.autograd);
  return last_;
}

}  // namespace plimsoll::model

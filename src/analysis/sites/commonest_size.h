// Finds the size that each of a few lines requests most often. Exact, with memory only for the
// distinct sizes of those lines.
#pragma once

#include <cstdint>
#include <vector>

#include <tsl/robin_map.h>

#include "base/hash.h"

namespace plimsoll::analysis::sites {

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

}  // namespace plimsoll::analysis::sites

// SerialIndex maps an allocation's serial number to its index among the allocations of the file.
// Serials ascend, mostly by one: only the others (allocations live at the start) need a map.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <tsl/robin_map.h>

#include "base/column.h"
#include "base/hash.h"

namespace plimsoll::readers::native {

class SerialIndex {
 public:
  static constexpr std::uint32_t kNotSeen = ~std::uint32_t{0};

  // Adds the next allocation of the file, which has this serial.
  void add(std::uint64_t serial) {
    const std::uint32_t index = count_++;
    const std::uint64_t next = run_.first + run_.length;
    if (serial == next && index - run_.index == run_.length) {
      ++run_.length;
    } else if (index == 0 || serial >= next) {
      if (run_.length > 0) runs_.push_back(run_);
      run_ = Run{serial, index, 1};
    } else {
      strays_.insert_or_assign(serial, index);
    }
  }

  std::uint32_t find(std::uint64_t serial) const {
    if (serial - run_.first < run_.length) return index_in(run_, serial);
    if (!strays_.empty()) {
      if (const auto found = strays_.find(serial); found != strays_.end()) return found->second;
    }
    const Run* const run = std::ranges::upper_bound(runs_, serial, {}, &Run::first);
    if (run == runs_.begin() || serial - run[-1].first >= run[-1].length) return kNotSeen;
    return index_in(run[-1], serial);
  }

  std::uint32_t count() const { return count_; }
  std::size_t memory_bytes() const {
    return runs_.memory_bytes() + strays_.bucket_count() * kStrayBytes;
  }

 private:
  struct Run {
    std::uint64_t first = 0;  // first serial
    std::uint32_t index = 0;  // its index
    std::uint32_t length = 0;
  };
  struct Hash {
    std::size_t operator()(std::uint64_t serial) const { return base::hash_u64(serial); }
  };
  static constexpr std::size_t kStrayBytes = 24;

  static std::uint32_t index_in(const Run& run, std::uint64_t serial) {
    return run.index + static_cast<std::uint32_t>(serial - run.first);
  }

  Run run_;                 // the last one
  base::Column<Run> runs_;  // earlier runs, by serial
  tsl::robin_map<std::uint64_t, std::uint32_t, Hash> strays_;
  std::uint32_t count_ = 0;
};

}  // namespace plimsoll::readers::native

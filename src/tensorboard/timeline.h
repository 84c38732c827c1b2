// The memory of a run over time, as its samples have it: what the image "Memory/timeline" shows.
// Bounded: when there are kMostColumns columns, each two neighbors become one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/categories.h"
#include "plimsoll/memory_sample.h"

namespace plimsoll::tensorboard {

struct TimelineColumn {
  std::int64_t iteration = 0;  // of its first sample; ascends from column to column
  // Of the sample with the most live bytes. By base::Category; they sum to it.
  std::uint64_t live_bytes = 0;
  std::array<std::uint64_t, base::kCategoryNames.size()> category_bytes{};
  // The highest values; 0: unknown.
  std::uint64_t reserved_bytes = 0;
  std::uint64_t peak_bytes = 0;  // between two samples
  std::int64_t peak_iteration = 0;
};

class Timeline {
 public:
  static constexpr std::size_t kMostColumns = 512;

  // The accelerators together, or the CPU if there are none. Columns from before the first
  // accelerator was used are dropped.
  void add(const MemorySample& sample);

  const std::vector<TimelineColumn>& columns() const { return columns_; }
  std::int64_t last_iteration() const { return last_iteration_; }
  const std::string& devices() const { return devices_; }  // "cuda:0", "2 devices", "cpu"

 private:
  std::vector<TimelineColumn> columns_;
  std::uint64_t samples_per_column_ = 1;
  std::uint64_t samples_in_last_ = 0;
  std::int64_t last_iteration_ = 0;
  std::string devices_;
  bool has_accelerators_ = false;
};

}  // namespace plimsoll::tensorboard

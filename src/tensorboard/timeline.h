// The memory of a run over time, from its samples, for the image "Memory/timeline". Bounded: at
// kMostColumns columns, each pair of neighbors becomes one.
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
  // The memory of the sample with the most live bytes, by base::Category; the categories sum to
  // live_bytes.
  std::uint64_t live_bytes = 0;
  std::array<std::uint64_t, base::kCategoryNames.size()> category_bytes{};
  // The highest values among the samples; 0: unknown.
  std::uint64_t reserved_bytes = 0;
  std::uint64_t peak_bytes = 0;  // between two samples
  std::int64_t peak_iteration = 0;
};

class Timeline {
 public:
  static constexpr std::size_t kMostColumns = 512;

  // Adds the accelerators together, or the CPU if there are none. When an accelerator is first
  // used, earlier columns are dropped.
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

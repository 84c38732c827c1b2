// HistoryAttribution: attributes the allocations of one device's history, as far as a recording of
// the same run allows.
//
//   by tensor  the recording saw a tensor at the allocation's address during its life
//   by time    else, by the last activity before the allocation, on the thread that reported it
//
// Otherwise the allocation stays unknown. Strings, stacks and tensors are rows of the recording's
// tables.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/column.h"
#include "model/trace.h"
#include "readers/side_data.h"

namespace plimsoll::attribution {

struct Attribution {
  enum class How : std::uint8_t { kNot, kByTime, kByTensor };

  How how = How::kNot;
  std::string_view category;  // from model/categories.h; empty: unknown
  model::Site site;           // where it was allocated
  model::TensorId tensor;
  model::LifetimeFlags flags = model::LifetimeFlags::kNothing;
};

// The program's activity over time.
class Timeline {
 public:
  Timeline(const model::Trace& recorded, const base::Column<readers::ThreadActivity>& activities);

  static constexpr std::size_t kNothing = ~std::size_t{0};
  // The last activity before a time, or kNothing.
  std::size_t before(std::int64_t time_ns) const;
  const readers::ThreadActivity& operator[](std::size_t row) const { return activities_[row]; }
  bool reports_operators() const { return reports_operators_; }
  // Whether `time_ns` falls within the operator that runs at `row`.
  bool is_in_op(std::size_t row, std::int64_t time_ns) const;
  // Whether `to_ns` falls within the step that was running at `from_ns`; false if `to_ns` is never.
  bool is_in_step(std::int64_t from_ns, std::int64_t to_ns) const;
  // Whether the first backward after `from_ns` begins before `to_ns`.
  bool has_backward(std::int64_t from_ns, std::int64_t to_ns) const;

 private:
  std::vector<readers::ThreadActivity> activities_;  // in order of time
  std::vector<std::int64_t> ends_ns_;                // for each: the time of the next activity on
                                                     // its thread
  std::vector<std::int64_t> backwards_ns_;
  std::vector<std::int64_t> steps_ns_;
  bool reports_operators_ = false;
};

// Returns one attribution per lifetime of the history's device. `tensors` is the same device in the
// recording; null if the recording saw no tensor on it.
std::vector<Attribution> attribute_history(const model::Trace& history,
                                           const model::DeviceTrace& device,
                                           const model::Trace& recorded,
                                           const model::DeviceTrace* tensors,
                                           const Timeline& timeline);

}  // namespace plimsoll::attribution

// HistoryAttribution: what the allocations of one device's history belong to, as far as a recording
// of the same run can tell.
//
//   by tensor  the recording met a tensor at the allocation's address while it lived
//   by time    else, what the program was doing when it was made (the thread that told last)
//
// What neither tells stays unknown. Words, stacks and tensors are rows of the recording's tables.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/column.h"
#include "model/trace.h"
#include "readers/beside.h"

namespace plimsoll::engine {

struct Attribution {
  enum class How : std::uint8_t { kNot, kByTime, kByTensor };

  How how = How::kNot;
  std::string_view category;  // as of model/categories.h; empty: unknown
  model::Site site;           // where it was made
  model::TensorId tensor;
  model::LifetimeFlags flags = model::LifetimeFlags::kNothing;
};

// What the program was doing, by time.
class Timeline {
 public:
  Timeline(const model::Trace& recorded, const base::Column<readers::Doing>& doings);

  static constexpr std::size_t kNothing = ~std::size_t{0};
  // The last thing that was told before; kNothing: there is none.
  std::size_t before(std::int64_t time_ns) const;
  const readers::Doing& operator[](std::size_t row) const { return doings_[row]; }
  bool tells_operators() const { return tells_operators_; }
  // Whether `time_ns` is within the operator that runs at `row`.
  bool is_in_op(std::size_t row, std::int64_t time_ns) const;
  // Whether the first backward after `from_ns` begins before `to_ns`.
  bool has_backward(std::int64_t from_ns, std::int64_t to_ns) const;

 private:
  std::vector<readers::Doing> doings_;  // by time
  std::vector<std::int64_t> ends_ns_;   // of each: when its thread told the next
  std::vector<std::int64_t> backwards_ns_;
  bool tells_operators_ = false;
};

// One for each lifetime of the history's device. `tensors` is the same device in the recording,
// null where it met none there.
std::vector<Attribution> attribute_history(const model::Trace& history,
                                           const model::DeviceTrace& device,
                                           const model::Trace& recorded,
                                           const model::DeviceTrace* tensors,
                                           const Timeline& timeline);

}  // namespace plimsoll::engine

// Groups by integer id, and the few that become rows of a table: the largest, plus one row for the
// rest, so that a table always sums to all live bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/ids.h"
#include "report/tables.h"

namespace plimsoll::analysis {

class Groups {
 public:
  struct Group {
    std::uint32_t id = 0;
    std::uint64_t bytes = 0;
    std::uint64_t count = 0;
    std::uint64_t largest_bytes = 0;
  };

  explicit Groups(std::size_t id_count) : slots_(id_count, model::kNone) {}

  void add(std::uint32_t id, std::uint64_t size_bytes) {
    std::uint32_t& slot = slots_[id];
    if (slot == model::kNone) {
      slot = static_cast<std::uint32_t>(groups_.size());
      groups_.push_back(Group{id, 0, 0, 0});
    }
    Group& group = groups_[slot];
    group.bytes += size_bytes;
    ++group.count;
    if (size_bytes > group.largest_bytes) group.largest_bytes = size_bytes;
  }

  std::vector<Group> take() { return std::move(groups_); }

 private:
  std::vector<std::uint32_t> slots_;  // by id
  std::vector<Group> groups_;
};

// Fills in the text of a kept row: its key and, for by_stack, its frames.
using Describe = std::function<void(std::uint32_t id, report::GroupRow& row)>;

// Appends the `top` largest groups, by bytes and then by key, and the rest as one row.
void append_rows(std::vector<Groups::Group> groups, std::size_t top,
                 const report::PointInTime& point, const Describe& describe,
                 std::vector<report::GroupRow>& out);

}  // namespace plimsoll::analysis

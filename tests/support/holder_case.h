// A trace with the results of a walk for holders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <vector>

#include "model/trace.h"
#include "tests/support/trace_maker.h"

namespace plimsoll::tests {

// Links as an adapter reports them, and allocations of 100 bytes each that they hold.
class HolderCase {
 public:
  std::uint32_t root(plimsoll_link_kind kind, std::string_view name = {},
                     std::string_view file = {}, std::uint32_t line = 0) {
    return link(0, kind, name, {}, file, line);
  }
  std::uint32_t link(std::uint32_t parent, plimsoll_link_kind kind, std::string_view name = {},
                     std::string_view type = {}, std::string_view file = {}, std::uint32_t line = 0,
                     std::uint64_t length = 0, std::uint64_t limit = 0) {
    auto& strings = maker_.builder().strings();
    auto& holders = maker_.builder().holders();
    if (holders.walks.empty()) holders.walks.emplace_back();
    model::HolderLink row;
    row.parent = parent;
    row.kind = kind;
    row.length = length;
    row.limit = limit;
    row.name = strings.intern(name);
    row.type = strings.intern(type);
    row.file = strings.intern(file);
    row.line = line;
    row.walk = static_cast<std::uint32_t>(holders.walks.size() - 1);
    holders.links.push_back(row);
    return static_cast<std::uint32_t>(holders.links.size() - 1);
  }
  // The links that follow are of another walk.
  void begin_walk() { maker_.builder().holders().walks.emplace_back(); }
  void cut(const model::HolderCut& cut) { maker_.builder().holders().cuts.push_back(cut); }
  void hold(std::uint32_t link, std::size_t count) { links_.insert(links_.end(), count, link); }
  void finish() {
    for (std::size_t i = 0; i < links_.size(); ++i) maker_.alloc(1 + i, 100);
    trace = maker_.finish();
    for (std::size_t i = 0; i < links_.size(); ++i) {
      trace.devices.at(0).lifetimes.holder.set(i, links_[i]);
    }
  }
  // All of them.
  std::vector<std::uint32_t> lifetimes() const {
    std::vector<std::uint32_t> all(links_.size());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  model::Trace trace;

 private:
  TraceMaker maker_;
  std::vector<std::uint32_t> links_;
};

}  // namespace plimsoll::tests

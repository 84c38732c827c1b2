// A walk over all objects of the program, from its roots, breadth first. It stores how it first
// reached each object, and counts the references to each. The chains in Python are followed to
// their ends before those through autograd graphs, so that a graph is named as a holder only of
// what nothing in Python reaches.
#pragma once

#include <Python.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "plimsoll/holders_c.h"
#include "python/holders/edges.h"
#include "python/holders/table.h"

namespace plimsoll::libtorch::holders {

// Not less time: a walk of a part of the heap proves nothing, since what it has not met seems to be
// held by native code. One of all objects takes 55 ms of CPU for torch alone (0.2 M objects), 75 ms
// for 0.4 M, 120 ms for 1 M, 275 ms for 2.5 M, 150 ms with 40,000 nodes; several times as much on a
// busy machine. Of the walks that nobody asked for, all after the first take a hundredth of the
// time.
struct Limits {
  std::uint32_t objects = 5'000'000;
  std::uint32_t nodes = 50'000;
  std::chrono::milliseconds time{1500};
};

struct Root {
  plimsoll_link_kind kind = PLIMSOLL_LINK_NATIVE;
  std::string name;
  PyCodeObject* code = nullptr;  // of a frame
  int line = 0;
};

class Walk final : public References {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Walk(const Limits& limits) : limits_(limits) {}

  // Returns false if there is no memory for its table.
  bool open();
  void add_root(const void* address, Kind kind, Root root);
  // Follows all references from what has been added. Returns false if a limit ends it.
  bool run();
  // Adds without following: an object of Plimsoll.
  void block(const void* object, Kind kind);
  // After run(): a value on its way to the caller, which has a reference to it, is no holder.
  void pass(PyObject* value);
  // Follows the references of what has been blocked. What only it reaches is Plimsoll's.
  bool run_blocked();
  // Walks what the collector tracks and no root reaches.
  bool walk_rest();

  Table& table() { return table_; }
  const std::unordered_map<std::uint32_t, Root>& roots() const { return roots_; }
  plimsoll_walk_end end() const { return end_; }
  std::uint64_t objects() const { return objects_; }
  std::uint64_t nodes() const { return nodes_; }
  void end_early(plimsoll_walk_end reason) { end_ = reason; }
  // Whether the time is over; then it ends the walk.
  bool is_late();

  void object(PyObject* target) override { enqueue(target, Kind::kObject); }
  void thing(const void* target, Kind kind) override { enqueue(target, kind); }

 private:
  // References wait here until what they refer to is in the cache.
  struct Waiting {
    const void* target;
    std::uint32_t from;
    Kind kind;
  };
  static constexpr std::uint32_t kWaiting = 32;  // a power of two

  void enqueue(const void* target, Kind kind) {
    __builtin_prefetch(target);
    __builtin_prefetch(static_cast<const char*>(target) + 8);
    table_.prefetch(target);
    waiting_[added_++ % kWaiting] = {target, current_, kind};
    if (added_ - taken_ > kWaiting / 2) {
      table_.prefetch_entry(waiting_[(added_ - kWaiting / 2) % kWaiting].target);
    }
    if (added_ - taken_ == kWaiting) take(waiting_[taken_++ % kWaiting]);
  }
  void take(const Waiting& each);
  void take_all();
  bool follow(std::uint32_t number);

  Limits limits_;
  Table table_;
  std::unordered_map<std::uint32_t, Root> roots_;
  Waiting waiting_[kWaiting]{};
  std::uint32_t added_ = 0, taken_ = 0;
  std::uint32_t current_ = 0;  // whose references are read
  std::uint32_t next_ = 1;     // the next entry to follow, if it is no node
  std::vector<std::uint32_t> pending_nodes_;
  std::vector<std::uint32_t> blocked_;
  std::size_t next_node_ = 0;
  std::uint64_t objects_ = 0, nodes_ = 0;
  plimsoll_walk_end end_ = PLIMSOLL_WALK_COMPLETE;
  Clock::time_point deadline_{};
};

}  // namespace plimsoll::libtorch::holders

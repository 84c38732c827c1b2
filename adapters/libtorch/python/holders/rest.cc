// What the collector tracks and no root reaches: objects that native code retains, and garbage in
// cycles. As the collector does it: an object with more references than the rest itself has to it
// is retained from outside.
#include <Python.h>

#include <algorithm>
#include <cstddef>

#include "python/heap.h"
#include "python/holders/walk.h"

namespace plimsoll::libtorch::holders {
namespace {

// The rest and all that it refers to, with the number of references from inside.
class Rest final : public References {
 public:
  explicit Rest(Table& reached) : reached_(reached) {}

  bool open(std::uint32_t most) { return table_.open(most); }
  // Looks an object up only when its place in the table is in the cache.
  void add(PyObject* object) {
    reached_.prefetch(object);
    waiting_[added_ % kWaiting] = object;
    if (added_ >= kWaiting / 2) {
      reached_.prefetch_entry(waiting_[(added_ - kWaiting / 2) % kWaiting]);
    }
    if (++added_ >= kWaiting) add_now(waiting_[added_ % kWaiting]);
  }
  void add_last() {
    const std::size_t count = std::min<std::size_t>(added_, kWaiting - 1);
    for (std::size_t i = added_ - count; i < added_; ++i) add_now(waiting_[i % kWaiting]);
  }
  bool count_references(Walk& walk) {
    for (std::uint32_t i = 1; i <= table_.size(); ++i) {
      if ((i & 1023U) == 0 && walk.is_late()) return false;
      for_each_reference(Entry(table_[i]), *this);
    }
    return !table_.is_full();
  }
  Table& table() { return table_; }

  void object(PyObject* target) override {
    if (is_walked(target)) count(target, Kind::kObject);
  }
  void thing(const void* target, Kind kind) override { count(target, kind); }

 private:
  static constexpr std::size_t kWaiting = 32;

  void add_now(PyObject* object) {
    if (reached_.find(object) == 0 && is_walked(object)) {
      table_.find_or_add(object, Kind::kObject);
    }
  }
  void count(const void* target, Kind kind) {
    if (reached_.find(target) != 0) return;
    const std::uint32_t number = table_.find_or_add(target, kind);
    if (number != 0) ++table_[number].count;
  }
  Table& reached_;
  Table table_;
  PyObject* waiting_[kWaiting]{};
  std::size_t added_ = 0;
};

bool is_instance(const Entry& entry) {
  if (entry.kind != Kind::kObject) return false;
  auto* object = static_cast<PyObject*>(const_cast<void*>(entry.address));
  return PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE) != 0;
}

}  // namespace

bool Walk::walk_rest() {
  Rest rest(table_);
  if (!rest.open(limits_.objects)) {
    end_ = PLIMSOLL_WALK_MEMORY;
    return false;
  }
  for_each_tracked([&](PyObject* object) { rest.add(object); });
  rest.add_last();
  if (!rest.count_references(*this)) return false;
  Table& table = rest.table();
  const auto walk_from = [&](const Entry& entry, plimsoll_link_kind kind) {
    if (table_.find(entry.address) == 0) add_root(entry.address, entry.kind, {.kind = kind});
  };
  for (std::uint32_t i = 1; i <= table.size(); ++i) {
    const Entry& entry = table[i];
    if (references_to(entry) > entry.count) walk_from(entry, PLIMSOLL_LINK_NATIVE);
  }
  if (!run()) return false;
  for (const bool wants_instances : {true, false}) {
    for (std::uint32_t i = 1; i <= table.size(); ++i) {
      if (wants_instances != is_instance(table[i])) continue;
      walk_from(table[i], PLIMSOLL_LINK_CYCLE);
      if (!run()) return false;
    }
  }
  return true;
}

}  // namespace plimsoll::libtorch::holders

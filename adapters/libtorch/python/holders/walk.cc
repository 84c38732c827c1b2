#include "python/holders/walk.h"

#include <utility>

namespace plimsoll::libtorch::holders {

bool Walk::open() {
  deadline_ = Clock::now() + limits_.time;
  return table_.open(limits_.objects);
}

bool Walk::is_late() {
  if (end_ == PLIMSOLL_WALK_COMPLETE && Clock::now() > deadline_) end_ = PLIMSOLL_WALK_TIME;
  return end_ == PLIMSOLL_WALK_TIME;
}

void Walk::add_root(const void* address, Kind kind, Root root) {
  if (address == nullptr) return;
  if (kind == Kind::kObject && !is_walked(static_cast<PyObject*>(const_cast<void*>(address)))) {
    return;
  }
  const std::uint32_t before = table_.size();
  const std::uint32_t number = table_.find_or_add(address, kind);
  if (number == 0 || table_.size() == before) return;
  Entry& entry = table_[number];
  entry.set(kRoot);
  roots_.emplace(number, std::move(root));
}

void Walk::block(const void* object, Kind kind) {
  const std::uint32_t before = table_.size();
  const std::uint32_t number = object == nullptr ? 0 : table_.find_or_add(object, kind);
  if (number == 0 || table_.size() == before) return;
  table_[number].set(kOwn);
  blocked_.push_back(number);
}

void Walk::pass(PyObject* value) {
  if (value == nullptr) return;
  block(value, Kind::kObject);
  if (const std::uint32_t number = table_.find(value); number != 0) table_[number].set(kPassed);
}

bool Walk::run_blocked() {
  for (const std::uint32_t number : blocked_) {
    if (!follow(number)) return false;
  }
  take_all();
  return run();
}

void Walk::take(const Waiting& each) {
  if (each.kind == Kind::kObject &&
      !is_walked(static_cast<PyObject*>(const_cast<void*>(each.target)))) {
    return;
  }
  const std::uint32_t before = table_.size();
  const std::uint32_t number = table_.find_or_add(each.target, each.kind);
  if (number == 0) return;
  Entry& entry = table_[number];
  ++entry.seen;
  const Entry& from = table_[each.from];
  if (table_.size() > before) {
    entry.parent = each.from;
    entry.flags = from.flags & kOwn;
    if (each.kind == Kind::kNode) pending_nodes_.push_back(number);
  } else if (entry.parent != each.from && from.kind != Kind::kTensor) {
    entry.other = each.from;
  }
}

void Walk::take_all() {
  while (taken_ != added_) take(waiting_[taken_++ % kWaiting]);
}

bool Walk::follow(std::uint32_t number) {
  const Entry& entry = table_[number];
  current_ = number;
  if (entry.kind == Kind::kObject) ++objects_;
  for_each_reference(entry, *this);
  if ((number & 1023U) == 0 && is_late()) return false;
  if (!table_.is_full()) return true;
  end_ = table_.size() < limits_.objects ? PLIMSOLL_WALK_MEMORY : PLIMSOLL_WALK_OBJECTS;
  return false;
}

bool Walk::run() {
  constexpr std::uint32_t kAhead = 6;
  while (end_ == PLIMSOLL_WALK_COMPLETE || end_ == PLIMSOLL_WALK_NODES) {
    for (; next_ <= table_.size(); ++next_) {
      if (next_ + kAhead <= table_.size()) __builtin_prefetch(table_[next_ + kAhead].address);
      const Entry& entry = table_[next_];
      if (entry.kind == Kind::kNode || entry.kind == Kind::kStorage) continue;
      if (entry.has(kOwn) && entry.parent == 0) continue;  // blocked
      if (!follow(next_)) return false;
      if (next_ + kWaiting > table_.size()) take_all();
    }
    take_all();
    if (next_ <= table_.size()) continue;
    if (next_node_ == pending_nodes_.size()) return true;
    if (nodes_ >= limits_.nodes) {
      end_ = PLIMSOLL_WALK_NODES;
      return true;
    }
    ++nodes_;
    if (!follow(pending_nodes_[next_node_++])) return false;
    take_all();
  }
  return end_ == PLIMSOLL_WALK_NODES;
}

}  // namespace plimsoll::libtorch::holders

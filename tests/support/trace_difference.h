// The differences of two traces, except for row numbers in their small tables. For tests that write
// a trace and read it again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "model/trace.h"

namespace plimsoll::tests {

class TraceDifference {
 public:
  // The first difference, as a sentence; empty if there is none.
  static std::string of(const model::Trace& a, const model::Trace& b) {
    TraceDifference difference(a, b);
    difference.devices();
    difference.segments();
    difference.blocks();
    difference.settings();
    difference.annotations();
    return difference.first_;
  }

 private:
  TraceDifference(const model::Trace& a, const model::Trace& b) : a_(a), b_(b) {}

  void expect(bool is_equal, const std::string& what) {
    if (!is_equal && first_.empty()) first_ = what + " differs";
  }
  bool same(model::StringId x, model::StringId y) const { return a_.strings[x] == b_.strings[y]; }
  bool same(model::PoolId x, model::PoolId y) const {
    const bool is_known = x != model::PoolId{} && y != model::PoolId{};
    return is_known ? a_.pools[x.index()] == b_.pools[y.index()] : x == y;
  }
  bool same(model::StreamId x, model::StreamId y) const {
    return a_.streams[x.index()] == b_.streams[y.index()];
  }
  bool same(model::StackId x, model::StackId y) const {
    const auto frames = a_.stacks.frames(x);
    const auto others = b_.stacks.frames(y);
    if ((x == model::kNoStack) != (y == model::kNoStack)) return false;
    if (frames.size() != others.size()) return false;
    for (std::size_t i = 0; i < frames.size(); ++i) {
      if (!same(a_.stacks.frame(frames[i]), b_.stacks.frame(others[i]))) return false;
    }
    return true;
  }
  bool same(const model::Frame& x, const model::Frame& y) const {
    if (!same(x.file, y.file) || !same(x.function, y.function) || x.line != y.line) return false;
    if (x.notes == 0 || y.notes == 0) return x.notes == y.notes;
    const auto& notes = a_.stacks.notes(x.notes);
    const auto& others = b_.stacks.notes(y.notes);
    if (notes.size() != others.size()) return false;
    for (std::size_t i = 0; i < notes.size(); ++i) {
      if (!same(notes[i].first, others[i].first)) return false;
      if (!same(notes[i].second, others[i].second)) return false;
    }
    return true;
  }
  template <typename Id>
  static bool same_rows(const base::Column<Id>& x, const base::Column<Id>& y) {
    return x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin());
  }

  void devices() {
    expect(a_.devices.size() == b_.devices.size(), "the number of devices");
    expect(a_.has_final_state == b_.has_final_state, "has_final_state");
    for (std::size_t d = 0; d < a_.devices.size() && first_.empty(); ++d) {
      const model::DeviceTrace& x = a_.devices[d];
      const model::DeviceTrace& y = b_.devices[d];
      const std::string name = to_string(x.device);
      expect(x.device == y.device, name);
      expect(x.events.size() == y.events.size(), name + ": the number of events");
      expect(x.segment_count == y.segment_count, name + ": the number of segments");
      expect(x.history == y.history, name + ": history");
      expect(same_rows(x.lifetimes.alloc, y.lifetimes.alloc), name + ": lifetimes.alloc");
      expect(same_rows(x.lifetimes.free_completed, y.lifetimes.free_completed),
             name + ": lifetimes.free_completed");
      for (std::size_t row = 0; row < x.lifetimes.size() && first_.empty(); ++row) {
        expect(x.lifetimes.block[row] == y.lifetimes.block[row], name + ": lifetimes.block");
        expect(same(a_.category(x, row), b_.category(y, row)), name + ": category");
      }
      events(x, y);
    }
  }
  void events(const model::DeviceTrace& on_a, const model::DeviceTrace& on_b) {
    for (std::size_t row = 0; row < on_a.events.size() && first_.empty(); ++row) {
      const model::Event x = a_.event(on_a, row);
      const model::Event y = b_.event(on_b, row);
      const std::string event = to_string(on_a.device) + " event " + std::to_string(row);
      expect(x.action == y.action, event + ": action");
      expect(x.address == y.address, event + ": address");
      expect(x.size_bytes == y.size_bytes, event + ": size");
      expect(x.time_ns == y.time_ns, event + ": time");
      expect(same(x.stream, y.stream), event + ": stream");
      expect(same(x.stack, y.stack), event + ": stack");
      expect(same(x.pool, y.pool), event + ": pool");
      expect(same(x.compile_context, y.compile_context), event + ": compile_context");
      expect(same(x.user_metadata, y.user_metadata), event + ": user_metadata");
    }
  }
  void segments() {
    expect(a_.segments.size() == b_.segments.size(), "the number of segments");
    for (std::size_t row = 0; row < a_.segments.size() && first_.empty(); ++row) {
      const model::Segment& x = a_.segments[row];
      const model::Segment& y = b_.segments[row];
      const std::string segment = "segment " + std::to_string(row);
      expect(x.device == y.device && x.address == y.address, segment + ": its place");
      expect(x.total_size == y.total_size && x.allocated_size == y.allocated_size &&
                 x.active_size == y.active_size && x.requested_size == y.requested_size,
             segment + ": sizes");
      expect(same(x.stream, y.stream), segment + ": stream");
      expect(same(x.stack, y.stack), segment + ": stack");
      expect(same(x.pool, y.pool), segment + ": pool");
      expect(x.type == y.type && x.is_expandable == y.is_expandable, segment + ": type");
      expect(x.first_block == y.first_block && x.block_count == y.block_count,
             segment + ": blocks");
    }
  }
  void blocks() {
    expect(a_.blocks.size() == b_.blocks.size(), "the number of blocks");
    for (std::size_t row = 0; row < a_.blocks.size() && first_.empty(); ++row) {
      const model::Block& x = a_.blocks[row];
      const model::Block& y = b_.blocks[row];
      const std::string block = "block " + std::to_string(row);
      expect(x.address == y.address && x.size == y.size, block + ": its place");
      expect(x.requested_size == y.requested_size, block + ": requested size");
      expect(x.state == y.state, block + ": state");
      expect(same(x.stack, y.stack), block + ": stack");
    }
  }
  void settings() {
    expect(a_.has_settings == b_.has_settings, "has_settings");
    expect(a_.settings.size() == b_.settings.size(), "the number of settings");
    for (std::size_t i = 0; i < a_.settings.size() && first_.empty(); ++i) {
      expect(a_.settings[i].name == b_.settings[i].name &&
                 a_.settings[i].value == b_.settings[i].value,
             "setting " + a_.settings[i].name);
    }
  }
  void annotations() {
    expect(a_.annotations.size() == b_.annotations.size(), "the number of annotations");
    for (std::size_t i = 0; i < a_.annotations.size() && first_.empty(); ++i) {
      const model::Annotation& x = a_.annotations[i];
      const model::Annotation& y = b_.annotations[i];
      expect(same(x.name, y.name) && x.device == y.device && x.begin_ns == y.begin_ns &&
                 x.end_ns == y.end_ns,
             "annotation " + std::to_string(i));
    }
  }

  const model::Trace& a_;
  const model::Trace& b_;
  std::string first_;
};

}  // namespace plimsoll::tests

// TraceCopy: copies rows of a finished trace into another trace's builder, with their strings,
// stacks, streams, pools and tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "model/trace.h"
#include "model/trace_builder.h"

namespace plimsoll::attribution {

class TraceCopy {
 public:
  // Both must outlive it.
  TraceCopy(const model::Trace& from, model::TraceBuilder& to);

  model::Event event(const model::DeviceTrace& device, std::size_t row);
  // What is known about a lifetime in hindsight.
  model::Hindsight hindsight(const model::DeviceTrace& device, std::size_t lifetime);
  model::StringId text(model::StringId id);
  model::StackId stack(model::StackId id);
  model::TensorId tensor(model::TensorId id);
  model::StreamId stream(model::StreamId id) { return to_.stream(from_.streams[id.index()]); }
  model::PoolId pool(model::PoolId id);
  // The data of a device other than events: its segments and properties.
  void final_state(const model::DeviceTrace& device);
  // The data that belongs to no device.
  void settings();
  void program();  // its metadata, modules and source
  void annotations();

 private:
  model::FrameId frame(model::FrameId id);

  const model::Trace& from_;
  model::TraceBuilder& to_;
  // Indexed by row in the source: the row in the copy, or kNone.
  std::vector<std::uint32_t> texts_, frames_, stacks_, tensors_;
};

}  // namespace plimsoll::attribution

// TraceCopy: rows of a finished trace into the builder of another one, with its words, stacks,
// streams, pools and tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "model/trace.h"
#include "model/trace_builder.h"

namespace plimsoll::engine {

class TraceCopy {
 public:
  // Both outlive it.
  TraceCopy(const model::Trace& from, model::TraceBuilder& to);

  model::Event event(const model::DeviceTrace& device, std::size_t row);
  // What hindsight shows of a lifetime.
  model::Hindsight hindsight(const model::DeviceTrace& device, std::size_t lifetime);
  model::StringId text(model::StringId id);
  model::StackId stack(model::StackId id);
  model::TensorId tensor(model::TensorId id);
  model::StreamId stream(model::StreamId id) { return to_.stream(from_.streams[id.index()]); }
  model::PoolId pool(model::PoolId id);
  // What stands beside the events of a device: its segments, and what is known of it.
  void final_state(const model::DeviceTrace& device);
  // What belongs to no device.
  void settings();
  void annotations();

 private:
  model::FrameId frame(model::FrameId id);

  const model::Trace& from_;
  model::TraceBuilder& to_;
  // By row there: the row here, or kNone.
  std::vector<std::uint32_t> texts_, frames_, stacks_, tensors_;
};

}  // namespace plimsoll::engine

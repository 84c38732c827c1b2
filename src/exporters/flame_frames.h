// The frames of a stack for a flame graph: root first, without those of the interpreter and the
// recorder, and without the wrappers that torch puts around each call of a module. PyTorch records
// Python and native frames in one stack, and CPython's evaluation loop between any two functions of
// the program would push equal Python frames to different depths and split the graph.
#pragma once

#include <vector>

#include "model/trace.h"

namespace plimsoll::exporters {

class FlameFrames {
 public:
  explicit FlameFrames(const model::Trace& trace);

  // Valid until the next call. Empty only for an empty stack: a stack that consists only of such
  // frames is not filtered.
  const std::vector<model::FrameId>& root_first(model::StackId stack);

 private:
  const model::Trace& trace_;
  std::vector<bool> is_plumbing_;  // by frame
  std::vector<model::FrameId> frames_;
};

}  // namespace plimsoll::exporters

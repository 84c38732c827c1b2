// Annotations as PyTorch lists them: a START and an END for each, in one list ordered by time.
#pragma once

#include <cstdint>
#include <vector>

#include "model/trace.h"

namespace plimsoll::exporters::torch_snapshot {

struct Stage {
  const model::Annotation* annotation = nullptr;
  std::int64_t time_ns = 0;
  bool is_start = false;
};

// An END closes the last open START of the same name, so the order of stages at equal times
// matters: an END precedes STARTs at the same time, except its own.
std::vector<Stage> stages_of(const std::vector<model::Annotation>& annotations);

}  // namespace plimsoll::exporters::torch_snapshot

// Annotations as PyTorch lists them: one START and one END each, in a single list by time.
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

// An END closes the last open START with its name, so the order matters if times are equal: an END
// comes before STARTs at the same time, except its own.
std::vector<Stage> stages_of(const std::vector<model::Annotation>& annotations);

}  // namespace plimsoll::exporters::torch_snapshot

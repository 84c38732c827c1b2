// Annotations as PyTorch lists them: a START and an END each, in one list in the order of time.
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

// An END closes the last open START of its name, so where times are equal the order matters: an END
// stands before the STARTs of its moment, except its own.
std::vector<Stage> stages_of(const std::vector<model::Annotation>& annotations);

}  // namespace plimsoll::exporters::torch_snapshot

// The traffic of a device: its allocations, and the segments returned to the driver and requested
// again. Each cudaMalloc and cudaFree stalls the device; a healthy run calls them only in its first
// steps.
#pragma once

#include <cstdint>
#include <string>

#include "analysis/evidence/evidence.h"
#include "model/trace.h"
#include "model/user_line.h"

namespace plimsoll::findings {

namespace evidence = analysis::evidence;

struct Traffic {
  std::uint64_t allocations = 0;
  std::uint64_t allocated_bytes = 0;  // requested bytes, summed over all allocations
  std::uint64_t segments_taken = 0;   // segment_alloc and segment_map
  std::uint64_t segments_given = 0;   // segment_free and segment_unmap
  std::uint64_t given_bytes = 0;
  std::uint64_t waves = 0;      // runs of segment frees, each followed by segment allocations
  bool by_empty_cache = false;  // most waves came from torch.cuda.empty_cache()
  bool by_convolution = false;  // most waves were inside convolutions: cudnn.benchmark
  std::string line;             // the line that freed in most waves; may be a label in brackets
};

Traffic traffic_of(const model::Trace& trace, const model::UserLines& lines,
                   const evidence::TraceFacts& of_trace, const model::DeviceTrace& device);

}  // namespace plimsoll::findings

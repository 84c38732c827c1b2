// What went to and fro on a device: allocations, and segments that went back to the driver and were
// asked for again. Each cudaMalloc and cudaFree stops the device; a healthy run makes them in its
// first steps only.
#pragma once

#include <cstdint>
#include <string>

#include "model/trace.h"
#include "model/user_line.h"

namespace plimsoll::analysis::findings {

struct Traffic {
  std::uint64_t allocations = 0;
  std::uint64_t allocated_bytes = 0;  // requested, summed over all of them
  std::uint64_t segments_taken = 0;   // segment_alloc and segment_map
  std::uint64_t segments_given = 0;   // segment_free and segment_unmap
  std::uint64_t given_bytes = 0;
  std::uint64_t waves = 0;      // runs of giving back, each followed by taking again
  bool by_empty_cache = false;  // most waves came from torch.cuda.empty_cache()
  std::string line;             // whose call gave back in most waves; may be in brackets
};

Traffic traffic_of(const model::Trace& trace, const model::UserLines& lines,
                   const model::DeviceTrace& device);

}  // namespace plimsoll::analysis::findings

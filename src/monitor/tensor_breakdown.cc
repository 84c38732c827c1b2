#include "plimsoll/tensor_breakdown.h"

#include <cmath>

#include "tensorboard/scalars.h"

namespace plimsoll {

Status log_tensor_memory_breakdown(const ScalarWriter& write, std::int64_t iteration,
                                   const BreakdownOptions& options) {
  if (options.interval < 1) {
    return make_error(ErrorCode::kInvalidArgument,
                      "interval=" + std::to_string(options.interval) + ": it must be positive");
  }
  // Starts even before the first sample is due, so that the sample covers the time before it.
  if (Status status = start_watching(); !status) return status;
  if (iteration % options.interval != 0) return {};
  SampleOptions sample;
  sample.iteration = iteration;
  sample.large_tensor_bytes =
      static_cast<std::uint64_t>(std::llround(options.large_tensor_mb * 1024 * 1024));
  for (const tensorboard::Scalar& scalar :
       tensorboard::scalars_of(take_sample(sample), {options.section, options.top_layers})) {
    write(scalar.tag, scalar.value, iteration);
  }
  return {};
}

}  // namespace plimsoll

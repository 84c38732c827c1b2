// Estimates which batch size would fit, from the memory live at the peak of an iteration, its batch
// size, and the memory available. Returns nothing if one of the three is unknown.
//
// Assumes that memory is linear in the batch. Parameters, gradients, optimizer state, buffers and
// memory retained between iterations (categories other and unknown) stay constant, each at the
// larger of its values at the peak and now. Everything else at the peak grows with the items of the
// batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/memory_sample.h"

namespace plimsoll::alerts {

struct BatchFit {
  static constexpr double kMarginPercent = 10;  // share of `room_bytes` to leave free

  std::int64_t batch = 0;  // the batch size that these numbers describe
  std::uint64_t peak_bytes = 0;
  std::uint64_t fixed_bytes = 0;
  std::vector<MemoryShare> fixed;  // fixed_bytes by category
  // Memory retained since that peak, such as the state that the first optimizer step creates.
  std::uint64_t later_bytes = 0;
  std::vector<MemoryShare> later;
  double item_bytes = 0;
  std::uint64_t total_bytes = 0;  // of the device
  std::uint64_t room_bytes = 0;   // available to this program's tensors
  std::int64_t largest = 0;       // the largest batch that fits; 0: not even a batch of 1
  std::int64_t failed = 0;        // a batch that failed despite `largest`; 0: none

  std::uint64_t bytes_at(std::int64_t items) const;  // at the peak
};

// `memory` belongs to the sample's device. For the CPU, the host's memory is the limit.
std::optional<BatchFit> batch_that_fits(const MemorySample& sample, const DeviceMemory& memory);

// The fit after a batch of size `failed` has failed: suggests only smaller ones.
BatchFit below(BatchFit fit, std::int64_t failed);

// The numbers behind the estimate, one sentence each, and the next step.
std::vector<std::string> batch_evidence(const BatchFit& fit, const std::string& step,
                                        std::int64_t iteration);
std::string batch_advice(const BatchFit& fit);

}  // namespace plimsoll::alerts

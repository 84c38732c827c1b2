// Which batch would fit: from what lived at the peak of an iteration, how large its batch was, and
// how much memory there is for it. Says nothing where one of the three is unknown.
//
// It takes memory to be linear in the batch: parameters, gradients, optimizer state, buffers and
// what is held from iteration to iteration (categories other and unknown) stay, as much of each as
// lived at the peak or is held now, whichever is more; all else at the peak grows with the items of
// the batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/memory_sample.h"

namespace plimsoll::alerts {

struct BatchFit {
  static constexpr double kMarginPercent = 10;  // of `room_bytes` that a batch is to leave free

  std::int64_t batch = 0;  // the one that the numbers are of
  std::uint64_t peak_bytes = 0;
  std::uint64_t fixed_bytes = 0;
  std::vector<MemoryShare> fixed;  // what it is made of
  // What has come to stay since that peak, such as the state that the first optimizer step makes.
  std::uint64_t later_bytes = 0;
  std::vector<MemoryShare> later;
  double item_bytes = 0;
  std::uint64_t total_bytes = 0;  // of the device
  std::uint64_t room_bytes = 0;   // what of it this program's tensors can have
  std::int64_t largest = 0;       // the largest batch that fits; 0: not even a batch of 1
  std::int64_t failed = 0;        // a batch that did not, in spite of `largest`; 0: none

  std::uint64_t bytes_at(std::int64_t items) const;  // at the peak
};

// `memory` is of the sample's device; for the CPU, what there is is the host's.
std::optional<BatchFit> batch_that_fits(const MemorySample& sample, const DeviceMemory& memory);

// The same once a batch of so many items has failed: none as large is suggested.
BatchFit below(BatchFit fit, std::int64_t failed);

// The numbers it rests on, a sentence each, and what to do.
std::vector<std::string> batch_evidence(const BatchFit& fit, const std::string& step,
                                        std::int64_t iteration);
std::string batch_advice(const BatchFit& fit);

}  // namespace plimsoll::alerts

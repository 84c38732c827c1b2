// The pools of addresses, by the segments at the end of the recording. An address keeps its pool
// until its segment is returned to the driver.
#pragma once

#include <cstdint>
#include <map>

#include "model/trace.h"

namespace plimsoll::model {

class FinalPools {
 public:
  // The trace and the device must outlive it.
  FinalPools(const Trace& trace, const DeviceTrace& device);

  // The pool of memory at `address` that was live at `event`; 0 if its segment ended later, or the
  // file does not state it.
  PoolId pool(std::uint64_t address, std::size_t event) const;

 private:
  struct Ended {
    std::uint64_t end_address = 0;
    std::size_t event = 0;
  };
  void add_ended(std::uint64_t begin, std::uint64_t end, std::size_t event);

  const Trace& trace_;
  const DeviceTrace& device_;
  // By first address, disjoint: the last event that returned the range to the driver.
  std::map<std::uint64_t, Ended> ended_;
};

}  // namespace plimsoll::model

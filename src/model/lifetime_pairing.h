// Pairs the events of one device into lifetimes by address: an address belongs to one allocation
// from its alloc to its free_completed. Handles a recording that began late (frees without alloc,
// blocks without events). Single use: construct, run.
#pragma once

#include <cstdint>

#include <tsl/robin_map.h>

#include "base/diagnostics.h"
#include "base/hash.h"
#include "base/progress.h"
#include "model/trace.h"

namespace plimsoll::model {

class LifetimePairing {
 public:
  LifetimePairing(const Trace& trace, DeviceTrace& device, base::Diagnostics& diagnostics)
      : trace_(trace), device_(device), diagnostics_(diagnostics) {}

  // Fills device.lifetimes. Returns early, with a partial result, when the user interrupts.
  void run(base::Progress& progress);

 private:
  struct AddressHash {
    std::size_t operator()(std::uint64_t address) const { return base::hash_u64(address); }
  };
  using LiveMap = tsl::robin_map<std::uint64_t, std::uint32_t, AddressHash>;

  void pair_events(base::Progress& progress);
  void on_alloc(std::uint32_t event, std::uint64_t address);
  void on_free_requested(std::uint32_t event, std::uint64_t address);
  // `requested` is the event that requested the free, if the allocation was born before the
  // recording.
  void on_free_completed(std::uint32_t event, std::uint64_t address, std::uint32_t requested);
  void match_final_blocks();
  bool has_lone_completions() const;
  std::uint32_t add_row(Lifetimes& table, std::uint32_t alloc, std::uint32_t requested,
                        std::uint32_t completed, std::uint32_t block);
  void check_size(std::uint32_t lifetime, std::uint32_t event);
  void join();

  const Trace& trace_;
  DeviceTrace& device_;
  base::Diagnostics& diagnostics_;
  LiveMap live_;      // address -> row of seen_
  Lifetimes seen_;    // born in the recording, in order of birth
  Lifetimes before_;  // born before the recording
};

}  // namespace plimsoll::model

// DeviceEvents converts the memory events of one device, sorted by time, into the model's events.
// Each free is requested and completed simultaneously; each change of the reserved total becomes
// one segment. Traces without addresses get synthetic ones, by pairing each free with the latest
// allocation of the same size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tsl/robin_map.h>

#include "base/diagnostics.h"
#include "base/hash.h"
#include "model/trace_builder.h"
#include "readers/kineto/attribution.h"
#include "readers/kineto/recording.h"

namespace plimsoll::readers::kineto {

class DeviceEvents {
 public:
  DeviceEvents(const Recording& recording, const std::vector<Place>& places,
               model::TraceBuilder& builder, base::Diagnostics& diagnostics)
      : recording_(recording), places_(places), builder_(builder), diagnostics_(diagnostics) {}

  // `rows` of Recording::events, all of one device, in file order. Call once.
  void emit(model::Device device, std::vector<std::uint32_t> rows);

 private:
  struct Hash {
    std::size_t operator()(std::uint64_t number) const { return base::hash_u64(number); }
  };

  void set_before(model::Device device, const std::vector<std::uint32_t>& rows);
  std::uint64_t least_before(const std::vector<std::uint32_t>& rows) const;
  void add_alloc(const MemoryEvent& event, const Place& place);
  void add_free(const MemoryEvent& event);
  void add_out_of_memory(const MemoryEvent& event, const Place& place);
  void add_segment_change(const MemoryEvent& event);
  void check_total(model::Device device, const MemoryEvent& event);
  std::uint64_t new_address(std::uint64_t size_bytes);
  std::uint64_t address_of_alloc(const MemoryEvent& event);
  std::uint64_t address_of_free(const MemoryEvent& event, std::uint64_t size_bytes);

  const Recording& recording_;
  const std::vector<Place>& places_;
  model::TraceBuilder& builder_;
  base::Diagnostics& diagnostics_;
  model::Device device_;
  std::int64_t allocated_ = MemoryEvent::kNotReported;
  std::int64_t reserved_ = MemoryEvent::kNotReported;
  // Synthetic addresses are above 2^62, which no allocator uses.
  std::uint64_t next_address_ = std::uint64_t{1} << 62;
  tsl::robin_map<std::uint64_t, std::vector<std::uint64_t>, Hash> live_by_size_;
};

}  // namespace plimsoll::readers::kineto

// The keys of a digest: what allocations of a device have in common that survives edits of the
// program.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analysis/digest/modules.h"
#include "model/group_names.h"
#include "model/layers.h"
#include "model/live_allocations.h"
#include "model/trace.h"
#include "model/user_line.h"
#include "report/digest.h"

namespace plimsoll::analysis::digest {

// An allocation's key, and the layer that it belongs to.
struct KeyedLayer {
  std::uint32_t key = 0;
  model::LayerId layer;
};

// Appends keys to `out` as they are first used. Keeps references to all arguments.
class Keys {
 public:
  Keys(const model::Trace& trace, const model::DeviceTrace& device, const model::UserLines& lines,
       const Repetitions& repetitions, std::vector<report::DigestKey>& out);

  KeyedLayer of(const model::LiveAllocation& live);
  // Of bytes that no allocation in the file explains.
  std::uint32_t unexplained();
  const model::Layers& layers() const { return layers_; }

 private:
  struct Parts {
    std::uint32_t category = 0;
    std::uint32_t phase = 0;
    std::uint32_t layer = 0;
    std::uint32_t op = 0;
    std::uint32_t line = 0;
    std::uint32_t dtype = 0;

    friend bool operator==(const Parts&, const Parts&) = default;
  };
  struct Hash {
    std::size_t operator()(const Parts& parts) const;
  };

  std::uint32_t dtype_of(const model::LiveAllocation& live) const;
  report::DigestKey describe(const model::LiveAllocation& live, const Parts& parts) const;
  void add_line(const model::LiveAllocation& live, report::DigestKey& key) const;
  std::uint32_t intern(report::DigestKey key);

  const model::Trace& trace_;
  const model::DeviceTrace& device_;
  const model::UserLines& lines_;
  const Repetitions& repetitions_;
  std::vector<report::DigestKey>& out_;
  model::Layers layers_;
  model::OperatorIds operators_;
  std::unordered_map<Parts, std::uint32_t, Hash> by_parts_;
  std::unordered_map<std::string, std::uint32_t> by_text_;
  std::unordered_map<std::uint64_t, std::uint32_t> first_lines_;  // that stacks name, by
                                                                  // file and function
};

}  // namespace plimsoll::analysis::digest

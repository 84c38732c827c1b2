// The rules. Each examines the facts and returns findings only if they are certain: a healthy file
// has none. Each threshold is defined next to its rule, with its reason; docs/findings.md lists all
// of them.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/evidence/evidence.h"
#include "analysis/holders/holders.h"
#include "analysis/pass.h"
#include "analysis/whatif/whatif.h"
#include "findings/allocator/allocator_conf.h"
#include "model/inner_lines.h"
#include "model/last_use.h"
#include "model/trace.h"
#include "report/finding.h"
#include "report/report.h"

namespace plimsoll::findings {

namespace evidence = analysis::evidence;
namespace whatif = analysis::whatif;
using analysis::Options;

// What rules ask about the allocations of a device.
struct DeviceEvidence {
  DeviceEvidence(const model::Trace& of, const model::UserLines& lines_of,
                 const evidence::TraceFacts& of_trace, const model::DeviceTrace& on)
      : trace(of),
        lines(lines_of),
        device(on),
        evidence(trace, of_trace, device),
        replay(trace, device),
        uses(trace, device) {}

  const model::Trace& trace;
  const model::UserLines& lines;
  const model::DeviceTrace& device;
  evidence::Evidence evidence;
  whatif::Replay replay;
  model::LastUses uses;
};

struct Facts {
  const model::Trace& trace;
  const model::UserLines& lines;
  const report::Report& report;
  const Options& options;
  AllocatorConf conf;
  AcceleratorNames names = {};
  evidence::TraceFacts of_trace = {trace, lines};
  mutable std::map<const model::DeviceTrace*, DeviceEvidence> of_devices = {};

  mutable std::optional<analysis::holders::HolderIndex> holder_index = {};
  mutable std::optional<model::InnerLines> lines_inside = {};

  // Built when a rule first asks for them.
  const model::InnerLines& inner_lines() const {
    if (!lines_inside) lines_inside.emplace(trace, lines);
    return *lines_inside;
  }
  const analysis::holders::HolderIndex& holders() const {
    if (!holder_index) holder_index.emplace(trace);
    return *holder_index;
  }
  const DeviceEvidence& evidence(const model::DeviceTrace& device) const {
    return of_devices.try_emplace(&device, trace, lines, of_trace, device).first->second;
  }
};

// One of the devices that the user requested.
struct DeviceFacts {
  const model::DeviceTrace& trace;
  const report::DeviceReport& report;
  std::string name;  // "cuda:0"
};
std::vector<DeviceFacts> devices_of(const Facts& facts);
// What the recording itself allocates.
inline std::size_t allocations_of(const model::DeviceTrace& device) {
  return device.lifetimes.size() - device.lifetimes.baseline_count;
}
// Whether the peak of the device is known and worth explaining. It is not if the memory that
// matters is on another device, unless the user requested this one.
bool is_peak_judged(const Facts& facts, const DeviceFacts& device);

// The point in time that the tables of this device describe, if it is the peak; else null.
const report::PointInTime* peak_point(const Facts& facts, const DeviceFacts& device);

// The live bytes after an event, by category; buffers count as parameters. Memory of a file without
// categories has the empty one.
using LiveBytes = std::map<std::string_view, std::uint64_t>;
LiveBytes live_bytes(const Facts& facts, const DeviceFacts& device, std::uint64_t event);

// "activations 2.0 GiB, parameters 1.0 GiB": what programs make, largest first.
std::string kinds_text(const LiveBytes& live);

using Findings = std::vector<report::Finding>;
using Steps = std::vector<report::FindingStep>;

#define RULE(function) Findings function(const Facts& facts);
#define DEVICE_RULE(function) \
  void function(const Facts& facts, const DeviceFacts& device, Findings& out);
#include "report/findings.def"

// For devices without a finding: the figures closest to one, closest first.
std::vector<report::NearMiss> near_misses(const Facts& facts);
std::optional<report::NearMiss> near_stranded(const DeviceFacts& device);

}  // namespace plimsoll::findings

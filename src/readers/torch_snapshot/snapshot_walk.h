// Walks the value that the machine produced (segments, device traces, settings, annotations, in the
// layout of any PyTorch version) and adds it to the builder. Depending on the version, any key may
// be missing; missing or unexpected ones are counted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/trace_builder.h"
#include "plimsoll/result.h"
#include "readers/torch_snapshot/pickle_value.h"
#include "readers/torch_snapshot/snapshot_records.h"

namespace plimsoll::readers::torch_snapshot {

class SnapshotWalk {
 public:
  SnapshotWalk(const PickleArena& arena, SnapshotRecords& records, model::TraceBuilder& builder,
               base::Diagnostics& diagnostics)
      : arena_(arena), records_(records), builder_(builder), diagnostics_(diagnostics) {}

  Status walk(const Value& root);

 private:
  void walk_devices(const Value& list);
  void walk_without_segments(const Value& list);
  std::optional<model::Device> device_named_by(const Value& value, const char* field);
  model::Device device_at(std::int32_t ordinal) const;
  void walk_segments(const Value& list, model::DeviceType type);
  void walk_segment(const Value& dict, model::DeviceType type);
  void walk_traces(const Value& list, model::DeviceType type);
  void walk_trace(const Value& list, model::Device device);
  void add_run(model::Device device, EventRange rows);
  bool are_runs_apart() const;
  void place_events();
  void walk_settings(const Value& dict, const std::string& prefix, int depth);
  void mark_overflowed(const Value& value);
  void walk_annotations(const Value& list);
  const Items* items_of(const Value& value, const char* what);
  void count_unknown(const Entries& entries, const char* record);

  const PickleArena& arena_;
  SnapshotRecords& records_;
  model::TraceBuilder& builder_;
  base::Diagnostics& diagnostics_;
  struct Run {  // successive rows of the records' events that are a device's next events
    model::Device device;
    EventRange rows;
  };
  std::vector<Run> runs_;
  std::vector<model::Device> traced_;
  std::vector<model::Device> devices_;  // by index, where the file names them
  std::size_t settings_seen_ = 0;
  model::DeviceType accelerator_ = model::DeviceType::kCuda;
};

}  // namespace plimsoll::readers::torch_snapshot

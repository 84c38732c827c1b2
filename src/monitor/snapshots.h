// Records the iterations of the option snapshot_at, each into a separate file:
// OUTPUT_DIR/memory_snapshot_iterN.plim, or in OUTPUT_DIR/rankR for a rank. Never overwrites a
// file. A failure is reported and loses only that snapshot. Call it only on the training thread.
#pragma once

#include <functional>
#include <string>

#include "monitor/snapshot_windows.h"
#include "plimsoll/monitor_options.h"
#include "plimsoll/recorder_c.h"
#include "plimsoll/result.h"
#include "plimsoll/training_monitor.h"

namespace plimsoll::monitor {

class Snapshots {
 public:
  using Reporter = std::function<void(const Status&)>;

  // `options` must outlive this.
  Snapshots(const MonitorOptions& options, SnapshotRecorder recorder, Reporter report);
  Snapshots(const Snapshots&) = delete;
  Snapshots& operator=(const Snapshots&) = delete;
  // Ends a recording of this process's recorder. A SnapshotRecorder is not called, because the
  // program may be ending.
  ~Snapshots();

  void begin();  // before the first iteration
  void iteration_ended(std::int64_t iteration);
  void end();

 private:
  void apply(const SnapshotWindows::Change& change);
  Status record(std::int64_t iteration);

  const MonitorOptions& options_;
  SnapshotRecorder recorder_;
  Reporter report_;
  SnapshotWindows windows_;
  bool is_recording_ = false;
  plimsoll_recording* recording_ = nullptr;  // used if this process's recorder records
};

// Creates an empty memory_snapshot_iter1000.plim in the folder, or one with ".2", ".3" and so on: a
// name that no other trace or PyTorch snapshot uses, even if other ranks do the same. Returns its
// path.
Result<std::string> reserve_snapshot(const std::string& folder, std::int64_t iteration);

}  // namespace plimsoll::monitor

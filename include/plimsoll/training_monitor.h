// One line in the training loop: at the intervals of its options a sample of all memory is taken,
// written to a text log and for TensorBoard, and looked at for what goes wrong.
//
//   plimsoll::TrainingMonitor monitor(options);
//   for (...) { ...; monitor.step(plimsoll::known_loss(loss)); }
//
// Whatever fails is said once and left out from then on: training goes on. For the thread that
// trains.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plimsoll/memory_sample.h"
#include "plimsoll/monitor.h"
#include "plimsoll/monitor_options.h"

namespace plimsoll {

// Something that goes wrong with memory. docs/monitoring.md has the rules.
struct MemoryAlert {
  std::string id;        // stable: "memory_growth", ...
  std::string severity;  // "info", "warning", "critical"
  std::string device;
  std::string subject;  // what of it: a category; may be empty
  std::int64_t iteration = 0;
  std::string title;                  // the verdict
  std::vector<std::string> evidence;  // each one sentence
  std::string next_step;
  std::uint64_t saving_bytes = 0;  // 0: nothing, or not known
  std::string text;                // all of it, as people read it
};

void print_to_stderr(const std::string& line);

// Records an iteration of the option snapshot_at: begin gets the path of a trace file that does not
// exist yet. Empty functions: the recorder of this process records it (recorder_c.h).
struct SnapshotRecorder {
  std::function<void(const std::string& path)> begin;
  std::function<void()> end;
};

class TrainingMonitor {
 public:
  // `say` gets what people must know: alerts, and what could not be written.
  explicit TrainingMonitor(MonitorOptions options, LinePrinter say = print_to_stderr,
                           SnapshotRecorder snapshots = {});
  TrainingMonitor(TrainingMonitor&&) noexcept;
  TrainingMonitor& operator=(TrainingMonitor&&) noexcept;
  ~TrainingMonitor();

  // Gets the alerts instead of `say`.
  void on_alert(std::function<void(const MemoryAlert&)> callback);

  // Receives each sample after it has been written.
  void on_sample(std::function<void(const MemorySample&)> callback);

  // An iteration ends; without a number they are counted from 0. The loss is read only if a sample
  // is due.
  void step(const Loss& loss = no_loss());
  void step(std::int64_t iteration, const Loss& loss = no_loss());
  // The items of the batches from now on, where they differ from the option; 0: not known.
  void set_batch_size(std::int64_t items);
  // The iteration that was going on has failed for want of memory: a last sample, and what would
  // fit. The error's text tells of which device, where it is PyTorch's or "MemoryError".
  void ran_out(std::int64_t iteration, const std::string& error = {});
  void ran_out(const std::string& error = {});
  void close();

  const MonitorOptions& options() const;
  std::string text_log_path() const;    // empty: none
  std::string event_file_path() const;  // empty: none
  std::int64_t samples() const;
  std::int64_t alerts() const;
  // What the run's end may depend on: fail_on_alert, and there was one.
  bool should_fail() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plimsoll

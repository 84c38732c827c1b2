// Monitors a training loop with one line of code. At the interval of its options, the monitor takes
// a sample of all memory, writes it to a text log and to TensorBoard, and checks it for problems.
//
//   plimsoll::TrainingMonitor monitor(options);
//   for (...) { ...; monitor.step(plimsoll::known_loss(loss)); }
//
// A failure is reported only at its first occurrence, and training continues without the failing
// part. Use a monitor only on the thread that trains.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "plimsoll/finding.h"
#include "plimsoll/memory_sample.h"
#include "plimsoll/monitor.h"
#include "plimsoll/monitor_options.h"

namespace plimsoll {

void print_to_stderr(const std::string& line);

// Records an iteration of the option snapshot_at. `begin` receives the path of a trace file that
// does not exist yet. If the functions are empty, this process's recorder (recorder_c.h) is used.
struct SnapshotRecorder {
  std::function<void(const std::string& path)> begin;
  std::function<void()> end;
};

class TrainingMonitor {
 public:
  // `say` receives the messages: alerts and write errors.
  explicit TrainingMonitor(MonitorOptions options, LinePrinter say = print_to_stderr,
                           SnapshotRecorder snapshots = {});
  TrainingMonitor(TrainingMonitor&&) noexcept;
  TrainingMonitor& operator=(TrainingMonitor&&) noexcept;
  ~TrainingMonitor();

  // Sets a function that receives the alerts instead of `say`.
  void on_alert(std::function<void(const MemoryAlert&)> callback);

  // Sets a function that finds what holds the tensors of an alert, which then names it. Called
  // between two iterations, before the alert is passed on.
  void find_holders(std::function<std::optional<HeldBy>(const MemoryAlert&)> find);

  // Sets a function that receives each sample after it has been written.
  void on_sample(std::function<void(const MemorySample&)> callback);

  // Ends an iteration; without a number, iterations are counted from 0. The loss is read only if a
  // sample is due.
  void step(const Loss& loss = no_loss());
  void step(std::int64_t iteration, const Loss& loss = no_loss());
  // Sets the number of items in a batch from now on, if it differs from the option; 0: unknown.
  void set_batch_size(std::int64_t items);
  // Call this when the current iteration ran out of memory. Takes a last sample and reports which
  // batch size would fit. The text of the error identifies the device if it is PyTorch's, or
  // "MemoryError".
  void ran_out(std::int64_t iteration, const std::string& error = {});
  void ran_out(const std::string& error = {});
  // Closes the logs; later steps do nothing. The destructor does this too.
  void close();

  const MonitorOptions& options() const;
  std::string text_log_path() const;    // empty: none
  std::string event_file_path() const;  // empty: none
  std::int64_t samples() const;
  std::int64_t alerts() const;
  // Whether the program should fail: fail_on_alert is set and an alert was raised.
  bool should_fail() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plimsoll

#include "plimsoll/training_monitor.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <optional>
#include <utility>

#include "alerts/detection.h"
#include "alerts/detection_rules.h"
#include "alerts/held_by.h"
#include "alerts/survivors.h"
#include "base/output_file.h"
#include "base/timestamps.h"
#include "monitor/nvtx_ranges.h"
#include "monitor/snapshots.h"
#include "monitor/watch.h"
#include "plimsoll/process_rank.h"
#include "tensorboard/event_file.h"
#include "tensorboard/layout.h"
#include "tensorboard/scalars.h"
#include "tensorboard/timeline.h"
#include "tensorboard/timeline_picture.h"
#include "text_log/text_log.h"

namespace plimsoll {
namespace {

alerts::DetectionOptions detection_of(const MonitorOptions& options) {
  alerts::DetectionOptions detection;
  detection.growth_percent = options.growth_percent;
  detection.fragmentation_percent = options.fragmentation_percent;
  detection.alert_every = options.alert_every;
  detection.alert_above = options.alert_above;
  return detection;
}

// If memory runs out, the action is skipped and training continues.
template <typename Action>
void attempt(const Action& action) {
  try {
    action();
  } catch (const std::bad_alloc&) {
    return;
  }
}

}  // namespace

void print_to_stderr(const std::string& line) { base::write_to_stderr(with_rank(line) + "\n"); }

struct TrainingMonitor::State {
  State(MonitorOptions given, LinePrinter printer, SnapshotRecorder snapshot_recorder)
      : options(std::move(given)),
        say(std::move(printer)),
        detector(detection_of(options)),
        snapshots(options, std::move(snapshot_recorder),
                  [this](const Status& status) { report("snapshot", status); }) {
    batch = largest_batch = options.batch_size;
    if (!options.enabled) return;
    if (options.print_ranks == "first") print_first_rank_only();
    if (options.nvtx) {
      const Status started = start_nvtx();
      shows_ranges = started.ok();
      if (!shows_ranges && monitor::may_print_nvtx_failure()) report("NVTX", started);
    }
    const auto top_layers = static_cast<std::size_t>(options.top_layers);
    if (options.text_log)
      report("text log", log.create(options.output_dir, {.top_layers = top_layers}));
    if (const std::string folder = options.tensorboard_dir(); !folder.empty())
      report("TensorBoard", events.create(rank_folder(folder)));
    span.emplace();
    snapshots.begin();
  }

  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    hide_ranges();
    attempt([this] { (void)write_last_image(); });  // no one is left to read a message
  }

  void hide_ranges() {
    if (std::exchange(shows_ranges, false)) stop_nvtx();
  }

  void report(const char* what, Status status) const {
    if (!status) say(std::string("plimsoll: ") + what + ": " + status.error().message);
  }

  enum class Ended : std::uint8_t { kAsUsual, kOutOfMemory };

  // If memory is unavailable, the sample is skipped and training continues.
  void try_to_take(std::int64_t iteration, const Loss& loss, Ended ended,
                   const std::string& error = {}) {
    try {
      if (!span) span.emplace();
      take(iteration, loss, ended, error);
    } catch (const std::bad_alloc&) {
      if (std::exchange(has_reported_no_memory, true)) return;
      try {
        say("plimsoll: the sample of iteration " + std::to_string(iteration) +
            " is missing: out of memory");
      } catch (const std::bad_alloc&) {
        return;  // no memory for the message either
      }
    }
  }

  void take(std::int64_t iteration, const Loss& loss, Ended ended, const std::string& error) {
    const SampleOptions wanted{.iteration = iteration,
                               .loss = loss ? loss() : std::nullopt,
                               .large_tensor_bytes = options.large_tensor_bytes(),
                               .peak_since = &*span,
                               .use_steps = has_uses() ? &use_steps : nullptr};
    // An iteration that failed midway is excluded from every series.
    const bool is_of_series = options.alerts && ended == Ended::kAsUsual;
    MemorySample sample =
        is_of_series ? monitor::sample_and_observe(wanted, survivors) : take_sample(wanted);
    if (largest_batch > 0) sample.batch_size = largest_batch;
    sample.ran_out = ended == Ended::kOutOfMemory;
    if (sample.ran_out) sample.ran_out_of = alerts::device_that_ran_out(error, sample.devices);
    if (sample.ran_out && is_batch_reported && batch > 0) sample.failed_batch_size = batch;
    largest_batch = batch;
    span.emplace();
    show_progress(iteration, sample.loss);
    ++samples;
    if (log.is_open()) report("text log", log.write(sample));
    if (events.is_open()) write_events(sample);
    if (on_sample) on_sample(sample);
    for (MemoryAlert& alert : options.alerts ? detector.observe(sample, survivors)
                                             : detector.observe_thresholds(sample)) {
      ++alerts;
      name_holder(alert);
      on_alert ? on_alert(alert) : say(alert_text(alert));
    }
  }

  void name_holder(MemoryAlert& alert) const {
    if (!find_holders || !alerts::is_about_kept_tensors(alert)) return;
    if (const auto by = find_holders(alert)) alerts::name_holder(*by, alert);
  }

  void write_events(const MemorySample& sample) {
    auto groups = tensorboard::layout_of(sample, options.tensorboard_section());
    if (groups != layout) {  // the first sample, or a device is new
      layout = std::move(groups);
      report("TensorBoard", events.write_layout(sample.time_ns, layout));
    }
    report("TensorBoard", events.write(sample.time_ns, sample.iteration, scalars.next(sample)));
    timeline.add(sample);
    has_new_columns = true;
    if (options.image_every > 0 && sample.iteration >= next_image) {
      next_image = sample.iteration - sample.iteration % options.image_every + options.image_every;
      report("TensorBoard", write_image(sample.time_ns));
    }
  }

  Status write_image(std::int64_t time_ns) {
    has_new_columns = false;
    return events.write_image(time_ns, timeline.last_iteration(),
                              options.tensorboard_section() + "/timeline",
                              tensorboard::timeline_png(timeline));
  }

  // Writes the picture of the whole run.
  Status write_last_image() {
    if (!has_new_columns || !events.is_open() || process != ::getpid()) return {};
    return write_image(base::now_ns());
  }

  bool has_uses() const { return options.uses != "never"; }

  // The files belong to the process that created them, so a forked child's steps are not recorded.
  bool is_at_work() const { return is_open && process == ::getpid(); }

  const MonitorOptions options;
  const LinePrinter say;
  std::function<void(const MemoryAlert&)> on_alert;
  std::function<void(const MemorySample&)> on_sample;
  std::function<std::optional<HeldBy>(const MemoryAlert&)> find_holders;
  text_log::TextLog log;
  tensorboard::EventFile events;
  std::vector<tensorboard::ChartGroup> layout;  // as written
  tensorboard::ScalarSeries scalars{{.section = options.tensorboard_section(),
                                     .top_layers = static_cast<std::size_t>(options.top_layers)}};
  tensorboard::Timeline timeline;
  bool has_new_columns = false;  // since the last image
  std::int64_t next_image = std::max<std::int64_t>(options.image_every, 0);
  alerts::Survivors survivors{options.growth_percent};
  alerts::Detector detector;
  monitor::Snapshots snapshots;
  bool shows_ranges = false;
  bool has_reported_no_memory = false;
  bool is_open = options.enabled;
  pid_t process = ::getpid();
  std::optional<PeakSpan> span;  // since the previous sample
  UseSteps use_steps;
  std::int64_t next_iteration = 0;
  std::int64_t batch = 0;          // number of items; 0: unknown
  bool is_batch_reported = true;   // for the current iteration; false if it is from the previous
                                   // one
  std::int64_t largest_batch = 0;  // since the previous sample; it caused the peak
  std::int64_t samples = 0;
  std::int64_t alerts = 0;
};

TrainingMonitor::TrainingMonitor(MonitorOptions options, LinePrinter say,
                                 SnapshotRecorder snapshots)
    : state_(std::make_unique<State>(std::move(options), std::move(say), std::move(snapshots))) {}
TrainingMonitor::TrainingMonitor(TrainingMonitor&&) noexcept = default;
TrainingMonitor& TrainingMonitor::operator=(TrainingMonitor&&) noexcept = default;
TrainingMonitor::~TrainingMonitor() = default;

void TrainingMonitor::on_alert(std::function<void(const MemoryAlert&)> callback) {
  state_->on_alert = std::move(callback);
}

void TrainingMonitor::find_holders(std::function<std::optional<HeldBy>(const MemoryAlert&)> find) {
  state_->find_holders = std::move(find);
}

void TrainingMonitor::on_sample(std::function<void(const MemorySample&)> callback) {
  state_->on_sample = std::move(callback);
}

void TrainingMonitor::step(const Loss& loss) { step(state_->next_iteration, loss); }

void TrainingMonitor::step(std::int64_t iteration, const Loss& loss) {
  state_->next_iteration = iteration + 1;
  state_->is_batch_reported = state_->batch == state_->options.batch_size;  // the default
  if (!state_->is_at_work()) return;
  show_progress(iteration);
  if (state_->has_uses()) state_->use_steps.end_step();
  if (state_->options.is_due(iteration))
    state_->try_to_take(iteration, loss, State::Ended::kAsUsual);
  attempt([&] { state_->snapshots.iteration_ended(iteration); });
}

void TrainingMonitor::set_batch_size(std::int64_t items) {
  state_->batch = std::max<std::int64_t>(items, 0);
  state_->is_batch_reported = true;
  state_->largest_batch = std::max(state_->largest_batch, state_->batch);
}

void TrainingMonitor::ran_out(const std::string& error) { ran_out(state_->next_iteration, error); }

void TrainingMonitor::ran_out(std::int64_t iteration, const std::string& error) {
  if (state_->is_at_work())
    state_->try_to_take(iteration, no_loss(), State::Ended::kOutOfMemory, error);
}

void TrainingMonitor::close() {
  state_->is_open = false;
  state_->span.reset();
  // The destructor closes what could not be closed here.
  attempt([this] { state_->snapshots.end(); });
  attempt([this] { state_->hide_ranges(); });
  attempt([this] { state_->log.close(); });
  attempt([this] { state_->report("TensorBoard", state_->write_last_image()); });
  attempt([this] { state_->events.close(); });
}

const MonitorOptions& TrainingMonitor::options() const { return state_->options; }
std::string TrainingMonitor::text_log_path() const {
  return state_->options.enabled && state_->options.text_log ? state_->log.path() : "";
}
std::string TrainingMonitor::event_file_path() const { return state_->events.path(); }
std::int64_t TrainingMonitor::samples() const { return state_->samples; }
std::int64_t TrainingMonitor::alerts() const { return state_->alerts; }
bool TrainingMonitor::should_fail() const {
  return state_->options.fail_on_alert && state_->alerts > 0;
}

}  // namespace plimsoll

// MemoryMonitor, MemoryTracker, TrackMemory and the loop monitors: their measurements and the exact
// lines they print. docs/monitoring.md shows examples; monitors_test.cc has each line.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/quiet_writing.h"
#include "plimsoll/monitor.h"
#include "plimsoll/process_rank.h"
#include "sample/names.h"

namespace plimsoll {
namespace {

using sample::to_mb;

std::string text(const char* format, double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, value);
  return buffer;
}
std::string mb(std::optional<std::uint64_t> bytes) {
  return bytes ? text("%.1f MB", to_mb(*bytes)) : "unknown";
}

// "+450.2 MB"
std::string change(std::optional<std::uint64_t> before, std::optional<std::uint64_t> after) {
  if (!before || !after) return "unknown";
  return text("%+.1f MB", to_mb(*after) - to_mb(*before));
}

// A GPU that was first used in between had no memory before.
std::string tensor_change(const MemoryUsage& before, const MemoryUsage& after) {
  const bool is_new = after.gpu && !before.gpu;
  return change(is_new ? 0 : before.tensors().allocated_bytes, after.tensors().allocated_bytes);
}

// Without an accelerator, the figures are for tensors in host memory.
const char* place(const MemoryUsage& usage) { return usage.gpu ? "GPU" : "CPU tensors"; }

std::string peak_text(const TensorUsage& tensors) {
  if (tensors.peak_bytes) return mb(tensors.peak_bytes);
  if (tensors.peak_below_bytes) return "at most " + mb(tensors.peak_below_bytes);
  return "unknown";
}

// "CPU: 1645.1 MB | GPU Allocated: 23.1 MB | GPU Reserved: 3242.0 MB"; the CPU allocator reserves
// nothing, so without a GPU "CPU: 1645.1 MB | CPU tensors: 23.1 MB".
std::string usage_text(const MemoryUsage& usage) {
  const TensorUsage& tensors = usage.tensors();
  std::string line = "CPU: " + mb(usage.rss_bytes);
  if (!usage.gpu) return line + " | CPU tensors: " + mb(tensors.allocated_bytes);
  return line + " | GPU Allocated: " + mb(tensors.allocated_bytes) +
         " | GPU Reserved: " + mb(tensors.reserved_bytes);
}

// "loss=0.014553" with `before` in front; "" if the loss is unknown.
std::string loss_text(const char* before, const Loss& loss) {
  const std::optional<double> value = loss ? loss() : std::nullopt;
  return value ? before + text("loss=%.6f", *value) : "";
}

// If memory runs out, a line is missing and the program continues.
template <typename Action>
void without_memory(const Action& action) {
  try {
    action();
  } catch (const std::bad_alloc&) {
    return;
  }
}

std::string banner(std::int64_t batches) {
  if (batches <= 0) return "Memory monitoring enabled";
  return "Memory monitoring enabled (verbose for first " + std::to_string(batches) +
         (batches == 1 ? " batch)" : " batches)");
}

}  // namespace

void print_to_stdout(const std::string& line) {
  std::optional<std::string> text = printed_by_rank(line);
  if (!text) return;
  const base::QuietWriting quiet;
  // Bypasses the stream's buffer, where text that cannot be written would stay until exit.
  std::string_view rest = text->append("\n");
  if (std::fflush(stdout) != 0) return;
  while (!rest.empty()) {
    const ssize_t count = ::write(::fileno(stdout), rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    rest.remove_prefix(static_cast<std::size_t>(count));
  }
}

// ---- point-in-time measurements ---------------------------------------------------------------

double MemoryMonitor::get_cpu_memory_mb() { return to_mb(current_usage().rss_bytes.value_or(0)); }

double MemoryMonitor::get_gpu_memory_mb() {
  const MemoryUsage usage = current_usage();
  return usage.gpu ? to_mb(usage.gpu->allocated_bytes.value_or(0)) : 0.0;
}

std::string MemoryMonitor::get_memory_summary() { return usage_text(current_usage()); }

void MemoryMonitor::print_memory_usage(const std::string& prefix, const LinePrinter& print) {
  const char* separator = prefix.empty() || prefix.back() == ' ' ? "" : " ";
  without_memory([&] { print(prefix + separator + get_memory_summary()); });
}

void MemoryTracker::record(std::string name) {
  without_memory([&] { checkpoints_.push_back({std::move(name), current_usage()}); });
}

void MemoryTracker::print_summary() const {
  without_memory([this] { print_changes(); });
}

void MemoryTracker::print_changes() const {
  if (checkpoints_.empty()) return print_("[Memory] summary: nothing recorded");
  std::size_t width = 0;
  for (const MemoryCheckpoint& checkpoint : checkpoints_) {
    width = std::max(width, checkpoint.name.size());
  }
  print_("[Memory] summary");
  const MemoryUsage* before = nullptr;
  for (const auto& [name, now] : checkpoints_) {
    std::string line = "  " + name + ":" + std::string(width - name.size(), ' ');
    line += " CPU " + mb(now.rss_bytes);
    if (before != nullptr) line += " (" + change(before->rss_bytes, now.rss_bytes) + ")";
    line += std::string(", ") + place(now) + " " + mb(now.tensors().allocated_bytes);
    if (before != nullptr) line += " (" + tensor_change(*before, now) + ")";
    print_(line);
    before = &now;
  }
}

TrackMemory::TrackMemory(std::string name, LinePrinter print)
    : name_(std::move(name)), print_(std::move(print)) {
  without_memory([this] {
    PeakSpan span;
    memory_.before = span.usage();
    span_ = std::move(span);
  });
}

TrackMemory::~TrackMemory() {
  try {
    finish();
  } catch (...) {
    return;  // from the printer: another exception may already be active
  }
}

const BlockMemory& TrackMemory::finish() {
  const std::optional<PeakSpan> span = std::exchange(span_, std::nullopt);
  if (!span) return memory_;
  without_memory([&] {
    memory_.peaks = span->peaks();
    memory_.after = span->usage();
    const auto& [before, after, peaks] = memory_;
    print_("[Memory] " + name_ + ": CPU " + change(before.rss_bytes, after.rss_bytes) + ", " +
           place(after) + " " + tensor_change(before, after));
    print_(std::string("         Peak ") + place(after) + ": " + peak_text(after.tensors()));
  });
  return memory_;
}

// ---- training loops -----------------------------------------------------------------------

EpochMemoryMonitor::EpochMemoryMonitor(Monitoring monitoring, std::int64_t verbose_batches,
                                       LinePrinter print)
    : monitoring_(monitoring), verbose_batches_(verbose_batches), print_(std::move(print)) {
  if (monitoring_ == Monitoring::kOn) print_(banner(verbose_batches_));
}

void EpochMemoryMonitor::on_epoch_start() {
  if (monitoring_ == Monitoring::kOff) return;
  span_.reset();
  without_memory([this] { span_.emplace(); });
}

void EpochMemoryMonitor::on_batch_end(std::int64_t batch, const Loss& loss) {
  if (monitoring_ == Monitoring::kOff || batch >= verbose_batches_) return;
  without_memory([&] {
    const MemoryUsage usage = current_usage();
    print_("  Batch " + std::to_string(batch) + ": " + place(usage) + " " +
           mb(usage.tensors().allocated_bytes) + ", CPU " + mb(usage.rss_bytes) +
           loss_text(", ", loss));
  });
}

void EpochMemoryMonitor::on_epoch_end() {
  if (monitoring_ == Monitoring::kOff) return;
  const std::optional<PeakSpan> span = std::exchange(span_, std::nullopt);
  without_memory([&] {
    const MemoryUsage usage = span ? span->usage() : current_usage();
    const TensorUsage& tensors = usage.tensors();
    std::string line = std::string("  Epoch end: ") + place(usage) + " " +
                       mb(tensors.allocated_bytes) + " allocated";
    if (tensors.reserved_bytes) line += ", " + mb(tensors.reserved_bytes) + " reserved";
    print_(line + ", peak " + peak_text(tensors));
  });
}

OptimizationMemoryMonitor::OptimizationMemoryMonitor(Monitoring monitoring,
                                                     std::int64_t verbose_evaluations,
                                                     LinePrinter print)
    : monitoring_(monitoring),
      verbose_evaluations_(verbose_evaluations),
      print_(std::move(print)) {}

void OptimizationMemoryMonitor::on_start() {
  evaluations_ = 0;
  if (monitoring_ == Monitoring::kOff) return;
  span_.reset();
  without_memory([this] { span_.emplace(); });
}

void OptimizationMemoryMonitor::on_loss_evaluation(const Loss& loss) {
  const std::int64_t evaluation = evaluations_++;
  if (monitoring_ == Monitoring::kOff || evaluation >= verbose_evaluations_) return;
  without_memory([&] {
    print_("  Loss evaluation " + std::to_string(evaluation) + ": " + usage_text(current_usage()));
    const std::string iteration = "    Iteration " + std::to_string(evaluation + 1) + ": ";
    if (const std::string line = loss_text(iteration.c_str(), loss); !line.empty()) print_(line);
  });
}

void OptimizationMemoryMonitor::on_end() {
  if (monitoring_ == Monitoring::kOff) return;
  const std::optional<PeakSpan> span = std::exchange(span_, std::nullopt);
  without_memory([&] {
    const MemoryUsage usage = span ? span->usage() : current_usage();
    print_("After optimization: " + usage_text(usage));
    const char* what = usage.gpu ? "GPU memory" : "CPU tensors";
    print_(std::string("  Peak ") + what + " during optimization: " + peak_text(usage.tensors()));
  });
}

BatchMemoryProfiler::BatchMemoryProfiler(Monitoring monitoring, LinePrinter print)
    : monitoring_(monitoring), print_(std::move(print)) {}

void BatchMemoryProfiler::checkpoint(std::string name) {
  if (monitoring_ == Monitoring::kOff) return;
  without_memory([&] { checkpoints_.push_back({std::move(name), current_usage()}); });
}

void BatchMemoryProfiler::print_summary() const {
  if (monitoring_ == Monitoring::kOff) return;
  without_memory([this] { print_changes(); });
}

void BatchMemoryProfiler::print_changes() const {
  if (checkpoints_.size() < 2) return print_("    Memory profile: fewer than two checkpoints");
  print_("    Memory profile:");
  for (std::size_t i = 1; i < checkpoints_.size(); ++i) {
    const MemoryCheckpoint& before = checkpoints_[i - 1];
    const MemoryCheckpoint& after = checkpoints_[i];
    print_("      " + before.name + " → " + after.name + ": " + place(after.usage) + " " +
           mb(after.usage.tensors().allocated_bytes) + " (" +
           tensor_change(before.usage, after.usage) + ")");
  }
}

void BatchMemoryProfiler::reset() { checkpoints_.clear(); }

void BatchMemoryProfiler::disable() {
  monitoring_ = Monitoring::kOff;
  checkpoints_.clear();
}

}  // namespace plimsoll

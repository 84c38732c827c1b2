// The measures and monitors that print, and their lines.
#include <algorithm>
#include <cstdio>
#include <utility>

#include "monitor/words.h"
#include "plimsoll/monitor.h"
#include "plimsoll/process_rank.h"

namespace plimsoll {
namespace {

using monitor::to_mb;

std::string text(const char* format, double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, value);
  return buffer;
}
std::string mb(std::optional<std::uint64_t> bytes) {
  return bytes ? text("%.1f MB", to_mb(*bytes)) : "unknown";
}

// "+450.2 MB"; "unknown" where one of them is.
std::string change(std::optional<std::uint64_t> before, std::optional<std::uint64_t> after) {
  if (!before || !after) return "unknown";
  return text("%+.1f MB", to_mb(*after) - to_mb(*before));
}

// Where there is no accelerator, what people read of it is said of the tensors in host memory.
const char* place(const MemoryUsage& usage) { return usage.gpu ? "GPU" : "CPU tensors"; }

std::string peak_text(const TensorUsage& tensors) {
  if (tensors.peak_bytes) return mb(*tensors.peak_bytes);
  if (tensors.peak_below_bytes) return "at most " + mb(*tensors.peak_below_bytes);
  return "unknown";
}

// ", loss=0.014553", if there is one.
std::string loss_text(const Loss& loss) {
  const std::optional<double> value = loss ? loss() : std::nullopt;
  return value ? text(", loss=%.6f", *value) : "";
}

}  // namespace

void print_to_stdout(const std::string& line) {
  const std::optional<std::string> text = printed_by_rank(line);
  if (!text) return;
  std::printf("%s\n", text->c_str());
  std::fflush(stdout);
}

// ---- measures ---------------------------------------------------------------------------------

double MemoryMonitor::get_cpu_memory_mb() { return to_mb(current_usage().rss_bytes.value_or(0)); }

double MemoryMonitor::get_gpu_memory_mb() {
  const MemoryUsage usage = current_usage();
  return usage.gpu ? to_mb(usage.gpu->allocated_bytes.value_or(0)) : 0.0;
}

std::string MemoryMonitor::get_memory_summary() {
  const MemoryUsage usage = current_usage();
  std::string line = "CPU: " + mb(usage.rss_bytes) + ", " + place(usage) + ": " +
                     mb(usage.tensors().allocated_bytes) + " allocated";
  if (usage.tensors().reserved_bytes)
    line += ", " + mb(*usage.tensors().reserved_bytes) + " reserved";
  return line;
}

void MemoryMonitor::print_memory_usage(const std::string& prefix, const LinePrinter& print) {
  print((prefix.empty() ? "" : prefix + " ") + get_memory_summary());
}

void MemoryTracker::record(std::string name) {
  moments_.push_back({std::move(name), current_usage()});
}

void MemoryTracker::print_summary() const {
  if (moments_.empty()) return print_("[Memory] nothing was recorded");
  std::size_t width = 0;
  for (const Moment& moment : moments_) width = std::max(width, moment.name.size());
  print_("[Memory] summary");
  const Moment* before = nullptr;
  for (const Moment& moment : moments_) {
    const MemoryUsage& now = moment.usage;
    std::string line = "  " + moment.name + ":" + std::string(width - moment.name.size(), ' ');
    line += " CPU " + mb(now.rss_bytes);
    if (before != nullptr) line += " (" + change(before->usage.rss_bytes, now.rss_bytes) + ")";
    line += std::string(", ") + place(now) + " " + mb(now.tensors().allocated_bytes);
    if (before != nullptr) {
      line += " (" +
              change(before->usage.tensors().allocated_bytes, now.tensors().allocated_bytes) + ")";
    }
    print_(line);
    before = &moment;
  }
}

TrackMemory::TrackMemory(std::string name, LinePrinter print)
    : name_(std::move(name)), print_(std::move(print)), span_(PeakSpan()) {
  before_ = span_->usage();
}

void TrackMemory::finish() {
  if (!span_) return;
  const MemoryUsage after = span_->usage();
  span_.reset();
  const bool is_new = after.gpu && !before_.gpu;  // CUDA was first used in between
  const std::optional<std::uint64_t> tensors_before =
      is_new ? 0 : before_.tensors().allocated_bytes;
  print_("[Memory] " + name_ + ": CPU " + change(before_.rss_bytes, after.rss_bytes) + ", " +
         place(after) + " " + change(tensors_before, after.tensors().allocated_bytes));
  print_(std::string("         Peak ") + place(after) + ": " + peak_text(after.tensors()));
}

// ---- monitors of a loop -----------------------------------------------------------------------

EpochMemoryMonitor::EpochMemoryMonitor(Monitoring monitoring, std::int64_t verbose_batches,
                                       LinePrinter print)
    : monitoring_(monitoring), verbose_batches_(verbose_batches), print_(std::move(print)) {}

void EpochMemoryMonitor::on_epoch_start() {
  if (monitoring_ == Monitoring::kOff) return;
  span_.reset();
  span_.emplace();
}

void EpochMemoryMonitor::on_batch_end(std::int64_t batch, const Loss& loss) {
  if (monitoring_ == Monitoring::kOff || batch >= verbose_batches_) return;
  const MemoryUsage usage = current_usage();
  print_("  Batch " + std::to_string(batch) + ": " + place(usage) + " " +
         mb(usage.tensors().allocated_bytes) + ", CPU " + mb(usage.rss_bytes) + loss_text(loss));
}

void EpochMemoryMonitor::on_epoch_end() {
  if (monitoring_ == Monitoring::kOff) return;
  const MemoryUsage usage = span_ ? span_->usage() : current_usage();
  span_.reset();
  const TensorUsage& tensors = usage.tensors();
  std::string line = std::string("  Epoch end: ") + place(usage) + " " +
                     mb(tensors.allocated_bytes) + " allocated";
  if (tensors.reserved_bytes) line += ", " + mb(*tensors.reserved_bytes) + " reserved";
  print_(line + ", peak " + peak_text(tensors));
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
  span_.emplace();
}

void OptimizationMemoryMonitor::on_loss_evaluation(const Loss& loss) {
  const std::int64_t evaluation = evaluations_++;
  if (monitoring_ == Monitoring::kOff || evaluation >= verbose_evaluations_) return;
  const MemoryUsage usage = current_usage();
  std::string line =
      "Loss evaluation " + std::to_string(evaluation) + ": CPU: " + mb(usage.rss_bytes);
  line += std::string(" | ") + place(usage) + (usage.gpu ? " Allocated: " : ": ") +
          mb(usage.tensors().allocated_bytes);
  if (usage.tensors().reserved_bytes)
    line += std::string(" | ") + place(usage) + " Reserved: " + mb(*usage.tensors().reserved_bytes);
  const std::optional<double> value = loss ? loss() : std::nullopt;
  print_(line + (value ? text(" | loss: %.6f", *value) : ""));
}

void OptimizationMemoryMonitor::on_end() {
  if (monitoring_ == Monitoring::kOff) return;
  const MemoryUsage usage = span_ ? span_->usage() : current_usage();
  span_.reset();
  print_("Optimization end: " + std::to_string(evaluations_) + " loss evaluations | " +
         place(usage) + ": " + mb(usage.tensors().allocated_bytes) + " | Peak " + place(usage) +
         ": " + peak_text(usage.tensors()));
}

BatchMemoryProfiler::BatchMemoryProfiler(Monitoring monitoring, LinePrinter print)
    : monitoring_(monitoring), print_(std::move(print)) {}

void BatchMemoryProfiler::checkpoint(std::string name) {
  if (monitoring_ == Monitoring::kOn) moments_.push_back({std::move(name), current_usage()});
}

void BatchMemoryProfiler::print_summary() const {
  if (monitoring_ == Monitoring::kOff) return;
  if (moments_.size() < 2) return print_("    Batch memory: fewer than two checkpoints");
  print_("    Batch memory:");
  for (std::size_t i = 1; i < moments_.size(); ++i) {
    const TensorUsage& before = moments_[i - 1].usage.tensors();
    const MemoryUsage& after = moments_[i].usage;
    print_("      " + moments_[i - 1].name + " → " + moments_[i].name + ": " + place(after) + " " +
           mb(after.tensors().allocated_bytes) + " (" +
           change(before.allocated_bytes, after.tensors().allocated_bytes) + ")");
  }
}

void BatchMemoryProfiler::reset() { moments_.clear(); }

void BatchMemoryProfiler::disable() {
  monitoring_ = Monitoring::kOff;
  moments_.clear();
}

}  // namespace plimsoll

#include "logs/printed_log.h"

#include "logs/labelled.h"

namespace plimsoll::logs {
namespace {

bool has_allocated(const MemorySample& sample) {
  return !sample.devices.empty() && sample.devices.front().allocated_bytes.has_value();
}

}  // namespace

bool PrintedLog::knows(std::string_view line) {
  MemorySample sample;
  take_labelled(line, sample);
  return has_allocated(sample);
}

void PrintedLog::line(std::string_view line) {
  const auto number = iteration_in(line);
  MemorySample sample;
  const bool has_figures = take_labelled(line, sample);
  if (number || (sample_ && has_allocated(*sample_) && has_allocated(sample))) finish();
  if (number) iteration_ = number;
  if (!has_figures) return;
  if (!sample_) sample_.emplace();
  take_labelled(line, *sample_);
}

void PrintedLog::line_before(std::string_view line) {
  if (const auto number = iteration_in(line)) {
    iteration_ = number;
    sample_.reset();
  }
  MemorySample sample = sample_.value_or(MemorySample{});
  if (take_labelled(line, sample)) sample_ = std::move(sample);
}

// Without a device, the figures are those of the host alone, and do not count.
void PrintedLog::finish() {
  auto sample = std::exchange(sample_, std::nullopt);
  if (!sample || sample->devices.empty()) return;
  sample->iteration = iteration_.value_or(readings_);
  ++readings_;
  sink_(*sample);
}

}  // namespace plimsoll::logs

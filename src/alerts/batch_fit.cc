#include "alerts/batch_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "sample/names.h"
#include "sample/quantities.h"

namespace plimsoll::alerts {
namespace {

constexpr std::array<std::string_view, 5> kStays = {"parameter", "gradient", "optimizer_state",
                                                    "buffer", "workspace"};
constexpr std::int64_t kMostItems = 1'000'000'000;
// If less than 1/N of the peak depends on the batch, nothing is estimated.
constexpr std::uint64_t kLeastPart = 1000;

// The device memory available to this program's tensors: all that others do not use.
struct AvailableMemory {
  std::uint64_t total_bytes = 0;
  std::uint64_t bytes = 0;
};
std::optional<AvailableMemory> available_memory(const MemorySample& sample,
                                                const DeviceMemory& memory) {
  const bool is_host = sample::is_cpu(memory.name);
  const auto used = is_host ? sample.host.used_bytes : memory.used_bytes;
  const auto total = is_host ? sample.host.total_bytes : memory.total_bytes;
  if (!used || !total) return std::nullopt;
  // Memory reserved by a caching allocator stays available to tensors.
  const std::uint64_t ours = std::max(memory.live_bytes, memory.reserved_bytes.value_or(0));
  const std::uint64_t others = *used > ours ? *used - ours : 0;
  if (others >= *total) return std::nullopt;
  return AvailableMemory{*total, *total - others};
}

// Memory live at the peak that does not grow with the batch.
std::vector<MemoryShare> fixed_at_peak(const DeviceMemory& memory) {
  std::vector<MemoryShare> fixed;
  for (const std::string_view name : kStays) {
    const std::uint64_t bytes = sample::bytes_of_name(memory.at_peak, std::string(name));
    if (bytes > 0) fixed.push_back({std::string(name), bytes, 0});
  }
  // Memory of no known category that is retained between iterations, such as a data set. At the
  // peak it was part of the rest.
  const std::uint64_t held = sample::bytes_of_name(memory.categories, "other") +
                             sample::bytes_of_name(memory.categories, "unknown");
  const std::uint64_t rest = sample::bytes_of_name(memory.at_peak, "other") +
                             sample::bytes_of_name(memory.at_peak, "unknown") +
                             sample::bytes_of_name(memory.at_peak, std::string(sample::kRest));
  if (std::min(held, rest) > 0) fixed.push_back({"other", std::min(held, rest), 0});
  return fixed;
}

// Memory that came after the peak, such as the state that the first optimizer step creates.
std::vector<MemoryShare> come_since_peak(const DeviceMemory& memory) {
  std::vector<MemoryShare> later;
  for (const std::string_view name : kStays) {
    const std::uint64_t at_peak = sample::bytes_of_name(memory.at_peak, std::string(name));
    const std::uint64_t now = sample::bytes_of_name(memory.categories, std::string(name));
    if (now > at_peak) later.push_back({std::string(name), now - at_peak, 0});
  }
  return later;
}

std::uint64_t sum_of(const std::vector<MemoryShare>& shares) {
  std::uint64_t sum = 0;
  for (const MemoryShare& share : shares) sum += share.size_bytes;
  return sum;
}

// " (parameter 2.0 GiB, gradient 1.5 GiB)"; empty for an empty list.
std::string shares_text(const std::vector<MemoryShare>& shares) {
  std::string parts;
  for (const MemoryShare& share : shares) {
    parts +=
        (parts.empty() ? " (" : ", ") + share.name + " " + sample::bytes_text(share.size_bytes);
  }
  return parts.empty() ? parts : parts + ")";
}

std::string items_text(std::int64_t items) { return std::to_string(items); }

}  // namespace

std::uint64_t BatchFit::bytes_at(std::int64_t items) const {
  const double bytes =
      static_cast<double>(fixed_bytes + later_bytes) + item_bytes * static_cast<double>(items);
  return static_cast<std::uint64_t>(std::llround(bytes));
}

std::optional<BatchFit> batch_that_fits(const MemorySample& sample, const DeviceMemory& memory) {
  if (!sample.batch_size || *sample.batch_size < 1) return std::nullopt;
  if (!memory.peak_bytes || memory.at_peak.empty()) return std::nullopt;
  // Temporary memory of an optimizer scales with the parameters, not with the batch.
  if (memory.peak_phase == "optimizer") return std::nullopt;
  const auto room = available_memory(sample, memory);
  if (!room) return std::nullopt;
  BatchFit fit;
  fit.batch = *sample.batch_size;
  fit.peak_bytes = *memory.peak_bytes;
  fit.fixed = fixed_at_peak(memory);
  fit.fixed_bytes = sum_of(fit.fixed);
  fit.later = come_since_peak(memory);
  fit.later_bytes = sum_of(fit.later);
  if (fit.fixed_bytes >= fit.peak_bytes) return std::nullopt;
  // A peak in the optimizer says nothing about the memory per item.
  if (fit.peak_bytes - fit.fixed_bytes < fit.peak_bytes / kLeastPart) return std::nullopt;
  fit.item_bytes =
      static_cast<double>(fit.peak_bytes - fit.fixed_bytes) / static_cast<double>(fit.batch);
  fit.total_bytes = room->total_bytes;
  fit.room_bytes = room->bytes;
  const double usable = static_cast<double>(fit.room_bytes) * (1 - BatchFit::kMarginPercent / 100);
  const double items =
      (usable - static_cast<double>(fit.fixed_bytes + fit.later_bytes)) / fit.item_bytes;
  fit.largest = static_cast<std::int64_t>(
      std::clamp(std::floor(items), 0.0, static_cast<double>(kMostItems)));
  return fit;
}

BatchFit below(BatchFit fit, std::int64_t failed) {
  if (failed < 1 || fit.largest < failed) return fit;
  fit.largest = failed - 1;
  fit.failed = failed;
  return fit;
}

std::vector<std::string> batch_evidence(const BatchFit& fit, const std::string& step,
                                        std::int64_t iteration) {
  std::vector<std::string> evidence = {
      "Of the peak of " + step + " " + std::to_string(iteration) + ", " +
      sample::bytes_text(fit.peak_bytes) + ", " + sample::bytes_text(fit.fixed_bytes) +
      " do not grow with the batch" + shares_text(fit.fixed) + "; the other " +
      sample::bytes_text(fit.peak_bytes - fit.fixed_bytes) + " are " +
      sample::bytes_text(fit.item_bytes) + " for each of the " + items_text(fit.batch) +
      " items of a batch"};
  if (fit.later_bytes > 0) {
    evidence.push_back("Since that peak " + sample::bytes_text(fit.later_bytes) +
                       " more have been retained" + shares_text(fit.later));
  }
  evidence.push_back("Tensors can use " + sample::bytes_text(fit.room_bytes) + " of the " +
                     sample::bytes_text(fit.total_bytes) + "; the rest is not available to them");
  return evidence;
}

std::string batch_advice(const BatchFit& fit) {
  if (fit.failed == 1) {
    return "Memory ran out with batches of one item: no smaller batch is possible.";
  }
  if (fit.failed > 1) {
    return "Use a batch of fewer than " + items_text(fit.failed) +
           " items: memory ran out with batches of up to that size, although they would fit if "
           "memory grew linearly with the batch.";
  }
  const std::string margin = sample::percent_text(BatchFit::kMarginPercent);
  if (fit.largest == 0) {
    return "No batch fits with " + margin + " left free: a batch of 1 needs about " +
           sample::bytes_text(fit.bytes_at(1)) + ", if memory grows linearly with the batch.";
  }
  return "A batch of " + items_text(fit.largest) + " would fit with " + margin +
         " left free: about " + sample::bytes_text(fit.bytes_at(fit.largest)) +
         " at the peak, if memory grows linearly with the batch.";
}

}  // namespace plimsoll::alerts

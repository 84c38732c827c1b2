// The rules for memory that keeps rising.
#include <algorithm>
#include <array>
#include <string_view>

#include "alerts/detection_rules.h"
#include "sample/live_rows.h"
#include "sample/quantities.h"

namespace plimsoll::alerts {
namespace {

// No figure of a category shows what retains it.
struct GrowthWords {
  std::string_view category;
  const char* id;
  const char* what;
  const char* step;
};

constexpr std::array<GrowthWords, 12> kGrowthWords = {{
    {"activation", "activations_stay", "activations",
     "Record some iterations with plimsoll run: its report names what retains them, such as a list "
     "of losses or outputs, which needs loss.item() or x.detach() instead of the tensors."},
    {"activation_gradient", "temporaries_stay", "gradients of activations",
     "Record some iterations with plimsoll run: its report names what retains them, such as "
     "retain_graph=True, create_graph=True or retain_grad()."},
    {"temporary", "temporaries_stay", "temporaries",
     "Record some iterations with plimsoll run: its report names what retains them, such as a list "
     "of results, which are better detached and copied to the CPU."},
    {"gradient", "gradients_accumulate", "gradients",
     "Record some iterations with plimsoll run: its report names what retains them. "
     "zero_grad(set_to_none=True) after each step clears those of parameters."},
    {"parameter", "memory_growth", "parameters",
     "The model itself grows: cap how many parameters it may have, or prune it."},
    {"optimizer_state", "memory_growth", "optimizer state",
     "The optimizer retains more with each step: look for parameter groups that are added and "
     "never removed, and for a history (L-BFGS: history_size) that is still filling up."},
    {"input", "memory_growth", "inputs",
     "Record some iterations with plimsoll run: its report names what retains them, such as a list "
     "or a cache of batches, which needs a bound."},
    {"workspace", "memory_growth", "library workspaces",
     "Each thread and stream that multiplies has its own workspace: reuse threads and streams, or "
     "set CUBLAS_WORKSPACE_CONFIG=:16:8."},
    {"peak", "memory_growth", "peaks",
     "Each iteration needs more than the ones before: look for inputs that get longer, batches "
     "that get larger, or work that grows with the model (densification)."},
    {"workers", "memory_growth", "memory of workers",
     "Each worker retains what its dataset caches, and copies the pages of Python objects that it "
     "reads: bound the caches of the dataset, keep its data in arrays or tensors instead of lists "
     "of Python objects, or leave out persistent_workers=True."},
    {"", "memory_growth", "memory",
     "Log with profile_tensors on to see which category grows, or record with plimsoll run to see "
     "which line."},
    {"*", "memory_growth", "tensors",
     "Record some iterations with plimsoll run: its report names the line that allocates what is "
     "retained."},
}};

const GrowthWords& words_for(const std::string& category) {
  const auto found =
      std::ranges::find(kGrowthWords, std::string_view(category), &GrowthWords::category);
  return found == kGrowthWords.end() ? kGrowthWords.back() : *found;
}

std::string span_text(const Trend& trend, const std::string& step) {
  return "from " + step + " " + std::to_string(trend.first_iteration) + " to " +
         std::to_string(trend.last_iteration);
}

std::string capital(std::string text) {
  if (!text.empty() && text.front() >= 'a' && text.front() <= 'z') {
    text.front() = static_cast<char>(text.front() - 'a' + 'A');
  }
  return text;
}

std::optional<double> iterations_left(const DeviceMemory& device, double bytes_per_iteration) {
  if (!device.used_bytes || !device.total_bytes || *device.total_bytes <= *device.used_bytes) {
    return std::nullopt;
  }
  return static_cast<double>(*device.total_bytes - *device.used_bytes) / bytes_per_iteration;
}

}  // namespace

// Returns the trend that shows the growth, over the whole run or its newest part. `whole` is the
// total that the series belongs to.
std::optional<Trend> Rules::rising(const Series& series, const Series& whole) const {
  const auto is_rising = [&](const std::optional<Trend>& trend,
                             const std::optional<Trend>& of_whole) {
    if (!trend || !of_whole || trend->per_iteration <= 0) return false;
    if (trend->confidence < options.least_confidence || !trend->goes_on()) return false;
    const auto grown = static_cast<double>(trend->grown());
    if (grown < static_cast<double>(options.least_growth_bytes)) return false;
    return sample::share_percent(grown, static_cast<double>(of_whole->first)) >=
               options.growth_percent ||
           of_whole->first == 0;
  };
  const auto all = series.long_trend();
  const auto recent = series.recent_trend();
  // Memory that has stopped growing is not a leak.
  const bool goes_on = !recent || recent->grown() > 0;
  if (goes_on && is_rising(all, whole.long_trend())) return all;
  if (is_rising(recent, whole.recent_trend())) return recent;
  return std::nullopt;
}

void Rules::growth(const std::string& device, const DeviceHistory& history) const {
  if (history.last.growth_bytes) return logged_growth(device, history);
  peak_growth(device, history, Peaks::kAll);
  more_large_tensors(device, history);
  if (history.categories.empty()) {
    if (const auto trend = rising(history.total, history.total)) grown(device, history, "", *trend);
    return;
  }
  const auto of = [&](const char* category) {
    const auto series = history.categories.find(category);
    return series == history.categories.end() ? std::nullopt
                                              : rising(series->second, history.total);
  };
  const auto parameters = of("parameter");
  for (const auto& [category, series] : history.categories) {
    // A growing model also has more gradients and optimizer state.
    if (parameters && (category == "gradient" || category == "optimizer_state")) continue;
    if (const auto trend = rising(series, history.total)) grown(device, history, category, *trend);
  }
}

void Rules::growth(const std::string& device, const DeviceHistory& history,
                   const Survivors& survivors) const {
  const auto growing = survivors.growing_on(device, history.last.live_bytes);
  if (!growing.empty()) more_large_tensors(device, history);
  peak_growth(device, history, Peaks::kThatRunOut);
  const bool is_model =
      std::ranges::find(growing, "parameter", &CategoryGrowth::category) != growing.end();
  for (const CategoryGrowth& growth : growing) {
    const std::string& category = growth.category;
    // A growing model also has more gradients and optimizer state.
    if (is_model && (category == "gradient" || category == "optimizer_state")) continue;
    left_behind(device, history, growth);
  }
}

// The samples of a monitor state what it judged. What grows may be freed and grow again, as in each
// epoch: what the largest sample had above the smallest one can be saved.
void Rules::logged_growth(const std::string& device, const DeviceHistory& history) const {
  const std::vector<MemoryShare>& growing = history.last.growing;
  if (!growing.empty()) more_large_tensors(device, history);
  peak_growth(device, history, Peaks::kThatRunOut);
  const bool is_model =
      std::ranges::find(growing, "parameter", &MemoryShare::name) != growing.end();
  for (const MemoryShare& share : growing) {
    if (is_model && (share.name == "gradient" || share.name == "optimizer_state")) continue;
    const auto series = history.categories.find(share.name);
    const auto sums =
        series == history.categories.end() ? std::nullopt : series->second.long_trend();
    Trend trend;
    trend.per_iteration = static_cast<double>(share.size_bytes);
    trend.last = sums ? sums->highest - sums->lowest : 0;
    MemoryAlert& alert = suspect_growth(device, share.name, trend);
    alert.title.resize(alert.title.find(": ") + 2);
    alert.title += sample::bytes_text(share.size_bytes) + " per " + options.step + " at " +
                   options.step + " " + std::to_string(iteration);
    if (sums && trend.last > 0) {
      const bool only_rises = trend.last == sums->grown();
      alert.evidence.push_back(std::string(only_rises ? "It rose from " : "It was between ") +
                               sample::bytes_text(static_cast<double>(sums->lowest)) +
                               (only_rises ? " to " : " and ") +
                               sample::bytes_text(static_cast<double>(sums->highest)) + " " +
                               span_text(*sums, options.step));
    }
    add_time_left(alert, history, trend.per_iteration);
  }
}

void Rules::left_behind(const std::string& device, const DeviceHistory& history,
                        const CategoryGrowth& growth) const {
  const LeftBehind& all = growth.all;
  Trend trend;
  trend.last = static_cast<std::int64_t>(all.bytes);
  trend.per_iteration = all.bytes_per_iteration;
  trend.first_iteration = all.first_iteration;
  trend.last_iteration = all.last_iteration;
  MemoryAlert& alert = suspect_growth(device, growth.category, trend);
  alert.evidence.push_back(std::to_string(all.allocations) + " allocations made in these " +
                           options.step + "s are still live at " + options.step + " " +
                           std::to_string(all.live_at_iteration));
  if (all.jumps > 0) {
    alert.evidence.push_back("It grew in " + std::to_string(all.jumps) + " jumps of " +
                             sample::bytes_text(all.bytes / all.jumps) +
                             " on average, as if each evaluation or epoch left something behind");
  }
  if (!growth.sites.empty()) {
    const LeftBehind& site = growth.sites.front();
    const std::string layer = sample::text_of(site.site.layer);
    const std::string op = sample::text_of(site.site.op);
    const std::string count = std::to_string(site.allocations);
    alert.evidence.push_back(
        (layer.empty() ? std::string("Code outside of layers") : "The layer " + layer) +
        " leaves most: " + sample::bytes_text(site.bytes_per_iteration) + " per " + options.step +
        ", in " + count + (site.allocations == 1 ? " allocation" : " allocations") +
        (op.empty() ? "" : " by " + op));
  }
  add_time_left(alert, history, all.bytes_per_iteration);
}

void Rules::grown(const std::string& device, const DeviceHistory& history,
                  const std::string& category, const Trend& trend) const {
  MemoryAlert& alert = suspect_growth(device, category, trend);
  alert.evidence.push_back("In " + std::to_string(trend.values) + " samples it rose from " +
                           sample::bytes_text(static_cast<double>(trend.first)) + " to " +
                           sample::bytes_text(static_cast<double>(trend.last)) +
                           " (Kendall's tau " + sample::number_text(trend.confidence) + ")");
  if (const auto layer = sample::most_grown(history.older_layers.shares, history.last.layers)) {
    alert.evidence.push_back("The layer that grew most is " + layer->first + ", by " +
                             sample::bytes_text(layer->second) + " since " + options.step + " " +
                             std::to_string(history.older_layers.iteration));
  }
  add_time_left(alert, history, trend.per_iteration);
}

MemoryAlert& Rules::suspect_growth(const std::string& device, const std::string& category,
                                   const Trend& trend) const {
  const GrowthWords& words = words_for(category);
  const std::string what =
      words.category == "*" ? "tensors of category " + category : std::string(words.what);
  const auto grown = static_cast<double>(trend.grown());
  Suspicion& suspicion = suspect(words.id, FindingSeverity::kWarning, device, category);
  suspicion.magnitude = grown;
  suspicion.repeats = Repeats::kIfWorse;
  MemoryAlert& alert = suspicion.alert;
  alert.title = capital(what) + " on " + device + " keep growing: " + sample::bytes_text(grown) +
                " more " + span_text(trend, options.step) + ", " +
                sample::bytes_text(trend.per_iteration) + " per " + options.step;
  const bool is_singular =
      category.empty() || category == "optimizer_state" || category == "workers";
  if (is_singular) alert.title.replace(alert.title.find("keep"), 4, "keeps");
  alert.steps = {step_up_to(words.step, static_cast<std::uint64_t>(trend.grown()))};
  return alert;
}

void Rules::add_time_left(MemoryAlert& alert, const DeviceHistory& history,
                          double bytes_per_iteration) const {
  const auto left = iterations_left(history.last, bytes_per_iteration);
  if (!left) return;
  const std::uint64_t free = *history.last.total_bytes - *history.last.used_bytes;
  alert.evidence.push_back("At this rate, the " + sample::bytes_text(free) +
                           " left on the device will last for " +
                           sample::number_text(*left, "%.0f") + " " + options.step + "s");
}

// The memory that an iteration needs in addition to what stays live between iterations.
void Rules::peak_growth(const std::string& device, const DeviceHistory& history,
                        Peaks peaks) const {
  if (!history.highest_peak_bytes) return;
  const auto trend = rising(history.height, history.height);
  if (!trend) return;
  if (peaks == Peaks::kThatRunOut) {
    const auto left = iterations_left(history.last, trend->per_iteration);
    const auto seen = static_cast<double>(trend->last_iteration - trend->first_iteration);
    if (!left || *left > seen) return;
  }
  const auto live = history.total.long_trend();
  if (live && live->grown() >= trend->grown() / 2) return;  // already reported
  grown(device, history, "peak", *trend);
  MemoryAlert& alert = found.back().alert;
  if (live) {
    alert.evidence.push_back("Memory live between " + options.step + "s is " +
                             sample::bytes_text(static_cast<double>(live->last)) +
                             " and does not explain it");
  }
}

void Rules::more_large_tensors(const std::string& device, const DeviceHistory& history) const {
  const auto trend = history.large_count.long_trend();
  if (!trend || trend->confidence < options.least_confidence || trend->per_iteration <= 0) return;
  if (trend->grown() < options.fewest_more_large_tensors) return;
  Suspicion& suspicion = suspect("more_large_tensors", FindingSeverity::kWarning, device, "");
  suspicion.magnitude = static_cast<double>(trend->grown());
  suspicion.repeats = Repeats::kIfWorse;
  MemoryAlert& alert = suspicion.alert;
  alert.title = "The number of large tensors keeps growing on " + device + ": " +
                std::to_string(trend->first) + " at " + options.step + " " +
                std::to_string(trend->first_iteration) + ", " + std::to_string(trend->last) +
                " at " + std::to_string(trend->last_iteration);
  alert.evidence.push_back("They hold " + sample::bytes_text(history.last.large_bytes) +
                           " now (Kendall's tau of their number " +
                           sample::number_text(trend->confidence) + ")");
  if (!history.last.large_tensors.empty()) {
    const LiveTensor& largest = history.last.large_tensors.front();
    alert.evidence.push_back("The largest is " + sample::bytes_text(largest.size_bytes) +
                             (largest.shape.empty() ? "" : ", " + largest.shape) +
                             (largest.dtype.empty() ? "" : " " + largest.dtype) +
                             (largest.category.empty() ? "" : ", " + largest.category) +
                             (largest.layer.empty() ? "" : ", created by " + largest.layer));
  }
  alert.steps = {{"Look for code that retains tensors of this kind from iteration to iteration."}};
}

// Not reported if CPU tensors explain it: their own growth is reported.
void Rules::host_growth(const Series& rss, const DeviceHistory* cpu) const {
  const auto trend = rising(rss, rss);
  if (!trend || trend->grown() < static_cast<std::int64_t>(options.least_reserved_bytes)) return;
  std::int64_t tensors = 0;
  if (cpu != nullptr) {
    for (const auto& of_tensors : {cpu->total.long_trend(), cpu->height.long_trend()}) {
      if (of_tensors) tensors = std::max(tensors, of_tensors->grown());
    }
  }
  // malloc may retain several times the memory of freed tensors, in pieces.
  if (tensors >= trend->grown() / 4) return;
  grown("host", DeviceHistory{}, "", *trend);
  MemoryAlert& alert = found.back().alert;
  alert.subject = "process";
  alert.evidence.push_back("Of that, CPU tensors explain " +
                           sample::bytes_text(static_cast<double>(tensors)));
  alert.steps.front().text =
      "Look for what is retained outside tensors: lists of batches, histories of results, caches "
      "of the data loader.";
}

// No sum of tensors explains it: a sample has the tensors of its own process only.
void Rules::worker_growth(const Series& workers) const {
  const auto trend = rising(workers, workers);
  if (!trend || trend->grown() < static_cast<std::int64_t>(options.least_reserved_bytes)) return;
  grown("host", DeviceHistory{}, "workers", *trend);
}

}  // namespace plimsoll::alerts

// Takes a sample of all live memory, in one walk over the recorder's table.
#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "alerts/survivors.h"
#include "base/per_thread.h"
#include "base/tensor_owner.h"
#include "monitor/device_watch.h"
#include "monitor/watch.h"
#include "plimsoll/monitor.h"
#include "probes/host_memory.h"
#include "probes/worker_memory.h"
#include "sample/live_rows.h"
#include "sample/names.h"
#include "sample/quantities.h"

namespace plimsoll {
namespace {

using sample::category_of;
using sample::text_of;

void sort_largest_first(std::vector<MemoryShare>& shares) {
  std::ranges::sort(shares, [](const MemoryShare& a, const MemoryShare& b) {
    return a.size_bytes != b.size_bytes ? a.size_bytes > b.size_bytes : a.name < b.name;
  });
}

// Sums by one field of a row, whose values are small numbers.
class Shares {
 public:
  void add(std::uint32_t key, std::uint64_t size_bytes) {
    if (key >= places_.size()) places_.resize(key + 1);
    std::uint32_t& place = places_[key];
    if (place == 0) {
      keys_.push_back(key);
      shares_.emplace_back();
      place = static_cast<std::uint32_t>(keys_.size());
    }
    MemoryShare& share = shares_[place - 1];
    share.size_bytes += size_bytes;
    ++share.count;
  }
  template <typename Name>
  std::vector<MemoryShare> largest_first(Name&& name) const {
    std::vector<MemoryShare> named = shares_;
    for (std::size_t i = 0; i < keys_.size(); ++i) named[i].name = name(keys_[i]);
    sort_largest_first(named);
    return named;
  }

 private:
  std::vector<std::uint32_t> places_;  // by key: 1 + its position, or 0
  std::vector<std::uint32_t> keys_;
  std::vector<MemoryShare> shares_;
};

std::optional<base::OwnedAs> owned_as(const plimsoll_live& row) {
  if (row.name == 0) return std::nullopt;
  switch (row.role) {
    case PLIMSOLL_ROLE_PARAMETER:
    case PLIMSOLL_ROLE_BUFFER:
      return base::OwnedAs::kParameterOrBuffer;
    case PLIMSOLL_ROLE_GRADIENT:
      return base::OwnedAs::kGradient;
    case PLIMSOLL_ROLE_OPTIMIZER_STATE:
      return base::OwnedAs::kOptimizerState;
    default:
      return std::nullopt;
  }
}

// The owner of an allocation, by the rules of the report: the module that owns its tensor, or else
// the layer that created it.
class Owners {
 public:
  explicit Owners(const std::vector<plimsoll_live>& rows) {
    for (const plimsoll_live& row : rows) {
      if (row.role == PLIMSOLL_ROLE_PARAMETER) parameters_.insert(text_of(row.name));
    }
  }
  std::string owner(std::uint32_t tensor_name, base::OwnedAs kind) const {
    const auto is_tensor = [&](std::string_view name) {
      return parameters_.contains(std::string(name));
    };
    return std::string(base::tensor_owner(text_of(tensor_name), kind, is_tensor));
  }
  // The parameter that the tensor is, or belongs to: the longest prefix that is one; empty: none.
  std::string_view parameter(std::string_view tensor_name) const {
    while (!tensor_name.empty() && !parameters_.contains(std::string(tensor_name))) {
      tensor_name = base::without_last(tensor_name);
    }
    return tensor_name;
  }
  std::string layer(const plimsoll_live& row) const {
    if (const auto kind = owned_as(row)) {
      std::string owned_by = owner(row.name, *kind);
      if (!owned_by.empty()) return owned_by;
    }
    return text_of(row.layer);
  }

 private:
  std::unordered_set<std::string> parameters_;
};

LiveTensor described(const plimsoll_live& row, const Owners& owners) {
  return {.name = text_of(row.name),
          .category = std::string(name_of(category_of(row))),
          .dtype = text_of(row.dtype),
          .shape = text_of(row.shape),
          .layer = owners.layer(row),
          .size_bytes = row.size_bytes};
}

constexpr std::size_t kMostComponents = 96;

class DeviceSums {
 public:
  void add(const plimsoll_live& row, std::uint64_t large_bytes) {
    ++memory_.live_count;
    memory_.live_bytes += row.size_bytes;
    categories_.add(static_cast<std::uint32_t>(category_of(row)), row.size_bytes);
    dtypes_.add(row.dtype, row.size_bytes);
    if (const auto kind = owned_as(row)) {
      owned_[static_cast<std::size_t>(*kind)].add(row.name, row.size_bytes);
      if (row.role == PLIMSOLL_ROLE_PARAMETER) note_parameter(row);
    } else {
      layers_.add(row.layer, row.size_bytes);
    }
    if (row.size_bytes <= large_bytes) return;
    ++memory_.large_count;
    memory_.large_bytes += row.size_bytes;
    large_.push_back(row);
  }
  DeviceMemory finish(std::string name, std::size_t large_tensors, const Owners& owners) {
    memory_.name = std::move(name);
    memory_.categories = categories_.largest_first(
        [](std::uint32_t category) { return std::string(base::kCategoryNames[category]); });
    memory_.dtypes = dtypes_.largest_first(
        [](std::uint32_t id) { return id != 0 ? text_of(id) : std::string("unknown"); });
    memory_.layers = layers(owners);
    memory_.components = components(owners);
    std::ranges::sort(large_, [](const plimsoll_live& a, const plimsoll_live& b) {
      return a.size_bytes != b.size_bytes ? a.size_bytes > b.size_bytes : a.serial < b.serial;
    });
    large_.resize(std::min(large_.size(), large_tensors));
    for (const plimsoll_live& row : large_) memory_.large_tensors.push_back(described(row, owners));
    return std::move(memory_);
  }

 private:
  std::vector<MemoryShare> layers(const Owners& owners) {
    std::unordered_map<std::string, MemoryShare> by_path;
    const auto merge = [&](const std::vector<MemoryShare>& shares) {
      for (const MemoryShare& share : shares) {
        MemoryShare& sum = by_path[share.name];
        sum.size_bytes += share.size_bytes;
        sum.count += share.count;
      }
    };
    merge(layers_.largest_first(sample::text_of));
    for (std::size_t kind = 0; kind < owned_.size(); ++kind) {
      merge(owned_[kind].largest_first([&](std::uint32_t tensor_name) {
        return owners.owner(tensor_name, static_cast<base::OwnedAs>(kind));
      }));
    }
    std::vector<MemoryShare> all;
    for (auto& [path, share] : by_path) all.push_back({path, share.size_bytes, share.count});
    sort_largest_first(all);
    return all;
  }

  // Of two parameters of one name, the newer one has replaced the older one, as in densification.
  void note_parameter(const plimsoll_live& row) {
    Parameter given{row.serial, row.size_bytes};
    const auto [newest, is_new] = parameters_.try_emplace(row.name, given);
    if (is_new) return;
    if (newest->second.serial < given.serial) std::swap(newest->second, given);
    replaced_.add(row.name, given.size_bytes);
  }

  std::vector<MemoryShare> components(const Owners& owners) {
    constexpr std::array<const char*, 3> kRoles = {"parameters", "gradients", "optimizer_state"};
    static_assert(static_cast<std::size_t>(base::OwnedAs::kOptimizerState) == 2);
    std::unordered_map<std::string, MemoryShare> by_name;
    for (std::size_t kind = 0; kind < owned_.size(); ++kind) {
      for (const MemoryShare& share : owned_[kind].largest_first(sample::text_of)) {
        const std::string_view parameter = owners.parameter(share.name);
        const std::string_view component = base::component_of_parameter(parameter);
        if (component.empty()) continue;
        MemoryShare& sum = by_name[std::string(component) + "/" + kRoles[kind]];
        sum.size_bytes += share.size_bytes;
        sum.count += share.count;
      }
    }
    for (const MemoryShare& share : replaced_.largest_first(sample::text_of)) {
      const std::string component(base::component_of_parameter(owners.parameter(share.name)));
      if (component.empty()) continue;
      MemoryShare& replaced = by_name[component + "/replaced"];
      replaced.size_bytes += share.size_bytes;
      replaced.count += share.count;
      MemoryShare& current = by_name[component + "/parameters"];
      current.size_bytes -= share.size_bytes;
      current.count -= share.count;
    }
    std::vector<MemoryShare> all;
    for (auto& [name, share] : by_name) all.push_back({name, share.size_bytes, share.count});
    sort_largest_first(all);
    all.resize(std::min(all.size(), kMostComponents));
    return all;
  }

  struct Parameter {
    std::uint64_t serial = 0;
    std::uint64_t size_bytes = 0;
  };

  DeviceMemory memory_;
  std::unordered_map<std::uint32_t, Parameter> parameters_;  // the newest, by name
  Shares replaced_;                                          // others of the same name
  Shares categories_;
  Shares dtypes_;
  Shares layers_;                // memory that no module owns
  std::array<Shares, 3> owned_;  // the rest, by tensor name; indexed by OwnedAs
  std::vector<plimsoll_live> large_;
};

base::Category category_of_use(std::size_t use) {
  switch (use) {
    case PLIMSOLL_ROLE_KNOWN:
      return base::Category::kOther;
    case PLIMSOLL_USE_FORWARD:
      return base::Category::kActivation;
    case PLIMSOLL_USE_BACKWARD:
      return base::Category::kActivationGradient;
    case PLIMSOLL_USE_OPTIMIZER:  // at a peak between two samples: freed before the step ended
      return base::Category::kOptimizerScratch;
    case PLIMSOLL_USE_TEMPORARY:
      return base::Category::kTemporary;
    case PLIMSOLL_USE_ADOPTED:
      return base::Category::kUnknown;
    default:
      return static_cast<base::Category>(use - 1);  // a role
  }
}

// A peak may be slightly newer than peak_bytes.
void report_peak(DeviceMemory& memory, const plimsoll_peak& peak, const Owners& owners) {
  if (peak.bytes == 0 || peak.bytes != memory.peak_bytes) return;
  // Far less than now: the memory it replaced was live at the peak, and was freed before the
  // search.
  for (const std::size_t role : {PLIMSOLL_ROLE_PARAMETER, PLIMSOLL_ROLE_OPTIMIZER_STATE}) {
    const std::uint64_t now =
        sample::bytes_of_name(memory.categories, std::string(base::kRoleNames[role]));
    if (peak.uses[role] > 0 && 2 * peak.uses[role] < now) return;
  }
  for (std::size_t use = 0; use < PLIMSOLL_USES; ++use) {
    if (peak.uses[use] == 0) continue;
    memory.at_peak.push_back({std::string(name_of(category_of_use(use))), peak.uses[use], 0});
  }
  sort_largest_first(memory.at_peak);
  memory.peak_phase = name_of(base::phase_of(peak.phase));
  for (std::size_t i = 0; i < peak.largest_count; ++i) {
    const plimsoll_live& row = peak.largest[i];
    LiveTensor& tensor = memory.peak_tensors.emplace_back(described(row, owners));
    const bool is_other = category_of(row) == base::Category::kOther;
    if (is_other && row.phase == PLIMSOLL_PHASE_OPTIMIZER) {
      tensor.category = name_of(base::Category::kOptimizerScratch);
    }
    if (row.is_temporary != 0) tensor.category = name_of(base::Category::kTemporary);
  }
}

void report_growth(DeviceMemory& memory, const alerts::Survivors& survivors) {
  if (!survivors.is_known_on(memory.name)) return;
  std::uint64_t bytes = 0;
  for (const alerts::CategoryGrowth& growth :
       survivors.growing_on(memory.name, memory.live_bytes)) {
    const auto rate = static_cast<std::uint64_t>(std::llround(growth.all.bytes_per_iteration));
    memory.growing.push_back({growth.category, rate, growth.all.allocations});
    bytes += rate;
  }
  memory.growth_bytes = bytes;
}

// A program keeps these whether operators use them or not.
bool is_kept(const plimsoll_live& row) {
  const base::Category category = category_of(row);
  return category == base::Category::kParameter || category == base::Category::kBuffer ||
         category == base::Category::kOptimizerState || category == base::Category::kWorkspace;
}

void report_unused(DeviceMemory& memory, std::uint8_t device,
                   const std::vector<plimsoll_live>& rows, const Owners& owners) {
  std::unordered_map<std::string, MemoryShare> by_layer;
  memory.unused_bytes = 0;
  for (const plimsoll_live& row : rows) {
    if (row.device != device || is_kept(row)) continue;
    *memory.unused_bytes += row.size_bytes;
    MemoryShare& share = by_layer[owners.layer(row)];
    share.size_bytes += row.size_bytes;
    ++share.count;
  }
  for (auto& [layer, share] : by_layer) {
    memory.unused.push_back({layer, share.size_bytes, share.count});
  }
  sort_largest_first(memory.unused);
}

std::int64_t now_ns(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// The CPU time of this process since this thread's previous sample, in percent of one core; nullopt
// for the first sample.
std::optional<double> processor_percent() {
  thread_local std::int64_t last_used_ns [[gnu::tls_model("initial-exec")]] = 0;
  thread_local std::int64_t last_ns [[gnu::tls_model("initial-exec")]] = 0;
  const std::int64_t used_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID);
  const std::int64_t ns = now_ns(CLOCK_MONOTONIC);
  const std::int64_t used_before_ns = std::exchange(last_used_ns, used_ns);
  const std::int64_t before_ns = std::exchange(last_ns, ns);
  // In a forked child, the process's clock starts from 0.
  if (before_ns == 0 || ns <= before_ns || used_ns < used_before_ns) return std::nullopt;
  return 100.0 * static_cast<double>(used_ns - used_before_ns) /
         static_cast<double>(ns - before_ns);
}

void merge_reported(std::vector<DeviceMemory>& devices, std::vector<DeviceMemory> reported) {
  for (DeviceMemory& from : reported) {
    const auto found = std::ranges::find(devices, from.name, &DeviceMemory::name);
    if (found == devices.end()) {
      devices.push_back(std::move(from));
      continue;
    }
    // The allocator's own figures are exact; the recorder's are used if it has none.
    if (from.allocated_bytes) found->allocated_bytes = from.allocated_bytes;
    if (from.reserved_bytes) found->reserved_bytes = from.reserved_bytes;
    found->used_bytes = from.used_bytes;
    found->total_bytes = from.total_bytes;
    if (!found->peak_bytes) found->peak_bytes = from.peak_bytes;
  }
}

// The newest known usage of each device.
void report_bars(std::vector<DeviceMemory>& devices) {
  for (const monitor::DeviceReading& reading : monitor::device_readings()) {
    const std::string name = base::device_name(base::DeviceType::kCuda, reading.ordinal);
    const auto found = std::ranges::find(devices, name, &DeviceMemory::name);
    if (found == devices.end()) continue;
    found->uuid = reading.uuid;
    base::DeviceFigures figures = reading.figures;
    if (!figures.reserved_bytes) {  // not recorded; the device source has the figure
      figures.allocated_bytes = found->allocated_bytes;
      figures.reserved_bytes = found->reserved_bytes;
    }
    found->bar = base::device_bar(figures);
    if (!found->bar) continue;
    found->bar->time_ns = reading.time_ns;
    if (found->used_bytes) continue;
    found->used_bytes = found->bar->used_bytes;
    found->total_bytes = found->bar->total_bytes;
  }
}

}  // namespace

struct SampleTaker {
  static MemorySample take(const SampleOptions& options, alerts::Survivors* survivors) {
    MemorySample sample;
    sample.time_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();
    sample.iteration = options.iteration;
    sample.loss = options.loss;
    sample.large_tensor_bytes = options.large_tensor_bytes;
    sample.host = probes::read_host_memory();
    sample.host.cpu_percent = processor_percent();
    const probes::WorkerMemory workers = probes::read_own_worker_memory();
    sample.host.worker_count = workers.count;
    if (workers.count > 0) sample.host.workers_bytes = workers.private_bytes;

    // Reused between samples: fresh memory costs more than filling it.
    auto& rows = base::PerThread<std::vector<plimsoll_live>, SampleTaker>::get();
    monitor::read_live_rows(rows);
    const PeakSpan* span = options.peak_since;
    monitor::LiveMemory held =
        monitor::live_memory(span != nullptr ? span->watch_ : 0, span != nullptr ? span->id_ : 0);
    if (survivors != nullptr) survivors->observe(options.iteration, rows, held.recorded);
    const Owners owners(rows);
    std::vector<DeviceSums> sums(held.recorded.size());
    for (const plimsoll_live& row : rows) {
      if (row.device < sums.size()) sums[row.device].add(row, options.large_tensor_bytes);
    }
    std::vector<plimsoll_live> unused;
    const bool is_use_known =
        options.use_steps != nullptr && read_unused(*options.use_steps, unused);
    for (const plimsoll_usage& device : held.recorded) {
      sample.devices.push_back(
          sums[device.device].finish(sample::device_name(device), options.large_tensors, owners));
      DeviceMemory& memory = sample.devices.back();
      if (held.has_span) {
        memory.peak_bytes = device.peak_bytes;
        report_peak(memory, held.peaks[device.device], owners);
      }
      if (survivors != nullptr) report_growth(memory, *survivors);
      if (is_use_known) report_unused(memory, device.device, unused, owners);
      if (device.has_segments == 0) continue;
      memory.allocated_bytes = device.live_bytes;
      memory.reserved_bytes = device.reserved_bytes;
    }
    merge_reported(sample.devices, std::move(held.reported));
    report_bars(sample.devices);
    return sample;
  }

 private:
  static bool read_unused(const UseSteps& steps, std::vector<plimsoll_live>& rows) {
    const UseSteps::Point& since = steps.ends_.front();
    return monitor::read_unused_rows({since.clock, since.span}, rows);
  }
};

void UseSteps::end_step() {
  const plimsoll_use_point now = plimsoll_use_point_now();
  ends_ = {ends_[1], ends_[2], {.clock = now.clock, .span = now.span}};
}

MemorySample take_sample(const SampleOptions& options) {
  return SampleTaker::take(options, nullptr);
}

MemorySample monitor::sample_and_observe(const SampleOptions& options,
                                         alerts::Survivors& survivors) {
  return SampleTaker::take(options, &survivors);
}

}  // namespace plimsoll

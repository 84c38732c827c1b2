#include "top/probe.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "probes/system_files.h"

namespace plimsoll::top {
namespace {

constexpr std::size_t kMostProcesses = 10;

std::string clock_text() {
  const time_t now = ::time(nullptr);
  tm local{};
  ::localtime_r(&now, &local);
  std::array<char, 16> text;
  const std::size_t size = ::strftime(text.data(), text.size(), "%H:%M:%S", &local);
  return {text.data(), size};
}

std::size_t count_descendants(int pid, const std::multimap<int, int>& children) {
  std::size_t count = 0;
  std::vector<int> waiting = {pid};
  while (!waiting.empty() && count < children.size()) {
    const auto [from, to] = children.equal_range(waiting.back());
    waiting.pop_back();
    for (auto at = from; at != to; ++at, ++count) waiting.push_back(at->second);
  }
  return count;
}

}  // namespace

TopProbe::TopProbe(TopSources sources)
    : sources_(std::move(sources)),
      nvml_({.library = sources_.nvml, .read_every_ns = sources_.interval_ns}) {}

TopView TopProbe::sample_devices() {
  TopView view;
  view.clock = clock_text();
  sample_gpus(view);
  sample_host(view);
  return view;
}

TopView TopProbe::sample() {
  TopView view = sample_devices();
  sample_processes(view);
  sample_runs(view);
  report_gpu_processes(view);
  return view;
}

void TopProbe::wait_for_answers(std::int64_t wait_ns) {
  const std::int64_t until_ns = live::live_status_clock_ns() + wait_ns;
  nvml_.first_view(wait_ns);
  while (true) {
    watch_who_is_there();
    const std::int64_t now_ns = live::live_status_clock_ns();
    bool is_waiting = false;
    for (auto& [pid, watched] : watched_) {
      take_sample(watched, now_ns);
      is_waiting = is_waiting || !watched.sample;
    }
    if (!is_waiting || now_ns >= until_ns) return;
    constexpr timespec kShort{0, 20'000'000};
    ::nanosleep(&kShort, nullptr);
  }
}

void TopProbe::sample_gpus(TopView& view) {
  probes::GpuView gpus = nvml_.view();
  const std::int64_t now_ns = live::live_status_clock_ns();
  view.gpu_is_known = gpus.is_known;
  view.why_no_gpu = std::move(gpus.why_none);
  view.gpu_age_ns = gpus.age_ns;
  for (probes::GpuDevice& device : gpus.devices) {
    Trend& trend = gpu_trends_[device.index];
    if (device.used_bytes) trend.add(now_ns, *device.used_bytes);
    view.gpus.push_back({std::move(device), {}, trend});
  }
}

void TopProbe::sample_host(TopView& view) {
  view.machine = probes::read_machine_memory(sources_.root);
  const std::string who = sources_.pid ? std::to_string(*sources_.pid) : "self";
  view.cgroup = probes::read_cgroup_memory(sources_.root, who);
  const auto& machine = view.machine;
  if (machine.total_bytes && machine.available_bytes) {
    host_trend_.add(
        live::live_status_clock_ns(),
        *machine.total_bytes - std::min(*machine.total_bytes, *machine.available_bytes));
  }
  view.host_trend = host_trend_;
}

std::string TopProbe::command_of(int pid) const {
  std::string command = probes::read_command_line(pid, sources_.root);
  if (!command.empty()) return command;
  const auto memory = probes::read_process_memory(pid, probes::Depth::kQuick, sources_.root);
  return memory ? memory->name : std::string();
}

// PSS is read rarely, and only for the process family that the user selected.
probes::ProcessFamily TopProbe::family_of(int pid, std::int64_t now_ns) {
  const bool is_asked = sources_.pid == pid;
  const bool is_due = is_asked && (pss_ns_ == 0 || now_ns - pss_ns_ >= sources_.pss_every_ns);
  const auto depth = is_due ? probes::Depth::kWithPss : probes::Depth::kQuick;
  auto family =
      probes::read_process_family(pid, depth, sources_.root).value_or(probes::ProcessFamily{});
  if (!is_asked) return family;
  std::vector<probes::ProcessMemory*> members = {&family.parent};
  for (probes::ChildMemory& child : family.children) members.push_back(&child.memory);
  if (is_due) {
    pss_ns_ = now_ns;
    pss_bytes_.clear();
    for (const probes::ProcessMemory* member : members) {
      if (member->pss_bytes) pss_bytes_[member->pid] = *member->pss_bytes;
    }
    return family;
  }
  family.pss_sum_bytes = 0;
  for (probes::ProcessMemory* member : members) {
    const auto known = pss_bytes_.find(member->pid);
    if (known != pss_bytes_.end()) member->pss_bytes = known->second;
    if (!member->pss_bytes) family.pss_sum_bytes.reset();
    if (family.pss_sum_bytes) *family.pss_sum_bytes += *member->pss_bytes;
  }
  return family;
}

void TopProbe::sample_processes(TopView& view) {
  const std::int64_t now_ns = live::live_status_clock_ns();
  std::vector<probes::ProcessEntry> list = probes::list_processes(sources_.root);
  std::multimap<int, int> children;
  for (const auto& entry : list) children.emplace(entry.parent_pid, entry.pid);
  std::map<int, probes::ProcessMemory> of_family;
  std::map<int, std::string> kinds;
  if (sources_.pid) {
    probes::ProcessFamily family = family_of(*sources_.pid, now_ns);
    of_family[family.parent.pid] = family.parent;
    for (const auto& child : family.children) {
      of_family[child.memory.pid] = child.memory;
      if (child.kind == probes::ChildKind::kProgram) continue;
      kinds[child.memory.pid] = to_string(child.kind);
    }
    std::erase_if(list, [&](const auto& entry) { return of_family.count(entry.pid) == 0; });
  }
  std::ranges::sort(list, std::ranges::greater(), &probes::ProcessEntry::rss_bytes);
  for (const probes::ProcessEntry& entry : list) {
    if (view.processes.size() == kMostProcesses || entry.rss_bytes == 0) return;
    const auto known = of_family.find(entry.pid);
    auto memory = known != of_family.end() ? std::optional(known->second)
                                           : probes::read_process_memory(
                                                 entry.pid, probes::Depth::kQuick, sources_.root);
    if (!memory) continue;
    view.processes.push_back({std::move(*memory),
                              probes::read_command_line(entry.pid, sources_.root), kinds[entry.pid],
                              count_descendants(entry.pid, children)});
  }
}

void TopProbe::watch_who_is_there() {
  const std::int64_t now_ns = live::live_status_clock_ns();
  std::set<int> shown;
  for (const live::LiveStatusPlace& place : live::find_live_statuses(sources_.live_folders)) {
    shown.insert(place.pid);
    if (watched_.count(place.pid) != 0 || (sources_.pid && *sources_.pid != place.pid)) continue;
    auto reader = live::LiveStatusReader::open(place);
    if (!reader || !reader->is_alive()) continue;
    const auto before = reader->read();
    watched_.emplace(place.pid, Watched{std::move(reader).value(), command_of(place.pid), now_ns,
                                        before ? before->time_ns : 0});
  }
  // Requests samples for slightly longer than until the next reading.
  constexpr std::int64_t kLeastNs = 3'000'000'000;
  for (auto at = watched_.begin(); at != watched_.end();) {
    live::LiveStatusReader& reader = at->second.reader;
    const bool is_there = shown.count(at->first) != 0 && reader.is_alive() &&
                          reader.ask_for(2 * sources_.interval_ns + kLeastNs).ok();
    at = is_there ? std::next(at) : watched_.erase(at);
  }
}

void TopProbe::take_sample(Watched& watched, std::int64_t now_ns) {
  auto sample = watched.reader.read();
  if (!sample || sample->time_ns == watched.before_ns) return;
  if (watched.sample && watched.sample->time_ns == sample->time_ns) return;
  watched.fresh_ns = now_ns;
  for (const DeviceMemory& device : sample->devices) {
    std::uint64_t& peak = watched.peaks[device.name];
    peak = std::max({peak, live_bytes(device), device.peak_bytes.value_or(0)});
    Trend& trend = watched.trends[device.name];
    trend.add(now_ns, live_bytes(device), sample->iteration);
    if (!device.categories.empty()) trend.set_left_behind(device.growth_bytes);
  }
  watched.sample = std::move(sample);
}

void TopProbe::sample_runs(TopView& view) {
  watch_who_is_there();
  const std::int64_t now_ns = live::live_status_clock_ns();
  for (auto& [pid, watched] : watched_) {
    take_sample(watched, now_ns);
    TopRun run;
    run.pid = pid;
    run.command = watched.command;
    run.sample = watched.sample;
    run.age_ns = now_ns - (watched.sample ? watched.fresh_ns : watched.asked_ns);
    run.family = family_of(pid, now_ns);
    if (run.sample) {
      for (DeviceMemory& device : run.sample->devices) {
        const std::string name = device.name;
        run.devices.push_back({std::move(device), watched.peaks[name], watched.trends[name]});
      }
      run.sample->devices.clear();
    }
    view.runs.push_back(std::move(run));
  }
}

void TopProbe::report_gpu_processes(TopView& view) const {
  const bool are_ours = !sources_.root.empty() || probes::are_driver_pids_ours();
  for (TopGpu& gpu : view.gpus) {
    for (const probes::GpuProcess& process : gpu.device.processes) {
      gpu.processes.push_back(
          {process.pid, are_ours ? command_of(process.pid) : "", process.used_bytes, {}});
    }
  }
  for (const TopRun& run : view.runs) {
    for (const TopRunDevice& device : run.devices) {
      // By UUID: CUDA numbers only the visible devices, the driver numbers all of them.
      const std::string& uuid = device.memory.uuid;
      const auto gpu =
          std::ranges::find(view.gpus, uuid, [](const TopGpu& each) { return each.device.uuid; });
      if (uuid.empty() || gpu == view.gpus.end()) continue;
      const std::uint64_t bytes = device.memory.reserved_bytes.value_or(live_bytes(device.memory));
      const auto known = std::ranges::find(gpu->processes, run.pid, &TopGpuProcess::pid);
      if (are_ours && known != gpu->processes.end()) {
        known->recorded_bytes = bytes;
      } else {
        gpu->processes.push_back({run.pid, run.command, {}, bytes});
      }
    }
  }
}

}  // namespace plimsoll::top

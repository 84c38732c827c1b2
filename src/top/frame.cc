#include "top/frame.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "base/device_bar.h"
#include "base/suggestion.h"
#include "base/units.h"
#include "text/layout.h"
#include "text/table.h"
#include "top/text.h"

namespace plimsoll::top {
namespace {

using text::Style;
using text::TextTable;

constexpr std::size_t kBarColumns = 20;
constexpr std::size_t kTrendColumns = 30;  // a sample every two seconds, for a minute
constexpr std::size_t kWide = 120;         // columns from which the peak has a column
constexpr std::size_t kNarrowestTrend = 6;
constexpr std::size_t kMostShares = 8;
// Maximum width of the columns to the left of the commands in a table.
constexpr std::size_t kGpuColumns = 50;
constexpr std::size_t kProcessColumns = 75;
constexpr std::int64_t kOldNs = 10'000'000'000;

std::string size_text(std::optional<std::uint64_t> bytes) {
  return bytes ? base::bytes_text(*bytes) : "-";
}

double share_of(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// Whole percent, rounded down, so that 99.9% does not appear as full.
std::string percent_text(std::uint64_t part, std::uint64_t whole) {
  return std::to_string(static_cast<int>(share_of(part, whole) * 100)) + "%";
}

std::string seconds_text(std::int64_t ns) { return std::to_string(ns / 1'000'000'000) + " s"; }

class Frame {
 public:
  Frame(const TopView& view, const TopSettings& settings) : view_(view), settings_(settings) {}

  std::vector<std::string> draw() {
    head();
    for (const TopRun& each : view_.runs) run(each);
    if (settings_.device != "cpu") gpus();
    if (settings_.device.empty() || settings_.device == "cpu") host();
    if (view_.runs.empty()) no_runs();
    for (std::string& line : lines_) line = cut_columns(line, settings_.width);
    return std::move(lines_);
  }

 private:
  void line(std::string text) { lines_.push_back(std::move(text)); }
  void table(const TextTable& table) {
    if (table.empty()) return;
    std::istringstream text(table.to_text(settings_.width, settings_.color));
    for (std::string one; std::getline(text, one);) line(one);
  }
  std::size_t room_behind(std::size_t columns) const {
    constexpr std::size_t kLeast = 24;
    return std::max(settings_.width, columns + kLeast) - columns;
  }
  std::string bold(std::string_view text) const {
    return text::styled(text, Style::kBold, settings_.color);
  }
  // Adds a line with sparkline, change and growth over the last minute, as far as they fit.
  void line_with(const std::string& text, std::size_t columns, const Trend& trend) {
    std::string change = trend.change();
    std::string growth = trend.growth();
    if (trend.has_steps() && !growth.empty()) change.clear();  // the same, of each step
    if (change.empty() && growth.empty()) return line(text);
    const std::size_t room = settings_.width - std::min(settings_.width, columns);
    if (!change.empty() && change.size() + growth.size() + 4 > room) growth.clear();
    const std::string comma = change.empty() || growth.empty() ? "" : ", ";
    const std::size_t figure_columns = 2 + change.size() + comma.size() + growth.size();
    if (room < figure_columns) return line(text);
    const std::size_t left = room - figure_columns;
    const std::size_t picture = left > 2 ? std::min(left - 2, kTrendColumns) : 0;
    line(text + (picture >= kNarrowestTrend ? "  " + trend.sparkline(picture) : "") + "  " +
         (change.empty() ? "" : dim(change)) + comma +
         (growth.empty() ? "" : text::styled(growth, Style::kWarning, settings_.color)));
  }
  std::string dim(std::string_view text) const {
    return text::styled(text, Style::kDim, settings_.color);
  }

  void head();
  void usage(std::uint64_t used, std::uint64_t total, const std::string& of_what,
             const Trend& trend);
  void gpus();
  void gpu(const TopGpu& gpu);
  bool is_chosen(const TopGpu& gpu) const;
  void host();
  void cgroup();
  void host_details();
  void processes();
  void no_runs();
  void details(const std::string& text, std::size_t indent);
  void run(const TopRun& run);
  void run_device(const TopRunDevice& device);
  void run_tables(const DeviceMemory& memory);
  bool is_chosen(const TopRunDevice& device) const;
  void run_host(const TopRun& run);
  template <typename Process>
  std::vector<Process> sorted(std::vector<Process> list) const;

  const TopView& view_;
  const TopSettings& settings_;
  std::vector<std::string> lines_;
};

std::string sort_name(TopSort sort) {
  switch (sort) {
    case TopSort::kMemory:
      return "memory";
    case TopSort::kPid:
      return "pid";
    case TopSort::kName:
      return "name";
  }
  return "";
}

std::string interval_text(double seconds) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%g s", seconds);
  return text.data();
}

void Frame::head() {
  std::string text = "every " + interval_text(settings_.interval_s);
  if (settings_.sort != TopSort::kMemory) text += ", by " + sort_name(settings_.sort);
  if (!settings_.device.empty()) {
    text += settings_.device == "cpu" ? ", only the host" : ", GPU " + settings_.device + " alone";
  }
  if (settings_.pid) text += ", process " + std::to_string(*settings_.pid) + " alone";
  line(bold("plimsoll top") + "  " + view_.clock + "  " + dim(text));
}

// "  [#####     ]  5.1 GiB of 23.5 GiB (21%)  ▁▂▃  +1.0 MiB in 60 s"
void Frame::usage(std::uint64_t used, std::uint64_t total, const std::string& of_what,
                  const Trend& trend) {
  constexpr double kNearlyFull = 0.9;
  constexpr double kFilling = 0.75;
  const double share = std::clamp(share_of(used, total), 0.0, 1.0);
  const auto filled = static_cast<std::size_t>(std::lround(share * kBarColumns));
  const Style style = share >= kNearlyFull ? Style::kCritical
                      : share >= kFilling  ? Style::kWarning
                                           : Style::kGood;
  const std::string begin = "  [" + text::styled(std::string(filled, '#'), style, settings_.color) +
                            std::string(kBarColumns - filled, ' ');
  const std::string end = "]  " + size_text(used) + " of " + size_text(total) + " (" +
                          percent_text(used, total) + ")" + of_what;
  line_with(begin + end, 3 + kBarColumns + text::display_width(end), trend);
}

bool Frame::is_chosen(const TopGpu& gpu) const {
  const std::string& index = gpu.device.index;
  return settings_.device.empty() || index.substr(0, index.find(':')) == settings_.device;
}

void Frame::gpus() {
  if (!view_.gpu_is_known) {
    line("");
    line("The NVIDIA driver has not answered for " + seconds_text(view_.gpu_age_ns) + ".");
    return;
  }
  if (!view_.why_no_gpu.empty()) {
    line("");
    const std::string why = "No GPU: " + text::printable(view_.why_no_gpu) + ".";
    for (const std::string& each : wrapped_lines(why, 2, settings_.width)) line(dim(each));
    return;
  }
  for (const TopGpu& each : view_.gpus) {
    if (is_chosen(each)) gpu(each);
  }
  if (view_.gpu_age_ns > kOldNs) {
    line("  The NVIDIA driver has not answered for " + seconds_text(view_.gpu_age_ns) +
         "; these figures are its last answer.");
  }
}

void Frame::gpu(const TopGpu& gpu) {
  const probes::GpuDevice& device = gpu.device;
  line("");
  std::vector<std::string> details;
  if (device.busy_percent) details.push_back("busy " + std::to_string(*device.busy_percent) + "%");
  if (device.reserved_bytes.value_or(0) > 0) {
    details.push_back(size_text(device.reserved_bytes) + " more for the driver itself");
  }
  line(bold("GPU " + device.index + "  " + text::printable(device.name)) +
       (details.empty() ? "" : "  " + dim(base::joined(details))));
  if (device.used_bytes && device.total_bytes) {
    usage(*device.used_bytes, *device.total_bytes, "", gpu.trend);
  } else {
    line("  its memory is not reported by this driver");
  }
  TextTable table({{"PID", TextTable::Align::kNumber},
                   {"MEMORY", TextTable::Align::kNumber},
                   {"SOURCE", TextTable::Align::kWords},
                   {"COMMAND", TextTable::Align::kWords}});
  for (const TopGpuProcess& process : sorted(gpu.processes)) {
    const bool is_recorded = !process.used_bytes && process.recorded_bytes;
    const std::string teller = process.used_bytes ? "driver"
                               : is_recorded      ? "recording"
                                                  : "not reported by this driver";
    table.add_row({std::to_string(process.pid),
                   size_text(is_recorded ? process.recorded_bytes : process.used_bytes), teller,
                   short_command(process.command, room_behind(kGpuColumns))});
  }
  this->table(table);
  if (!device.reports_processes) line(dim("  its processes are not reported by this driver"));
}

std::uint64_t memory_of(const TopGpuProcess& process) {
  return process.used_bytes.value_or(process.recorded_bytes.value_or(0));
}
int pid_of(const TopGpuProcess& process) { return process.pid; }
std::uint64_t memory_of(const TopProcess& process) { return process.memory.rss_bytes.value_or(0); }
int pid_of(const TopProcess& process) { return process.memory.pid; }

template <typename Process>
std::vector<Process> Frame::sorted(std::vector<Process> list) const {
  const auto before = [&](const Process& a, const Process& b) {
    if (settings_.sort == TopSort::kMemory && memory_of(a) != memory_of(b)) {
      return memory_of(a) > memory_of(b);
    }
    if (settings_.sort == TopSort::kName && a.command != b.command) return a.command < b.command;
    return pid_of(a) < pid_of(b);
  };
  std::ranges::sort(list, before);
  return list;
}

void Frame::host() {
  line("");
  line(bold("Host"));
  const probes::MachineMemory& machine = view_.machine;
  if (machine.total_bytes && machine.available_bytes) {
    const std::uint64_t total = *machine.total_bytes;
    usage(total - std::min(total, *machine.available_bytes), total, "", view_.host_trend);
  } else {
    line("  its memory is not reported by this system");
  }
  cgroup();
  host_details();
  processes();
}

void Frame::cgroup() {
  if (!view_.cgroup || !view_.cgroup->limit_bytes) return;
  const probes::CgroupMemory& group = *view_.cgroup;
  usage(group.used_bytes().value_or(0), *group.limit_bytes,
        ", the limit of cgroup " + text::printable(group.path), {});
  if (group.inactive_file_bytes.value_or(0) > 0) {
    line(dim("  and " + size_text(group.inactive_file_bytes) +
             " of file cache, which the kernel reclaims before it kills"));
  }
  if (group.oom_kills.value_or(0) > 0) {
    const bool is_one = *group.oom_kills == 1;
    line(text::styled(
        "  " + base::format_count(*group.oom_kills) +
            (is_one ? " process of this cgroup was" : " processes of this cgroup were") +
            " killed by the OOM killer",
        Style::kCritical, settings_.color));
  }
}

// Adds a dimmed sentence, wrapped to as many lines as necessary.
void Frame::details(const std::string& text, std::size_t indent) {
  std::vector<std::string> lines = wrapped_lines(text, indent, settings_.width);
  lines.front().insert(0, "  ");
  for (const std::string& each : lines) line(dim(each));
}

void Frame::host_details() {
  const probes::MachineMemory& machine = view_.machine;
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (machine.swap_total_bytes.value_or(0) > 0) {
    const std::uint64_t total = *machine.swap_total_bytes;
    add("swap " + size_text(total - std::min(total, machine.swap_free_bytes.value_or(0))) + " of " +
        size_text(total));
  }
  if (machine.shared_memory) {
    add("/dev/shm " + size_text(machine.shared_memory->used_bytes) + " of " +
        size_text(machine.shared_memory->size_bytes));
  }
  const auto& pressure = view_.cgroup && view_.cgroup->limit_bytes && view_.cgroup->pressure
                             ? view_.cgroup->pressure
                             : machine.pressure;
  if (pressure) {
    add("waiting for memory " + base::format_percent(pressure->some_percent_10s / 100) +
        " of the last 10 s");
  }
  if (!text.empty()) details(text, 4);
}

void Frame::processes() {
  const bool has_pss = std::ranges::any_of(view_.processes, [](const TopProcess& process) {
    return process.memory.pss_bytes.has_value();
  });
  std::vector<TextTable::Column> columns;
  for (const char* header : {"PID", "RSS", "PSS", "PEAK", "SHARED", "SWAP", "CHILDREN"}) {
    if (has_pss || std::string_view(header) != "PSS") columns.push_back({header});
  }
  columns.push_back({"COMMAND", TextTable::Align::kWords});
  TextTable table(std::move(columns));
  for (const TopProcess& process : sorted(view_.processes)) {
    const probes::ProcessMemory& memory = process.memory;
    std::optional<std::uint64_t> shared = memory.file_bytes;
    if (shared) *shared += memory.shared_memory_bytes.value_or(0);
    std::vector<std::string> cells = {std::to_string(memory.pid), size_text(memory.rss_bytes)};
    if (has_pss) cells.push_back(size_text(memory.pss_bytes));
    cells.push_back(size_text(memory.peak_rss_bytes));
    cells.push_back(size_text(shared));
    cells.push_back(size_text(memory.swap_bytes));
    cells.push_back(process.child_count == 0 ? "" : std::to_string(process.child_count));
    const std::string& command = process.command.empty() ? memory.name : process.command;
    const std::string kind = process.kind.empty() ? "" : process.kind + ": ";
    const std::size_t room = room_behind(kProcessColumns);
    cells.push_back(kind + short_command(command, room - std::min(room, kind.size())));
    table.add_row(std::move(cells));
  }
  this->table(table);
}

void Frame::no_runs() {
  line("");
  line(dim("No recorded run of yours was found (plimsoll run SCRIPT)."));
}

void Frame::run(const TopRun& run) {
  line("");
  std::string title = bold("Run " + std::to_string(run.pid)) + "  " +
                      short_command(run.command, settings_.width / 2);
  if (run.sample && run.sample->iteration > 0) {
    title += "  iteration " + base::format_count(static_cast<std::uint64_t>(run.sample->iteration));
  }
  if (run.sample && run.sample->loss) {
    std::array<char, 32> loss;
    std::snprintf(loss.data(), loss.size(), "  loss %.6g", *run.sample->loss);
    title += loss.data();
  }
  line(title);
  if (!run.sample) {
    line("  no answer for " + seconds_text(run.age_ns));
  } else if (run.age_ns > kOldNs) {
    line("  has reported nothing new for " + seconds_text(run.age_ns));
  }
  run_host(run);
  for (const TopRunDevice& device : run.devices) {
    if (is_chosen(device)) run_device(device);
  }
}

bool Frame::is_chosen(const TopRunDevice& device) const {
  if (settings_.device.empty() || settings_.device == device.memory.name) return true;
  return device.memory.name == "cuda:" + settings_.device;
}

void Frame::run_host(const TopRun& run) {
  if (!run.family || (settings_.device != "cpu" && !settings_.device.empty())) return;
  const probes::ProcessFamily& family = *run.family;
  std::string text = "host: RSS " + size_text(family.parent.rss_bytes);
  if (!family.children.empty()) {
    const auto is_worker = [](const probes::ChildMemory& child) {
      return child.kind != probes::ChildKind::kProgram;
    };
    const auto workers = std::ranges::count_if(family.children, is_worker);
    text += ", with " + std::to_string(family.children.size()) + " children (" +
            std::to_string(workers) + " workers) " + size_text(family.rss_sum_bytes);
  }
  if (run.sample && run.sample->host.workers_bytes) {
    text += ", private to workers " + size_text(run.sample->host.workers_bytes);
  }
  if (family.pss_sum_bytes) {
    text += ", counting shared pages once " + size_text(family.pss_sum_bytes);
  }
  details(text, 4);
}

std::uint64_t bytes_named(const std::vector<MemoryShare>& shares, const std::string& name) {
  const auto found = std::ranges::find(shares, name, &MemoryShare::name);
  return found == shares.end() ? 0 : found->size_bytes;
}

// The live categories, and those that were live at the peak only.
std::vector<MemoryShare> with_peak(std::vector<MemoryShare> categories,
                                   const std::vector<MemoryShare>& at_peak) {
  for (const MemoryShare& share : at_peak) {
    const bool is_live =
        std::ranges::find(categories, share.name, &MemoryShare::name) != categories.end();
    if (!is_live) categories.push_back({share.name, 0, 0});
  }
  return categories;
}

// " ▲ 512.0 KiB per step"; empty if the category does not grow.
std::string growth_mark(const DeviceMemory& memory, const std::string& category) {
  const std::uint64_t bytes = bytes_named(memory.growing, category);
  return bytes == 0 ? "" : " \u25B2 " + size_text(bytes) + " per step";
}

void Frame::run_device(const TopRunDevice& device) {
  const DeviceMemory& memory = device.memory;
  const std::string name = text::printable(memory.name);
  std::string text = size_text(live_bytes(memory));
  if (memory.live_count > 0) text += " in " + base::counted(memory.live_count, "tensor");
  text += ", peak " + size_text(device.peak_bytes);
  line_with("  " + bold(name) + "  " + text,
            4 + text::display_width(name) + text::display_width(text), device.trend);
  if (memory.reserved_bytes) {
    const auto ratio = fragmentation_ratio(memory);
    line(dim("  reserved " + size_text(memory.reserved_bytes) +
             (ratio ? ", fragmentation " + base::format_percent(*ratio) : "")));
  }
  if (memory.bar) {
    details("of the whole GPU " + size_text(memory.bar->used_bytes) + " of " +
                size_text(memory.bar->total_bytes) + ": " +
                text::printable(base::parts_text(*memory.bar)),
            4);
  }
  run_tables(memory);
}

// The categories, those that grow marked, and the layers side by side. On a wide terminal, also
// what each category was at the peak.
void Frame::run_tables(const DeviceMemory& memory) {
  const bool has_peak = settings_.width >= kWide && !memory.at_peak.empty();
  std::vector<TextTable::Column> columns = {{"SIZE", TextTable::Align::kNumber},
                                            {"SHARE", TextTable::Align::kNumber}};
  if (has_peak) columns.push_back({"AT PEAK", TextTable::Align::kNumber});
  columns.insert(columns.end(), {{"CATEGORY", TextTable::Align::kWords},
                                 {"SIZE", TextTable::Align::kNumber},
                                 {"SHARE", TextTable::Align::kNumber},
                                 {"LAYER", TextTable::Align::kWords}});
  TextTable table(std::move(columns));
  const std::vector<MemoryShare> categories =
      has_peak ? with_peak(memory.categories, memory.at_peak) : memory.categories;
  const auto cells = [&](const std::vector<MemoryShare>& shares, std::size_t i) {
    if (i >= shares.size()) return std::array<std::string, 3>{};
    const MemoryShare& share = shares[i];
    return std::array<std::string, 3>{
        size_text(share.size_bytes), percent_text(share.size_bytes, memory.live_bytes),
        share.name.empty() ? "[no layer]" : text::printable(share.name)};
  };
  const std::size_t rows = std::min(kMostShares, std::max(categories.size(), memory.layers.size()));
  for (std::size_t i = 0; i < rows; ++i) {
    auto left = cells(categories, i);
    if (i < categories.size()) left[2] += growth_mark(memory, categories[i].name);
    const auto right = cells(memory.layers, i);
    std::vector<std::string> row = {left[0], left[1]};
    if (has_peak) {
      const bool is_row = i < categories.size();
      row.push_back(is_row ? size_text(bytes_named(memory.at_peak, categories[i].name))
                           : std::string());
    }
    row.insert(row.end(), {left[2], right[0], right[1], right[2]});
    table.add_row(std::move(row));
  }
  this->table(table);
}

std::string gigabytes(std::uint64_t bytes) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.1f GB", static_cast<double>(bytes) / (1 << 30));
  return text.data();
}

std::string one_liner(const std::string& what, std::uint64_t used, std::uint64_t total) {
  return what + " Memory: " + gigabytes(used) + " / " + gigabytes(total) + " (" +
         percent_text(used, total) + ")";
}

}  // namespace

std::vector<std::string> top_lines(const TopView& view, const TopSettings& settings) {
  return Frame(view, settings).draw();
}

std::string top_footer(const TopSettings& settings, bool is_paused) {
  const std::string device = settings.device.empty()    ? "all"
                             : settings.device == "cpu" ? "host"
                                                        : "GPU " + settings.device;
  return "q quit  s sort: " + sort_name(settings.sort) + "  d device: " + device + "  p " +
         (is_paused ? "continue (paused)" : "pause") + "  j k scroll  ? help";
}

std::vector<std::string> top_help() {
  return {"plimsoll top",
          "",
          "  q  Esc      quit",
          "  s           sort processes by memory, pid, name",
          "  d           show all devices, only one GPU, only the host",
          "  p  space    pause and continue",
          "  j k ↓ ↑     scroll; g to the top",
          "  ?  h        this page, and back",
          "",
          "Sparklines show the last minute, from its lowest to its highest value.",
          "RSS counts shared pages in full; PSS divides them among the processes that share them."};
}

std::vector<std::string> top_one_liners(const TopView& view) {
  std::vector<std::string> lines;
  for (const TopGpu& gpu : view.gpus) {
    if (!gpu.device.used_bytes || !gpu.device.total_bytes) continue;
    const std::string what = view.gpus.size() == 1 ? "GPU" : "GPU " + gpu.device.index;
    lines.push_back(one_liner(what, *gpu.device.used_bytes, *gpu.device.total_bytes));
  }
  if (!lines.empty()) return lines;
  const bool has_limit = view.cgroup && view.cgroup->limit_bytes;
  const auto total = has_limit ? view.cgroup->limit_bytes : view.machine.total_bytes;
  auto used = has_limit ? view.cgroup->used_bytes() : std::nullopt;
  if (!has_limit && total && view.machine.available_bytes) {
    used = *total - std::min(*total, *view.machine.available_bytes);
  }
  if (used && total) lines.push_back(one_liner("Host", *used, *total));
  return lines;
}

}  // namespace plimsoll::top

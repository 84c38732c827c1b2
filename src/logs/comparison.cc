#include "logs/comparison.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "sample/names.h"
#include "text_log/format.h"

namespace plimsoll::logs {
namespace {

namespace fs = std::filesystem;

constexpr double kOddShare = 0.1;      // share of the median
constexpr double kOddTimesOthers = 2;  // twice the distance of the next value
constexpr std::size_t kFewestForOdd = 3;

const Figure* find(const std::vector<Figure>& figures, std::string_view name) {
  const auto found = std::ranges::find(figures, name, &Figure::name);
  return found == figures.end() ? nullptr : &*found;
}

// The peak memory of a device: the allocator's figure, else that of the tensors.
double height_of(const DeviceSummary& device) {
  for (const std::string_view name : {"allocated_bytes", "tensor_bytes", "used_bytes"}) {
    if (const Figure* const figure = find(device.figures, name)) return figure->most.value_or(0);
  }
  return 0;
}

const DeviceSummary* main_device(const LogSummary& summary) {
  const DeviceSummary* main = nullptr;
  for (const DeviceSummary& device : summary.devices) {
    const auto rank = [](const DeviceSummary& one) {
      return std::pair(!sample::is_cpu(one.device), height_of(one));
    };
    if (main == nullptr || rank(*main) < rank(device)) main = &device;
  }
  return main;
}

std::optional<double> median_of(const std::vector<std::optional<double>>& values) {
  std::vector<double> known;
  for (const auto& value : values) {
    if (value && std::isfinite(*value)) known.push_back(*value);
  }
  if (known.size() < kFewestForOdd) return std::nullopt;
  std::ranges::sort(known);
  const std::size_t middle = known.size() / 2;
  return known.size() % 2 == 1 ? known[middle] : (known[middle - 1] + known[middle]) / 2;
}

std::optional<std::uint64_t> odd_of(const std::vector<std::optional<double>>& values,
                                    double median) {
  double furthest = 0;
  double next = 0;
  std::optional<std::uint64_t> outlier;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!values[i] || !std::isfinite(*values[i])) continue;
    const double distance = std::abs(*values[i] - median);
    if (distance > furthest) {
      next = std::exchange(furthest, distance);
      outlier = i;
    } else {
      next = std::max(next, distance);
    }
  }
  const bool is_odd = furthest > kOddShare * std::abs(median) && furthest > kOddTimesOthers * next;
  return is_odd ? outlier : std::nullopt;
}

class Comparer {
 public:
  explicit Comparer(LogComparison& comparison) : comparison_(comparison) {
    for (const ComparedRun& run : comparison.runs) devices_.push_back(main_device(run.summary));
  }

  using Value = std::function<std::optional<double>(std::size_t run)>;

  // nullopt if no run has this figure.
  void add(std::string group, std::string name, std::string at, const Value& value) {
    ComparedFigure figure{std::move(group), std::move(name), std::move(at), {}, {}, {}, {}};
    for (std::size_t i = 0; i < devices_.size(); ++i) figure.values.push_back(value(i));
    const auto& values = figure.values;
    if (std::ranges::none_of(values, [](const auto& known) { return known.has_value(); })) return;
    if (values.size() == 2 && values[0] && values[1]) figure.difference = *values[1] - *values[0];
    figure.median = median_of(values);
    if (figure.median) figure.outlier = odd_of(values, *figure.median);
    comparison_.figures.push_back(std::move(figure));
  }

  void add_runs();
  void add_figures();
  void add_shares(const char* group, std::vector<ShareSummary> DeviceSummary::* member);

 private:
  using TimePoint = std::optional<double> Figure::*;
  void add_figure(const char* group, const char* name, const char* at, TimePoint point) {
    add(group, name, at, [&](std::size_t i) -> std::optional<double> {
      const LogSummary& summary = comparison_.runs[i].summary;
      const std::string_view place = group;
      const std::vector<Figure>* figures = nullptr;
      if (place == "host") figures = &summary.host;
      if (place == "training") figures = &summary.training;
      if (place == "device" && devices_[i] != nullptr) figures = &devices_[i]->figures;
      const Figure* const figure = figures == nullptr ? nullptr : find(*figures, name);
      return figure == nullptr ? std::nullopt : figure->*point;
    });
  }

  LogComparison& comparison_;
  std::vector<const DeviceSummary*> devices_;
};

void Comparer::add_runs() {
  const auto summary = [this](std::size_t i) -> const LogSummary& {
    return comparison_.runs[i].summary;
  };
  const auto number = [](const auto& value) {
    return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
  };
  add("run", "snapshots", "",
      [&](std::size_t i) { return static_cast<double>(summary(i).source.snapshots); });
  add("run", "first_iteration", "",
      [&](std::size_t i) { return number(summary(i).first_iteration); });
  add("run", "last_iteration", "",
      [&](std::size_t i) { return number(summary(i).last_iteration); });
  add("run", "findings", "",
      [&](std::size_t i) { return static_cast<double>(summary(i).findings.size()); });
}

void Comparer::add_figures() {
  constexpr TimePoint kStart = &Figure::start;
  constexpr TimePoint kEnd = &Figure::end;
  constexpr TimePoint kMost = &Figure::most;
  for (const char* const name : {"allocated_bytes", "reserved_bytes"}) {
    add_figure("device", name, "start", kStart);
    add_figure("device", name, "end", kEnd);
    add_figure("device", name, "max", kMost);
  }
  add_figure("device", "peak_bytes", "max", kMost);
  add_figure("device", "fragmentation_percent", "start", kStart);
  add_figure("device", "fragmentation_percent", "end", kEnd);
  add_figure("device", "used_bytes", "max", kMost);
  add_figure("device", "non_pytorch_bytes", "max", kMost);
  add_figure("device", "tensor_bytes", "end", kEnd);
  add_figure("device", "tensor_bytes", "max", kMost);
  add_figure("device", "unused_bytes", "end", kEnd);
  add_figure("device", "tensors", "end", kEnd);
  add_figure("device", "large_tensors", "end", kEnd);
  add_shares("category", &DeviceSummary::categories);
  add_shares("dtype", &DeviceSummary::dtypes);
  add_figure("host", "process_bytes", "max", kMost);
  add_figure("host", "workers_bytes", "max", kMost);
  add_figure("training", "loss", "end", kEnd);
}

// If a run has shares at all, a missing one is 0.
void Comparer::add_shares(const char* group, std::vector<ShareSummary> DeviceSummary::* member) {
  std::map<std::string, std::uint64_t> largest;
  for (const DeviceSummary* const device : devices_) {
    if (device == nullptr) continue;
    for (const ShareSummary& share : device->*member) {
      std::uint64_t& bytes = largest[share.name];
      bytes = std::max(bytes, share.end_bytes);
    }
  }
  std::vector<std::pair<std::string, std::uint64_t>> names(largest.begin(), largest.end());
  std::ranges::stable_sort(names, std::ranges::greater{},
                           &std::pair<std::string, std::uint64_t>::second);
  for (const auto& named : names) {
    const std::string& name = named.first;
    add(group, name, "end", [&](std::size_t i) -> std::optional<double> {
      if (devices_[i] == nullptr || (devices_[i]->*member).empty()) return std::nullopt;
      const auto& shares = devices_[i]->*member;
      const auto share = std::ranges::find(shares, name, &ShareSummary::name);
      return share == shares.end() ? 0.0 : static_cast<double>(share->end_bytes);
    });
  }
}

std::optional<std::uint64_t> odd_run(const LogComparison& comparison) {
  std::map<std::uint64_t, std::size_t> times;
  for (const ComparedFigure& figure : comparison.figures) {
    const bool is_memory = figure.group == "device" || figure.group == "category";
    if (is_memory && figure.outlier) ++times[*figure.outlier];
  }
  const auto most = std::ranges::max_element(times, {}, [](const auto& run) { return run.second; });
  if (most == times.end()) return std::nullopt;
  const auto as_often =
      std::ranges::count_if(times, [&](const auto& run) { return run.second == most->second; });
  return as_often == 1 ? std::optional(most->first) : std::nullopt;
}

bool is_rank(const std::string& name) {
  return name.size() > 4 && name.starts_with("rank") &&
         name.find_first_not_of("0123456789", 4) == std::string::npos;
}

std::string rank_label(const fs::path& path) {
  for (const fs::path& part : path.parent_path()) {
    if (is_rank(part.string())) return part.string();
  }
  return {};
}

// "ship" of output/ship/profiles/rank0/tensor_profile_1.log
std::string run_folder(const fs::path& path) {
  fs::path folder = path.parent_path();
  while (folder.filename() == text_log::kProfilesFolder || is_rank(folder.filename().string())) {
    folder = folder.parent_path();
  }
  return folder.filename().string();
}

}  // namespace

std::vector<std::string> labels_of(const std::vector<std::string>& paths) {
  using Namer = std::string (*)(const fs::path&);
  const Namer in_run_folder = [](const fs::path& path) {
    const std::string rank = rank_label(path);
    return rank.empty() ? run_folder(path) : run_folder(path) + "/" + rank;
  };
  const Namer file_name = [](const fs::path& path) { return path.filename().string(); };
  for (const Namer namer : {Namer(rank_label), Namer(run_folder), in_run_folder, file_name}) {
    std::vector<std::string> labels;
    std::set<std::string> distinct;
    for (const std::string& path : paths) {
      labels.push_back(namer(path));
      if (!labels.back().empty()) distinct.insert(labels.back());
    }
    if (distinct.size() == paths.size()) return labels;
  }
  return paths;
}

LogComparison compare_logs(std::vector<LogSummary> summaries) {
  LogComparison comparison;
  std::vector<std::string> paths;
  for (const LogSummary& summary : summaries) paths.push_back(summary.source.path);
  const std::vector<std::string> labels = labels_of(paths);
  for (std::size_t i = 0; i < summaries.size(); ++i) {
    const DeviceSummary* const device = main_device(summaries[i]);
    std::string name = device == nullptr ? "" : device->device;
    comparison.runs.push_back({labels[i], std::move(name), std::move(summaries[i])});
  }
  Comparer comparer(comparison);
  comparer.add_runs();
  comparer.add_figures();
  comparison.outlier = odd_run(comparison);
  return comparison;
}

}  // namespace plimsoll::logs

// What a fleet keeps of one recording: a few small tables. Ranks and runs are compared by
// them, without the recordings. Python stores them as Parquet files, and DuckDB compares them
// (python/plimsoll/fleet). docs/fleets.md describes the columns. A new column is a new minor
// version; readers take a missing one as unknown.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/categories.h"
#include "base/fields.h"
#include "report/report.h"

namespace plimsoll::fleet {

inline constexpr const char* kVersion = "1.0";
inline constexpr std::size_t kMostSteps = 2'000;  // of a device; of several steps, the highest

// A recording; its figures are those of the device with the highest peak.
struct RankRow {
  std::optional<std::int64_t> rank = {};
  std::optional<std::int64_t> world_size = {};
  std::string path;
  std::string host = {};
  std::string command = {};
  std::string python = {};
  std::string torch = {};
  std::optional<std::int64_t> started_ns = {};
  std::string device = {};
  std::optional<std::uint64_t> capacity_bytes = {};
  std::int64_t peak_bytes = 0;
  std::optional<std::int64_t> reserved_bytes = {};
  std::optional<std::uint64_t> used_bytes = {};
  std::optional<std::uint64_t> process_bytes = {};
  std::optional<std::uint64_t> peak_step = {};
  std::string peak_phase = {};
  std::string peak_layer = {};
  std::optional<std::int64_t> unused_bytes = {};
  std::uint64_t steps = 0;
  std::uint64_t events = 0;
  std::uint64_t ooms = 0;
  std::optional<std::int64_t> oom_time_ns = {};
  std::optional<std::uint64_t> oom_request_bytes = {};
  std::string oom_cause = {};
  std::uint64_t role = 0;
  std::string incomplete = {};
  std::string version = kVersion;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"rank", &RankRow::rank, "Rank of the process; null if the recording names none."},
        Field{"world_size", &RankRow::world_size,
              "Number of ranks of the run, as the recording states it."},
        Field{"path", &RankRow::path, "The recording."},
        Field{"host", &RankRow::host, "Name of the machine; empty if unknown, like other texts."},
        Field{"command", &RankRow::command, "The command line."},
        Field{"python", &RankRow::python, "Version of Python."},
        Field{"torch", &RankRow::torch, "Version of PyTorch."},
        Field{"started_ns", &RankRow::started_ns, "When the recording began, since the epoch."},
        Field{"device", &RankRow::device, "The device with the highest peak; a GPU, if any."},
        Field{"capacity_bytes", &RankRow::capacity_bytes, "Memory of the device."},
        Field{"peak_bytes", &RankRow::peak_bytes, "The most live bytes of tensors."},
        Field{"reserved_bytes", &RankRow::reserved_bytes,
              "The most bytes that PyTorch's allocator had reserved; null without an allocator."},
        Field{"used_bytes", &RankRow::used_bytes,
              "The most bytes of the device that all processes used, as the driver reported."},
        Field{"process_bytes", &RankRow::process_bytes, "Highest resident size of the process."},
        Field{"peak_step", &RankRow::peak_step, "The step of the peak."},
        Field{"peak_phase", &RankRow::peak_phase, "The phase of the peak."},
        Field{"peak_layer", &RankRow::peak_layer, "The layer that ran at the peak."},
        Field{"unused_bytes", &RankRow::unused_bytes,
              "Bytes live at the peak that no operator uses again; null if uses are unknown."},
        Field{"steps", &RankRow::steps, "Number of complete steps."},
        Field{"events", &RankRow::events, "Number of allocations and frees, on all devices."},
        Field{"ooms", &RankRow::ooms, "How often a device ran out of memory."},
        Field{"oom_time_ns", &RankRow::oom_time_ns, "When it first did, since the epoch."},
        Field{"oom_request_bytes", &RankRow::oom_request_bytes, "The request that failed then."},
        Field{"oom_cause", &RankRow::oom_cause, "The report's verdict on it."},
        Field{"role", &RankRow::role,
              "Hash of the model's layers: ranks with the same layers are comparable. 0: unknown."},
        Field{"incomplete", &RankRow::incomplete,
              "What is missing from the recording, so that totals may be wrong; empty if nothing "
              "is."},
        Field{"version", &RankRow::version, "Version of these tables: major.minor."});
  }
};

// A step on a device, or several in a row of which it is the highest.
struct StepRow {
  std::string device;
  std::uint64_t step = 0;
  std::uint64_t steps = 1;
  std::optional<std::int64_t> end_time_ns = {};
  std::optional<std::int64_t> duration_ns = {};
  std::uint64_t peak_bytes = 0;
  std::uint64_t end_bytes = 0;
  bool has_categories = false;
  std::array<std::uint64_t, base::kCategoryNames.size()> peak_by_category = {};

  template <base::Category kCategory>
  std::optional<std::uint64_t> peak_of() const {
    if (!has_categories) return std::nullopt;
    return peak_by_category[static_cast<std::size_t>(kCategory)];
  }

  static constexpr auto fields() {
    using base::Field;
    using enum base::Category;
    return base::field_list(
        Field{"device", &StepRow::device, "The device."},
        Field{"step", &StepRow::step, "The step."},
        Field{"steps", &StepRow::steps,
              "Number of steps in a row that the row stands for; it is the highest of them."},
        Field{"end_time_ns", &StepRow::end_time_ns, "When the step ended."},
        Field{"duration_ns", &StepRow::duration_ns, "Since the end of the step before."},
        Field{"peak_bytes", &StepRow::peak_bytes, "Peak of the live bytes within the step."},
        Field{"end_bytes", &StepRow::end_bytes, "Live bytes at the end of the step."},
        Field{"parameter_bytes", &StepRow::peak_of<kParameter>,
              "Bytes of the category at the peak of the step, like the others below; null if the "
              "recording has no categories."},
        Field{"gradient_bytes", &StepRow::peak_of<kGradient>, "Gradients."},
        Field{"optimizer_state_bytes", &StepRow::peak_of<kOptimizerState>, "Optimizer state."},
        Field{"buffer_bytes", &StepRow::peak_of<kBuffer>, "Buffers."},
        Field{"input_bytes", &StepRow::peak_of<kInput>, "Inputs."},
        Field{"workspace_bytes", &StepRow::peak_of<kWorkspace>, "Workspaces of libraries."},
        Field{"activation_bytes", &StepRow::peak_of<kActivation>, "Activations."},
        Field{"activation_gradient_bytes", &StepRow::peak_of<kActivationGradient>,
              "Gradients of activations."},
        Field{"temporary_bytes", &StepRow::peak_of<kTemporary>, "Temporaries."},
        Field{"communication_bytes", &StepRow::peak_of<kCommunication>, "Communication buffers."},
        Field{"optimizer_scratch_bytes", &StepRow::peak_of<kOptimizerScratch>,
              "Temporaries of the optimizer."},
        Field{"other_bytes", &StepRow::peak_of<kOther>, "Other tensors."},
        Field{"unknown_bytes", &StepRow::peak_of<kUnknown>, "Bytes of unknown category."},
        Field{"pinned_host_bytes", &StepRow::peak_of<kPinnedHost>, "Pinned host memory."});
  }
};

// What was live at a point in time, by site. The rows of a point and device sum to its bytes.
struct PeakRow {
  std::string point;
  std::string device;
  std::uint64_t site = 0;
  std::int64_t bytes = 0;
  std::uint64_t count = 0;
  std::uint64_t largest_bytes = 0;
  std::string shape = {};
  std::uint64_t layers = 1;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{
            "point", &PeakRow::point,
            "peak; forward, backward, optimizer or data (its highest point); step end; oom; end."},
        Field{"device", &PeakRow::device, "The device."},
        Field{"site", &PeakRow::site, "A row of sites."},
        Field{"bytes", &PeakRow::bytes, "Live bytes."},
        Field{"count", &PeakRow::count, "Number of live allocations."},
        Field{"largest_bytes", &PeakRow::largest_bytes, "Size of the largest allocation."},
        Field{"shape", &PeakRow::shape, "Shape of the largest allocation; empty if unknown."},
        Field{"layers", &PeakRow::layers, "Number of layers that the row stands for."});
  }
};

// What allocations have in common; the same in all ranks and runs in which these texts are equal.
struct SiteRow {
  std::uint64_t site = 0;
  std::string category = {};
  std::string phase = {};
  std::string layer = {};
  std::string op = {};
  std::string function = {};
  std::string text = {};
  std::string dtype = {};
  std::string place = {};
  std::string example_layer = {};

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"site", &SiteRow::site, "Hash of the columns category to dtype."},
        Field{"category", &SiteRow::category, "The category."},
        Field{"phase", &SiteRow::phase, "The phase in which it was allocated."},
        Field{"layer", &SiteRow::layer, "The layer; an index that counts repetitions is *."},
        Field{"operator", &SiteRow::op, "The outermost operator."},
        Field{"function", &SiteRow::function, "The function of the line."},
        Field{"text", &SiteRow::text, "The source text of the line, or its hash."},
        Field{"dtype", &SiteRow::dtype, "The dtype, of parameters and what belongs to them."},
        Field{"place", &SiteRow::place, "Example of a line: model.py:69 (Attention.forward)."},
        Field{"example_layer", &SiteRow::example_layer, "Example of a layer, with its indices."});
  }
};

struct FindingRow {
  std::uint64_t finding = 0;
  std::string id;
  std::string severity;
  std::string title;
  std::string next_step = {};
  std::uint64_t saving_bytes = 0;
  std::string holder = {};

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"finding", &FindingRow::finding, "Index in the report, from 0."},
        Field{"id", &FindingRow::id, "Stable name of the finding."},
        Field{"severity", &FindingRow::severity, "info, warning or critical."},
        Field{"title", &FindingRow::title, "The verdict."},
        Field{"next_step", &FindingRow::next_step, "The first thing to do."},
        Field{"saving_bytes", &FindingRow::saving_bytes, "What that would save; 0 if unknown."},
        Field{"holder", &FindingRow::holder, "What holds most of it; empty if unknown."});
  }
};

struct Partial {
  RankRow rank;
  std::vector<StepRow> steps;
  std::vector<PeakRow> peaks;
  std::vector<SiteRow> sites;
  std::vector<FindingRow> findings;
};

// `report` has all analyses and the digest.
Partial partial_of(const report::Report& report);

}  // namespace plimsoll::fleet

// Tables: what memory consists of, one row per group, largest first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "report/attribution.h"
#include "report/folded_layers.h"
#include "report/holders.h"

namespace plimsoll::report {

// Bytes of live allocations are allocated bytes if the device has block sizes, else requested
// bytes.

// A part of a line's bytes, by the line inside the packages that the line calls.
struct InnerLineRow {
  std::string line;  // or a reason in brackets
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"line", &InnerLineRow::line,
              "Innermost line in a package, generated code or torch below the line "
              "of the row."},
        Field{"bytes", &InnerLineRow::bytes, "Live bytes that it allocated."},
        Field{"count", &InnerLineRow::count, "Number of these allocations."});
  }
};

// A group of live allocations at the chosen point in time (the peak by default).
struct GroupRow {
  std::int32_t device = 0;
  std::string key;  // the line, operator, size class, ... as shown
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::uint64_t largest_bytes = 0;
  double share = 0;                // of the live bytes at that point
  std::vector<std::string> stack;  // by_stack only: the frames, innermost first
  // by_line only, if packages allocated for the line: largest first, with the sum of the row.
  std::vector<InnerLineRow> inside = {};

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"device", &GroupRow::device,
              "Device index; -1 for the CPU, -2 for pinned host memory."},
        Field{"key", &GroupRow::key, "What the allocations of the row have in common."},
        Field{"bytes", &GroupRow::bytes,
              "Live bytes: allocated bytes if the device has them, else requested bytes."},
        Field{"count", &GroupRow::count, "Number of live allocations."},
        Field{"largest_bytes", &GroupRow::largest_bytes, "Size of the largest of them."},
        Field{"share", &GroupRow::share, "Share of all live bytes, 0 to 1."},
        Field{"stack", &GroupRow::stack, "Frames, innermost first; by_stack only."},
        Field{"inside", &GroupRow::inside,
              "by_line only: the row's bytes by the line inside the packages that its line calls, "
              "largest first; empty if none but torch allocated for it."});
  }
};

// The point in time of the by_* tables, on each device.
struct PointInTime {
  std::int32_t device = 0;
  std::string name;                    // "peak", "end", "event 123", ...
  std::optional<std::uint64_t> event;  // null: before the first event
  std::optional<std::int64_t> time_ns;
  std::uint64_t live_bytes = 0;
  std::uint64_t live_count = 0;
  std::int64_t unexplained_bytes =
      0;  // total minus live_bytes: what events and blocks do not explain
  std::optional<std::uint64_t> step = {};  // of that event, like the others below
  std::string phase = {};
  std::string layer = {};
  std::string op = {};
  std::string region = {};
  std::optional<std::uint64_t> inferred_by_size_bytes = {};
  std::optional<std::uint64_t> unused_at_end_bytes = {};

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"device", &PointInTime::device,
              "Device index; -1 for the CPU, -2 for pinned host memory."},
        Field{"name", &PointInTime::name,
              "How the point was chosen, as in --at: peak, start, end, oom, oom:2, step:9 and so "
              "on."},
        Field{"event", &PointInTime::event,
              "The point is right after this event; null: before the first event."},
        Field{"time_ns", &PointInTime::time_ns, "Time of that event; null if unknown."},
        Field{"live_bytes", &PointInTime::live_bytes,
              "Bytes of the live allocations: allocated bytes if the device has them, else "
              "requested and active bytes."},
        Field{"live_count", &PointInTime::live_count, "Number of live allocations."},
        Field{"unexplained_bytes", &PointInTime::unexplained_bytes,
              "Total of the device minus live_bytes: live memory without a row, because the file "
              "has only the total of older memory or contradicts itself."},
        Field{"step", &PointInTime::step,
              "Step of that event; null if no steps are marked, or after the last mark."},
        Field{"phase", &PointInTime::phase,
              "Phase of that event if it allocates: forward, backward, optimizer, data or other; "
              "empty if unknown."},
        Field{"layer", &PointInTime::layer, "Layer of that event if it allocates; may be empty."},
        Field{"operator", &PointInTime::op,
              "Operator of that event if it allocates; may be empty."},
        Field{"region", &PointInTime::region,
              "Innermost annotation (record_function, or PyTorch's own, such as "
              "Optimizer.step#Adam.step) at that event, in files without phases; may be empty."},
        Field{"inferred_by_size_bytes", &PointInTime::inferred_by_size_bytes,
              "Of a snapshot, whose categories are inferred: bytes older than the recording whose "
              "category follows from sizes and counts alone. Null if categories are not inferred."},
        Field{
            "unused_at_end_bytes", &PointInTime::unused_at_end_bytes,
            "Bytes that no operator uses again before the recording ends, and that are live then: "
            "the program may read them later. Null if no uses are recorded."});
  }
};

// One allocation site over the whole recording.
struct SiteRow {
  std::int32_t device = 0;
  std::string line;
  std::uint64_t allocations = 0;
  std::uint64_t bytes = 0;      // sum of requested bytes over all allocations
  std::uint64_t temporary = 0;  // freed again within kTemporaryEvents events
  std::uint64_t temporary_bytes = 0;
  std::uint64_t never_freed = 0;  // allocated in the recording, live at its end
  std::uint64_t never_freed_bytes = 0;
  double byte_seconds = 0;  // bytes x lifetime, within the recording; 0 if times are unknown
  std::uint64_t largest_bytes = 0;
  std::uint64_t commonest_size_bytes = 0;
  std::uint64_t commonest_size_count = 0;
  std::uint64_t in_packages = 0;  // made by packages or the standard library that the line calls

  static constexpr std::uint32_t kTemporaryEvents = 8;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"device", &SiteRow::device,
              "Device index; -1 for the CPU, -2 for pinned host memory."},
        Field{"line", &SiteRow::line,
              "Innermost line of the user's Python code, or the reason why there is none."},
        Field{"allocations", &SiteRow::allocations, "Allocations made in the recording."},
        Field{"bytes", &SiteRow::bytes, "Sum of their requested bytes."},
        Field{"temporary", &SiteRow::temporary,
              "Number of these freed within 8 events of the device."},
        Field{"temporary_bytes", &SiteRow::temporary_bytes,
              "Sum of the bytes of these temporary allocations."},
        Field{"never_freed", &SiteRow::never_freed, "Number of allocations still live at the end."},
        Field{"never_freed_bytes", &SiteRow::never_freed_bytes, "Sum of their bytes."},
        Field{"byte_seconds", &SiteRow::byte_seconds,
              "Sum of bytes times lifetime in seconds, within the recording."},
        Field{"largest_bytes", &SiteRow::largest_bytes, "The largest allocation."},
        Field{"commonest_size_bytes", &SiteRow::commonest_size_bytes,
              "The most frequent requested size."},
        Field{"commonest_size_count", &SiteRow::commonest_size_count,
              "Number of allocations of that size."},
        Field{"in_packages", &SiteRow::in_packages,
              "Number of the allocations made by installed packages (except torch) or the standard "
              "library, which the line called."});
  }
};

// A site that leaves allocations behind at every step.
struct GrowthRow {
  std::int32_t device = 0;
  std::string line;               // in the growth table only
  std::string key;                // the line, layer or category
  std::string caller;             // in the growth table only: for a line in a forward, the line
                                  // that calls it
  std::uint64_t steps = 0;        // number of steps examined
  std::uint64_t first_step = 0;   // the last step of the warm-up; first_bytes are live at its end
  std::int64_t first_bytes = 0;   // live from this site at the end of the warm-up
  std::int64_t last_bytes = 0;    // at the end of the last step
  double bytes_per_step = 0;      // mean of the bytes that survive
  double low_bytes_per_step = 0;  // 95 % interval
  double high_bytes_per_step = 0;
  std::int64_t grown_bytes = 0;  // bytes live at the end that the steps have left behind
  std::uint64_t survivors = 0;
  bool is_appended = false;          // one growing tensor: each allocation extends the one before
  bool is_certain = false;           // false if the steps are few and some left nothing behind
  std::uint64_t steps_each = 1;      // above 128 steps, this many are compared as one
  std::uint64_t compared_steps = 0;  // groups after the warm-up and before the newest steps
  std::uint64_t grown_steps = 0;     // how many of these left something behind
  std::uint64_t stages = 0;          // number of groups after first_step that did
  std::uint64_t last_count = 0;      // number of allocations in last_bytes
  bool is_model_in_stages = false;   // parameters, gradients and state of a model that grows rarely
  bool is_of_lbfgs = false;          // the history of torch.optim.LBFGS
  bool is_of_calls = false;          // in a forward-only program: a step is a call of its model
  std::string boundary;              // what marked the steps: the annotation's name, or "cycle"

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"device", &GrowthRow::device,
              "Device index; -1 for the CPU, -2 for pinned host memory."},
        Field{"line", &GrowthRow::line,
              "Innermost line of the user's Python code, or the reason why there is none; only in "
              "growth."},
        Field{"key", &GrowthRow::key, "What grows: the line, the layer or the category."},
        Field{"caller", &GrowthRow::caller,
              "For a line in a module's forward, the line outside all forwards that made most of "
              "the calls whose memory is live at the end; else empty."},
        Field{"steps", &GrowthRow::steps, "Number of steps compared."},
        Field{"first_step", &GrowthRow::first_step,
              "Last step of the warm-up, counted from 1; first_bytes were live at its end."},
        Field{"first_bytes", &GrowthRow::first_bytes,
              "Live bytes of the site after the warm-up, the first quarter of the steps."},
        Field{"last_bytes", &GrowthRow::last_bytes,
              "Live bytes of the site at the end of the last step."},
        Field{"bytes_per_step", &GrowthRow::bytes_per_step,
              "Mean bytes that a step leaves behind after the warm-up."},
        Field{"low_bytes_per_step", &GrowthRow::low_bytes_per_step,
              "Lower end of the 95 % interval of that mean, by resampling the steps."},
        Field{"high_bytes_per_step", &GrowthRow::high_bytes_per_step,
              "Upper end of that interval."},
        Field{"grown_bytes", &GrowthRow::grown_bytes,
              "Bytes that the steps left behind, live at the end of the last step."},
        Field{"survivors", &GrowthRow::survivors,
              "Number of old allocations made after the warm-up and still live."},
        Field{"is_appended", &GrowthRow::is_appended,
              "True if one tensor grows: each contains the previous one (torch.cat). Its bytes "
              "count for the steps that appended them."},
        Field{"is_certain", &GrowthRow::is_certain,
              "False if there are fewer than 12 steps and some left nothing behind."},
        Field{"boundary", &GrowthRow::boundary, "What marks the ends of the steps."});
  }
};

struct Tables {
  std::vector<PointInTime> points;
  std::vector<GroupRow> by_line;
  std::vector<GroupRow> by_stack;
  std::vector<GroupRow> by_library;  // empty if the file's stacks name no libraries
  std::vector<GroupRow> by_size;
  std::vector<GroupRow> by_stream;
  std::vector<GroupRow> by_pool;
  std::vector<GroupRow> by_category;  // empty if the file names no categories
  std::vector<GroupRow> by_operator;
  std::vector<GroupRow> by_layer;  // empty if the file names no layers
  std::vector<GroupRow> by_phase;  // this and the next six: empty if the file lacks the data
  std::vector<GroupRow> by_step;
  std::vector<GroupRow> by_dtype;
  std::vector<GroupRow> by_region;
  std::vector<GroupRow> by_tensor;
  std::vector<GroupRow> by_use;
  std::vector<GroupRow> by_holder;
  std::vector<HolderRow> holders;
  std::vector<GroupRow> unknown_by_reason;
  std::vector<LayerRow> layers;
  std::vector<FoldedLayerRow> folded_layers;
  std::vector<StepRow> steps;
  std::vector<SavedRow> saved;
  std::vector<GroupRow> saved_by_operator;
  std::vector<GroupRow> saved_by_layer;
  std::vector<SiteRow> sites;
  std::vector<GrowthRow> growth;
  std::vector<GrowthRow> growth_by_layer;
  std::vector<GrowthRow> growth_by_category;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"points_in_time", &Tables::points,
              "For each device, the point in time of the by_* tables."},
        Field{"by_line", &Tables::by_line, "Live bytes by source line."},
        Field{"by_stack", &Tables::by_stack, "Live bytes by whole stack."},
        Field{"by_library", &Tables::by_library,
              "Live bytes by the shared library or program that requested them; only in recordings "
              "of plimsoll run --cuda-driver."},
        Field{"by_size", &Tables::by_size, "Live bytes by size class (powers of two)."},
        Field{"by_stream", &Tables::by_stream, "Live bytes by stream."},
        Field{"by_pool", &Tables::by_pool, "Live bytes by memory pool."},
        Field{"by_category", &Tables::by_category, "Live bytes by category."},
        Field{"by_operator", &Tables::by_operator, "Live bytes by operator."},
        Field{"by_layer", &Tables::by_layer, "Live bytes by module."},
        Field{"by_phase", &Tables::by_phase,
              "Live bytes by the phase in which they were allocated."},
        Field{"by_step", &Tables::by_step, "Live bytes by the step that allocated them."},
        Field{"by_dtype", &Tables::by_dtype, "Live bytes by the dtype of their tensor."},
        Field{"by_region", &Tables::by_region,
              "Live bytes by the innermost region in which they were allocated."},
        Field{"by_tensor", &Tables::by_tensor,
              "Live bytes by the name of the tensor, or by its dtype and shape."},
        Field{"by_use", &Tables::by_use,
              "Live bytes by whether an operator uses them again: used again, not used again, "
              "unknown, or the category of memory that the program keeps in any case."},
        Field{"by_holder", &Tables::by_holder,
              "Live bytes by the object or variable of the program that holds them, if the "
              "recorder looked for it."},
        Field{
            "holders", &Tables::holders,
            "The chains of references to the live memory as a tree; empty if the recorder did not "
            "look for them."},
        Field{"unknown_by_reason", &Tables::unknown_by_reason,
              "Live bytes of the category unknown, by the reason why it is unknown."},
        Field{"layers", &Tables::layers,
              "Live bytes of each layer by phase and category, and the peak of the layer; sorted "
              "by path, numbers by their value."},
        Field{"folded_layers", &Tables::folded_layers,
              "The same with equal layers side by side as one row; each row follows its parent."},
        Field{"steps", &Tables::steps,
              "Peak, end and categories of each step; the last 10,000 steps."},
        Field{"saved", &Tables::saved,
              "Activations saved for the backward of the peak; if no backward uses the peak, for "
              "the backward with the most."},
        Field{"saved_by_operator", &Tables::saved_by_operator,
              "Bytes of saved by the operator that created them."},
        Field{"saved_by_layer", &Tables::saved_by_layer,
              "Bytes of saved by the layer that created them."},
        Field{"sites", &Tables::sites, "Allocation sites over the whole recording."},
        Field{"growth", &Tables::growth, "Lines that grow from step to step."},
        Field{"growth_by_layer", &Tables::growth_by_layer, "Layers that grow."},
        Field{"growth_by_category", &Tables::growth_by_category, "Categories that grow."});
  }
};

}  // namespace plimsoll::report

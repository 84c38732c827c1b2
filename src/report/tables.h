// Tables: what memory is made of, one row a group, largest first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "report/attribution.h"

namespace plimsoll::report {

// Bytes of live allocations are allocated bytes where the device tells them, else requested bytes.

// A group of live allocations at the moment asked about (the peak unless the user says otherwise).
struct GroupRow {
  std::int32_t device = 0;
  std::string key;  // the line, operator, size class, ... as shown
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::uint64_t largest_bytes = 0;
  double share = 0;                // of the live bytes at that moment
  std::vector<std::string> stack;  // by_stack only: the frames, innermost first

  static constexpr auto fields() {
    using base::Field;
    return std::tuple{
        Field{"device", &GroupRow::device, "Ordinal; -1 for the CPU, -2 for pinned host memory."},
        Field{"key", &GroupRow::key, "What the group has in common."},
        Field{"bytes", &GroupRow::bytes,
              "Bytes live at the moment: allocated where the device tells them, else "
              "requested."},
        Field{"count", &GroupRow::count, "Allocations live at the moment."},
        Field{"largest_bytes", &GroupRow::largest_bytes, "The largest of them."},
        Field{"share", &GroupRow::share, "Of all live bytes at the moment, 0 to 1."},
        Field{"stack", &GroupRow::stack, "Frames, innermost first; by_stack only."}};
  }
};

// The moment the by_* tables speak of, on each device.
struct MomentRow {
  std::int32_t device = 0;
  std::string name;                    // "peak", "end", "event 123", ...
  std::optional<std::uint64_t> event;  // null: before the first event
  std::optional<std::int64_t> time_ns;
  std::uint64_t live_bytes = 0;
  std::uint64_t live_count = 0;
  std::int64_t unexplained_bytes =
      0;  // total minus live_bytes: what the events and blocks do not account for
  std::optional<std::uint64_t> step = {};  // of that event, as are the others below
  std::string phase = {};
  std::string layer = {};
  std::string op = {};
  std::optional<std::uint64_t> inferred_by_size_bytes = {};

  static constexpr auto fields() {
    using base::Field;
    return std::tuple{
        Field{"device", &MomentRow::device, "Ordinal; -1 for the CPU, -2 for pinned host memory."},
        Field{"name", &MomentRow::name, "How the moment was chosen."},
        Field{"event", &MomentRow::event, "After this event; null: before the first one."},
        Field{"time_ns", &MomentRow::time_ns, "Its time; null if unknown."},
        Field{
            "live_bytes", &MomentRow::live_bytes,
            "Bytes of the live allocations: allocated where the device tells them, else requested "
            "and active."},
        Field{"live_count", &MomentRow::live_count, "How many allocations were live."},
        Field{"unexplained_bytes", &MomentRow::unexplained_bytes,
              "The device's total at the moment minus live_bytes: what was live but has no row, "
              "because the file tells only the total of what came before, or contradicts itself."},
        Field{"step", &MomentRow::step,
              "The step of that event; null if no steps are marked, or after the last mark."},
        Field{"phase", &MomentRow::phase,
              "Of that event if it allocates: forward, backward, optimizer, data, other; empty: "
              "not known."},
        Field{"layer", &MomentRow::layer, "Of that event if it allocates; may be empty."},
        Field{"operator", &MomentRow::op, "Of that event if it allocates; may be empty."},
        Field{"inferred_by_size_bytes", &MomentRow::inferred_by_size_bytes,
              "Of a snapshot, whose categories are inferred: the bytes from before the recording "
              "that "
              "have theirs by size and count alone. null: the categories are not inferred."}};
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
  std::uint64_t never_freed = 0;  // allocated in the recording, alive at its end
  std::uint64_t never_freed_bytes = 0;
  double byte_seconds = 0;  // bytes x lifetime, within the recording; 0 where times are unknown
  std::uint64_t largest_bytes = 0;
  std::uint64_t commonest_size_bytes = 0;
  std::uint64_t commonest_size_count = 0;
  std::uint64_t in_packages = 0;  // made by packages or the standard library that the line calls

  static constexpr std::uint32_t kTemporaryEvents = 8;

  static constexpr auto fields() {
    using base::Field;
    return std::tuple{
        Field{"device", &SiteRow::device, "Ordinal; -1 for the CPU, -2 for pinned host memory."},
        Field{"line", &SiteRow::line,
              "The innermost line of the user's Python code, or why there is none."},
        Field{"allocations", &SiteRow::allocations, "Allocations made in the recording."},
        Field{"bytes", &SiteRow::bytes, "Sum of their requested bytes."},
        Field{"temporary", &SiteRow::temporary,
              "Of these, freed again within 8 events of the device."},
        Field{"temporary_bytes", &SiteRow::temporary_bytes, "Sum of the temporary ones' bytes."},
        Field{"never_freed", &SiteRow::never_freed, "Of these, alive at the end."},
        Field{"never_freed_bytes", &SiteRow::never_freed_bytes, "Sum of their bytes."},
        Field{"byte_seconds", &SiteRow::byte_seconds,
              "Bytes times seconds alive, within the recording."},
        Field{"largest_bytes", &SiteRow::largest_bytes, "The largest allocation."},
        Field{"commonest_size_bytes", &SiteRow::commonest_size_bytes,
              "The size most often asked for."},
        Field{"commonest_size_count", &SiteRow::commonest_size_count, "How often."},
        Field{"in_packages", &SiteRow::in_packages,
              "Of the allocations, those made in installed packages or the standard library, which "
              "the line called. torch is not counted among them."}};
  }
};

// A site that leaves allocations behind at every step.
struct GrowthRow {
  std::int32_t device = 0;
  std::string line;               // growth only
  std::string key;                // the line, layer or category
  std::string caller;             // growth only: of a line in a forward, the line that calls it
  std::uint64_t steps = 0;        // looked at
  std::uint64_t first_step = 0;   // at whose end first_bytes are live, the last of the warm-up
  std::int64_t first_bytes = 0;   // live from this site at the end of the warm-up
  std::int64_t last_bytes = 0;    // at the end of the last step
  double bytes_per_step = 0;      // that survive, mean
  double low_bytes_per_step = 0;  // 95 % interval
  double high_bytes_per_step = 0;
  std::int64_t grown_bytes = 0;  // live at the end, of what each step left behind
  std::uint64_t survivors = 0;
  bool is_appended = false;  // a tensor grows: each is the one before it and what is appended
  bool is_certain = false;   // else the steps are few, and not every one left something
  std::uint64_t compared_steps = 0;  // between the warm-up and the newest steps
  std::uint64_t grown_steps = 0;     // of these: that have left something behind
  std::uint64_t stages = 0;          // steps after first_step that have
  std::uint64_t last_count = 0;      // allocations of last_bytes
  bool is_model_in_stages = false;   // parameters, gradients and state of a model that grows rarely
  bool is_of_lbfgs = false;          // the history of torch.optim.LBFGS
  bool is_of_calls = false;  // of a program that only runs forward: a step is a call of its model
  std::string boundary;      // what marked the steps: the annotation's name, or "cycle"

  static constexpr auto fields() {
    using base::Field;
    return std::tuple{
        Field{"device", &GrowthRow::device, "Ordinal; -1 for the CPU, -2 for pinned host memory."},
        Field{"line", &GrowthRow::line,
              "The innermost line of the user's Python code, or why there is none; growth only."},
        Field{"key", &GrowthRow::key, "What grows: the line, the layer or the category."},
        Field{"caller", &GrowthRow::caller,
              "Of a line in a module's forward: the line outside of any forward that calls it for "
              "most of what is live at the end; else empty."},
        Field{"steps", &GrowthRow::steps, "Steps compared."},
        Field{"first_step", &GrowthRow::first_step,
              "The last step of the warm-up, counted from 1, at whose end first_bytes were live."},
        Field{"first_bytes", &GrowthRow::first_bytes,
              "Live bytes of the site after the warm-up, the first quarter of the steps."},
        Field{"last_bytes", &GrowthRow::last_bytes,
              "Live bytes of the site at the end of the last step."},
        Field{"bytes_per_step", &GrowthRow::bytes_per_step,
              "Bytes that a step leaves behind, on average after the warm-up."},
        Field{"low_bytes_per_step", &GrowthRow::low_bytes_per_step,
              "Lower end of the 95 % interval of that average, by resampling the steps."},
        Field{"high_bytes_per_step", &GrowthRow::high_bytes_per_step, "Its upper end."},
        Field{"grown_bytes", &GrowthRow::grown_bytes,
              "Live bytes at the end of the last step that the steps left behind."},
        Field{"survivors", &GrowthRow::survivors,
              "Allocations made after the warm-up that are old and still live."},
        Field{"is_appended", &GrowthRow::is_appended,
              "True: no more tensors, but each contains the one before it (torch.cat), whose bytes "
              "count as those of the steps that appended them."},
        Field{"is_certain", &GrowthRow::is_certain,
              "False: fewer than 12 steps, and some of them left nothing behind."},
        Field{"boundary", &GrowthRow::boundary, "What marked the steps."}};
  }
};

struct Tables {
  std::vector<MomentRow> moments;
  std::vector<GroupRow> by_line;
  std::vector<GroupRow> by_stack;
  std::vector<GroupRow> by_library;  // empty when the file's stacks name no libraries
  std::vector<GroupRow> by_size;
  std::vector<GroupRow> by_stream;
  std::vector<GroupRow> by_pool;
  std::vector<GroupRow> by_category;  // empty when the file names no categories
  std::vector<GroupRow> by_operator;
  std::vector<GroupRow> by_layer;  // empty when the file names no layers
  std::vector<GroupRow> by_phase;  // this and the next four: empty when the file does not tell
  std::vector<GroupRow> by_step;
  std::vector<GroupRow> by_dtype;
  std::vector<GroupRow> by_region;
  std::vector<GroupRow> by_tensor;
  std::vector<GroupRow> unknown_by_reason;
  std::vector<LayerRow> layers;
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
    return std::tuple{
        Field{"moments", &Tables::moments, "The point in time of the by_* tables."},
        Field{"by_line", &Tables::by_line, "Live bytes by source line."},
        Field{"by_stack", &Tables::by_stack, "Live bytes by whole stack."},
        Field{"by_library", &Tables::by_library,
              "Live bytes by the shared library, or program, that asked for them; of recordings of "
              "plimsoll run --cuda-driver only."},
        Field{"by_size", &Tables::by_size, "Live bytes by size class (powers of two)."},
        Field{"by_stream", &Tables::by_stream, "Live bytes by stream."},
        Field{"by_pool", &Tables::by_pool, "Live bytes by memory pool."},
        Field{"by_category", &Tables::by_category, "Live bytes by category."},
        Field{"by_operator", &Tables::by_operator, "Live bytes by operator."},
        Field{"by_layer", &Tables::by_layer, "Live bytes by module."},
        Field{"by_phase", &Tables::by_phase,
              "Live bytes by what the program was in the middle of when it allocated them."},
        Field{"by_step", &Tables::by_step, "Live bytes by the step that allocated them."},
        Field{"by_dtype", &Tables::by_dtype, "Live bytes by the dtype of the tensor in them."},
        Field{"by_region", &Tables::by_region,
              "Live bytes by the innermost region of the program in which they were allocated."},
        Field{"by_tensor", &Tables::by_tensor,
              "Live bytes by the tensor's name, or its dtype and shape."},
        Field{"unknown_by_reason", &Tables::unknown_by_reason,
              "The rows of category unknown, by why they are unknown."},
        Field{"layers", &Tables::layers,
              "Each layer: live bytes by phase and by kind, and its own peak; by path."},
        Field{"steps", &Tables::steps, "Each step: peak, end, categories; the last 10,000."},
        Field{"saved", &Tables::saved,
              "What was kept for the backward of the peak, or where no backward uses the peak, for "
              "the one that "
              "kept most."},
        Field{"saved_by_operator", &Tables::saved_by_operator,
              "Those bytes by the operator that made them."},
        Field{"saved_by_layer", &Tables::saved_by_layer,
              "Those bytes by the layer that made them."},
        Field{"sites", &Tables::sites, "Allocation sites over the whole recording."},
        Field{"growth", &Tables::growth, "Sites that grow from step to step."},
        Field{"growth_by_layer", &Tables::growth_by_layer, "Layers that grow."},
        Field{"growth_by_category", &Tables::growth_by_category, "Categories that grow."}};
  }
};

}  // namespace plimsoll::report

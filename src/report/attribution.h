// Data that only native recordings have: layers, steps, and memory kept for backward. Bytes are
// allocated bytes, live until free_requested, if the device has block sizes; else requested bytes,
// live until free_completed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"

namespace plimsoll::report {

// A layer's memory: at the point in time of the tables, and at its own peak.
struct LayerBytes {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::uint64_t forward_bytes = 0;  // by the phase that allocated it
  std::uint64_t backward_bytes = 0;
  std::uint64_t optimizer_bytes = 0;
  std::uint64_t other_bytes = 0;
  std::uint64_t parameter_bytes = 0;  // by role
  std::uint64_t gradient_bytes = 0;
  std::uint64_t optimizer_state_bytes = 0;
  std::uint64_t activation_bytes = 0;
  std::uint64_t saved_bytes = 0;
  std::uint64_t peak_bytes = 0;
  std::optional<std::uint64_t> peak_event;
  std::optional<std::int64_t> peak_time_ns;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"bytes", &LayerBytes::bytes,
              "Live bytes at the point in time of the tables (tables.points_in_time)."},
        Field{"count", &LayerBytes::count, "Live allocations at that point."},
        Field{"forward_bytes", &LayerBytes::forward_bytes, "Part of bytes: allocated in forward."},
        Field{"backward_bytes", &LayerBytes::backward_bytes,
              "Part of bytes: allocated in backward."},
        Field{"optimizer_bytes", &LayerBytes::optimizer_bytes,
              "Part of bytes: allocated in an optimizer's step() or zero_grad()."},
        Field{"other_bytes", &LayerBytes::other_bytes,
              "Part of bytes: allocated at other times, such as when the model was built. The four "
              "parts sum to bytes."},
        Field{"parameter_bytes", &LayerBytes::parameter_bytes, "Part of bytes: parameters."},
        Field{"gradient_bytes", &LayerBytes::gradient_bytes,
              "Part of bytes: gradients of parameters."},
        Field{"optimizer_state_bytes", &LayerBytes::optimizer_state_bytes,
              "Part of bytes: optimizer state."},
        Field{"activation_bytes", &LayerBytes::activation_bytes,
              "Part of bytes: activations (created in forward, outlived their operator)."},
        Field{"saved_bytes", &LayerBytes::saved_bytes,
              "Activations live when the backward of tables.saved began; not part of bytes."},
        Field{"peak_bytes", &LayerBytes::peak_bytes, "Peak of the live bytes."},
        Field{"peak_event", &LayerBytes::peak_event,
              "First event of the device after which the peak was reached; null: before the first "
              "event."},
        Field{"peak_time_ns", &LayerBytes::peak_time_ns, "Time of that event; null if unknown."});
  }
};

// The totals while a layer ran, including the layers inside it.
struct LayerCalls {
  std::uint64_t calls = 0;
  std::uint64_t duration_ns = 0;
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t peak_reserved_bytes = 0;
  double fragmentation_ratio = 0;
  std::uint64_t rows = 0;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"calls", &LayerCalls::calls, "Number of calls of the layer itself."},
        Field{"duration_ns", &LayerCalls::duration_ns,
              "Wall time during which the layer or a layer inside it ran; overlapping calls count "
              "once."},
        Field{"allocations", &LayerCalls::allocations,
              "Number of allocations that belong to the layer, in all phases."},
        Field{"frees", &LayerCalls::frees,
              "Number of frees of these and of older allocations of the layer."},
        Field{"peak_reserved_bytes", &LayerCalls::peak_reserved_bytes,
              "Peak of the device's reserved bytes while the layer ran or its memory changed; "
              "allocated bytes if the device has no caching allocator."},
        Field{"fragmentation_ratio", &LayerCalls::fragmentation_ratio,
              "Mean of (reserved - allocated) / reserved over the same timeline rows."},
        Field{"rows", &LayerCalls::rows, "Number of timeline rows in the mean."});
  }
};

struct LayerRow {
  std::int32_t device = 0;
  std::string layer;  // empty: outside all layers
  LayerBytes own;
  LayerBytes inclusive;
  std::optional<LayerCalls> calls;
  std::string type = {};  // its class; empty if unknown

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"device", &LayerRow::device,
              "Device index; -1 for the CPU, -2 for pinned host memory."},
        Field{"layer", &LayerRow::layer,
              "Path of the module; empty for memory that belongs to no layer. The table also "
              "contains the parent of each layer (the path up to the last dot)."},
        Field{"own", &LayerRow::own,
              "Memory of the layer itself. Over all rows of a device, the bytes sum to live_bytes "
              "of tables.points_in_time."},
        Field{"inclusive", &LayerRow::inclusive,
              "Memory of the layer and of all layers inside it."},
        Field{"calls", &LayerRow::calls,
              "Calls of the layer; null unless the recording marks layer calls."},
        Field{"class", &LayerRow::type, "Class of the module; empty if unknown."});
  }
};

struct CategoryBytes {
  std::string category;
  std::uint64_t end_bytes = 0;
  std::uint64_t peak_bytes = 0;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"category", &CategoryBytes::category, "Name of the category."},
        Field{"end_bytes", &CategoryBytes::end_bytes, "Live bytes at the end of the step."},
        Field{"peak_bytes", &CategoryBytes::peak_bytes,
              "Live bytes at the peak of the step (peak_event)."});
  }
};

// The name that charts and tables give the events after the last step mark, whose step did not end.
inline constexpr const char* kAfterLastStep = "after the last step";
inline constexpr const char* kAfterLastStepShort = "after";  // where space is limited

// The span between two step marks. The first row begins with the recording; the row after the last
// mark has is_complete false.
struct StepRow {
  std::int32_t device = 0;
  std::uint64_t step = 0;
  bool is_complete = true;
  std::uint64_t first_event = 0;
  std::uint64_t event_count = 0;
  std::optional<std::int64_t> end_time_ns;
  std::uint64_t allocations = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t end_bytes = 0;
  std::uint64_t peak_bytes = 0;
  std::optional<std::uint64_t> peak_event;
  std::vector<CategoryBytes> categories;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"device", &StepRow::device,
              "Device index; -1 for the CPU, -2 for pinned host memory."},
        Field{"step", &StepRow::step,
              "Number of the step, as counted by the program or the recorder."},
        Field{"is_complete", &StepRow::is_complete,
              "False for the events after the last step mark: that step did not end."},
        Field{"first_event", &StepRow::first_event, "First event of the step on the device."},
        Field{"event_count", &StepRow::event_count, "Number of events of the step on the device."},
        Field{"end_time_ns", &StepRow::end_time_ns,
              "Time of the end of the step; null if unknown."},
        Field{"allocations", &StepRow::allocations, "Number of allocations in the step."},
        Field{"allocated_bytes", &StepRow::allocated_bytes, "Sum of their bytes."},
        Field{"end_bytes", &StepRow::end_bytes,
              "Live bytes at the end of the step: allocated bytes if the recording has the blocks "
              "of a caching allocator, else requested bytes."},
        Field{"peak_bytes", &StepRow::peak_bytes,
              "Peak of the live bytes within the step, including its start."},
        Field{"peak_event", &StepRow::peak_event,
              "First event after which the peak was reached; null: at the start of the step."},
        Field{"categories", &StepRow::categories,
              "Live bytes by category; they sum to end_bytes and peak_bytes of the step. Empty if "
              "the file has no categories."});
  }
};

// The memory kept at the start of the backward that uses memory live at the peak or, if none does,
// of the backward with the most memory kept.
struct SavedRow {
  std::int32_t device = 0;
  std::optional<std::uint64_t> event;
  std::optional<std::int64_t> time_ns;
  std::optional<std::uint64_t> step;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::uint64_t live_bytes = 0;
  std::uint64_t backwards = 0;
  bool is_of_peak = false;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"device", &SavedRow::device,
              "Device index; -1 for the CPU, -2 for pinned host memory."},
        Field{"event", &SavedRow::event,
              "The point is right after this event; null: before the first event."},
        Field{"time_ns", &SavedRow::time_ns, "Time at which backward began; null if unknown."},
        Field{"step", &SavedRow::step, "Step of that backward; null if no steps are marked."},
        Field{"bytes", &SavedRow::bytes,
              "Bytes created in forward and live when backward began: saved by autograd or "
              "retained by the program."},
        Field{"count", &SavedRow::count, "Number of these allocations."},
        Field{"live_bytes", &SavedRow::live_bytes, "All live bytes when backward began."},
        Field{"backwards", &SavedRow::backwards, "Number of backwards in the recording."});
  }
};

}  // namespace plimsoll::report

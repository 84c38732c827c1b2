// What only native recordings have: layers side by side, steps one after the other, and what
// is kept for backward. Bytes are allocated bytes, live until free_requested, where the device
// tells them; else requested bytes, live until free_completed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"

namespace plimsoll::report {

// A layer's memory: at the moment that the tables speak of, and at its own worst.
struct LayerBytes {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::uint64_t forward_bytes = 0;  // by the phase in which it was allocated
  std::uint64_t backward_bytes = 0;
  std::uint64_t optimizer_bytes = 0;
  std::uint64_t other_bytes = 0;
  std::uint64_t parameter_bytes = 0;  // by what it is
  std::uint64_t gradient_bytes = 0;
  std::uint64_t optimizer_state_bytes = 0;
  std::uint64_t activation_bytes = 0;
  std::uint64_t saved_bytes = 0;
  std::uint64_t peak_bytes = 0;
  std::optional<std::uint64_t> peak_event;
  std::optional<std::int64_t> peak_time_ns;

  static constexpr auto fields() {
    using base::Field;
    return std::tuple{
        Field{"bytes", &LayerBytes::bytes, "Live at the moment that tables.moments names."},
        Field{"count", &LayerBytes::count, "Allocations live then."},
        Field{"forward_bytes", &LayerBytes::forward_bytes, "Of bytes: allocated in forward."},
        Field{"backward_bytes", &LayerBytes::backward_bytes, "Of bytes: allocated in backward."},
        Field{"optimizer_bytes", &LayerBytes::optimizer_bytes,
              "Of bytes: allocated in an optimizer's step or zero_grad."},
        Field{"other_bytes", &LayerBytes::other_bytes,
              "Of bytes: allocated at other times, as when the model was built. The four sum to "
              "bytes."},
        Field{"parameter_bytes", &LayerBytes::parameter_bytes, "Of bytes: parameters."},
        Field{"gradient_bytes", &LayerBytes::gradient_bytes, "Of bytes: parameters' gradients."},
        Field{"optimizer_state_bytes", &LayerBytes::optimizer_state_bytes,
              "Of bytes: optimizer state."},
        Field{"activation_bytes", &LayerBytes::activation_bytes,
              "Of bytes: activations (made in forward, outliving their operator)."},
        Field{"saved_bytes", &LayerBytes::saved_bytes,
              "Activations live at the backward that tables.saved names; not a part of bytes."},
        Field{"peak_bytes", &LayerBytes::peak_bytes, "The most that was ever live."},
        Field{"peak_event", &LayerBytes::peak_event,
              "First event of the device after which that was so; null: before the first."},
        Field{"peak_time_ns", &LayerBytes::peak_time_ns, "Its time; null if unknown."}};
  }
};

// What happened while a layer ran, the layers inside it included.
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
    return std::tuple{
        Field{"calls", &LayerCalls::calls, "Calls of this layer itself."},
        Field{"duration_ns", &LayerCalls::duration_ns,
              "Wall time in which a call of it, or of a layer inside it, ran; overlapping calls "
              "count once."},
        Field{"allocations", &LayerCalls::allocations,
              "Allocations that belong to it, in every phase."},
        Field{"frees", &LayerCalls::frees, "Those of them, or of older ones, that were freed."},
        Field{"peak_reserved_bytes", &LayerCalls::peak_reserved_bytes,
              "The most that the device's allocator had reserved while the layer ran or its memory "
              "changed; allocated bytes where the device has no caching allocator."},
        Field{"fragmentation_ratio", &LayerCalls::fragmentation_ratio,
              "Mean of (reserved - allocated) / reserved over the same rows of the timeline."},
        Field{"rows", &LayerCalls::rows, "How many rows of the timeline that mean is of."}};
  }
};

struct LayerRow {
  std::int32_t device = 0;
  std::string layer;  // empty: outside all layers
  LayerBytes own;
  LayerBytes inclusive;
  std::optional<LayerCalls> calls;

  static constexpr auto fields() {
    using base::Field;
    return std::tuple{
        Field{"device", &LayerRow::device, "Ordinal; -1 for the CPU, -2 for pinned host memory."},
        Field{"layer", &LayerRow::layer,
              "The module's path; empty for what belongs to no layer. Each row but that one has "
              "its parent, the path up to the last dot, in the table, too."},
        Field{"own", &LayerRow::own,
              "What belongs to this layer itself: the rows of a device sum to live_bytes of its "
              "moment."},
        Field{"inclusive", &LayerRow::inclusive, "The same with all layers inside it."},
        Field{"calls", &LayerRow::calls,
              "What happened while it ran; null unless the recording marks the calls of layers."}};
  }
};

struct CategoryBytes {
  std::string category;
  std::uint64_t end_bytes = 0;
  std::uint64_t peak_bytes = 0;

  static constexpr auto fields() {
    using base::Field;
    return std::tuple{
        Field{"category", &CategoryBytes::category, "What the memory is."},
        Field{"end_bytes", &CategoryBytes::end_bytes, "Live when the step ended."},
        Field{"peak_bytes", &CategoryBytes::peak_bytes, "Live at the step's peak (peak_event)."}};
  }
};

// What lies between two step marks. The first row begins with the recording; what follows the last
// mark is a row with is_complete false.
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
    return std::tuple{
        Field{"device", &StepRow::device, "Ordinal; -1 for the CPU, -2 for pinned host memory."},
        Field{"step", &StepRow::step, "Its number, as the program or the recorder counts."},
        Field{"is_complete", &StepRow::is_complete,
              "False for what follows the last mark: a step that had not ended."},
        Field{"first_event", &StepRow::first_event, "Its first event on the device."},
        Field{"event_count", &StepRow::event_count, "How many events it has there."},
        Field{"end_time_ns", &StepRow::end_time_ns, "When it ended; null if unknown."},
        Field{"allocations", &StepRow::allocations, "Allocations made in it."},
        Field{"allocated_bytes", &StepRow::allocated_bytes, "Sum of their bytes."},
        Field{"end_bytes", &StepRow::end_bytes,
              "Live when it ended: allocated bytes where the recording tells blocks (a caching "
              "allocator's), else requested ones."},
        Field{"peak_bytes", &StepRow::peak_bytes, "The most live within it, its start included."},
        Field{"peak_event", &StepRow::peak_event,
              "First event after which that was so; null: it was so when the step began."},
        Field{"categories", &StepRow::categories,
              "What was live, by category: each kind of bytes sums to that of the step. Empty "
              "when the file names no categories."}};
  }
};

// The start of the backward that uses what is live at the peak; if none does, of the one for which
// most was kept.
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
    return std::tuple{
        Field{"device", &SavedRow::device, "Ordinal; -1 for the CPU, -2 for pinned host memory."},
        Field{"event", &SavedRow::event, "After this event; null: before the first one."},
        Field{"time_ns", &SavedRow::time_ns, "When backward began; null if unknown."},
        Field{"step", &SavedRow::step, "In which step; null if no steps are marked."},
        Field{"bytes", &SavedRow::bytes,
              "Made in forward and live when backward began: what autograd keeps, and what the "
              "program itself holds."},
        Field{"count", &SavedRow::count, "In how many allocations."},
        Field{"live_bytes", &SavedRow::live_bytes, "Everything live then."},
        Field{"backwards", &SavedRow::backwards, "How often a backward began in the recording."}};
  }
};

}  // namespace plimsoll::report

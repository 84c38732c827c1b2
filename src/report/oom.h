// Out-of-memory events: the facts about each, and the state of the device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "report/fragmentation.h"
#include "report/tables.h"

namespace plimsoll::report {

// Some messages do not state the size of the request, which is 0 then.
inline std::optional<std::uint64_t> known_request(std::uint64_t bytes) {
  return bytes > 0 ? std::optional(bytes) : std::nullopt;
}

struct Oom {
  std::uint64_t event = 0;
  std::optional<std::int64_t> time_ns;
  std::uint64_t requested_bytes = 0;
  std::optional<std::uint64_t> device_free_bytes;

  std::optional<std::uint64_t> stated_request() const { return known_request(requested_bytes); }

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"event", &Oom::event, "Number of the event on its device."},
        Field{"time_ns", &Oom::time_ns, "Time of that event; null if unknown."},
        Field{"requested_bytes", &Oom::stated_request,
              "Size of the request that failed, after rounding; null if unknown."},
        Field{"device_free_bytes", &Oom::device_free_bytes,
              "Free bytes of the device according to the driver; null if unknown."});
  }
};

// A change to the program, and whether the step would then have finished.
struct OomChange {
  std::string change;  // contiguous_memory, smaller_batch, checkpoint or optimizer_8bit
  std::optional<std::uint64_t> needed_bytes;
  bool is_enough = false;
  std::optional<double> batch_share;  // smaller_batch: the largest part of this batch that fits
  std::optional<std::uint64_t> batch_size;  // smaller_batch: the same in samples
  std::string layers;                       // checkpoint: "model.layers.0…21"

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"change", &OomChange::change,
              "contiguous_memory, smaller_batch, checkpoint or optimizer_8bit."},
        Field{"needed_bytes", &OomChange::needed_bytes,
              "What the step would have needed after the change; if no batch fits, with a batch of "
              "one sample; null if that is unknown."},
        Field{"is_enough", &OomChange::is_enough,
              "True if the step would have finished with at least 5% of the available memory left: "
              "less is within the error of the estimate."},
        Field{"batch_share", &OomChange::batch_share,
              "smaller_batch: the largest part of this batch that is enough; else null."},
        Field{"batch_size", &OomChange::batch_size,
              "smaller_batch: the same in samples; null if the size of the batch is unknown."},
        Field{"layers", &OomChange::layers, "checkpoint: the layers; else empty."});
  }
};

// What the step that failed needed, and what was available.
struct OomNeed {
  std::optional<std::uint64_t> bytes;
  std::string basis;
  std::string why_unknown;
  std::optional<std::uint64_t> available_bytes;
  std::optional<std::uint64_t> scaling_bytes;
  std::optional<std::uint64_t> state_bytes;
  std::optional<double> ratio;
  std::optional<std::uint64_t> batch_size;
  std::string input_shape;
  std::string earlier_input_shape;
  std::optional<std::uint64_t> earlier_request_bytes;
  std::optional<std::uint64_t> scratch_bytes;
  std::string new_caller;
  std::uint64_t caller_bytes = 0;
  std::vector<OomChange> changes;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"bytes", &OomNeed::bytes,
              "Estimated peak of live bytes, had the step finished; null if unknown."},
        Field{
            "basis", &OomNeed::basis,
            "Where the estimate comes from: earlier_step, earlier_forward (the forward alone: the "
            "program had not called the model from this line before), optimizer_state, or "
            "unknown; empty if nothing was estimated."},
        Field{"why_unknown", &OomNeed::why_unknown, "Why it is unknown; else empty."},
        Field{"available_bytes", &OomNeed::available_bytes,
              "What the process could use: reserved bytes and the device's free bytes, up to a "
              "recorded limit, without idle memory of other private pools."},
        Field{"scaling_bytes", &OomNeed::scaling_bytes,
              "The part of `bytes` that grows with the batch."},
        Field{"state_bytes", &OomNeed::state_bytes,
              "The part of `bytes` that is optimizer state which did not exist yet."},
        Field{"ratio", &OomNeed::ratio,
              "Size of the tensors of this step, divided by that of the earlier one."},
        Field{"batch_size", &OomNeed::batch_size,
              "First dimension of the step's inputs; null if unknown."},
        Field{"input_shape", &OomNeed::input_shape, "Shape of the largest input, if known."},
        Field{"earlier_input_shape", &OomNeed::earlier_input_shape,
              "The same in the earlier step that the estimate is based on."},
        Field{"earlier_request_bytes", &OomNeed::earlier_request_bytes,
              "What that step requested where this one failed; null if there is no such step."},
        Field{"scratch_bytes", &OomNeed::scratch_bytes,
              "The part of `bytes` that is temporaries of the optimizer; null if there is none."},
        Field{"new_caller", &OomNeed::new_caller,
              "The line outside the model that led to the request, if no earlier step called the "
              "model from there; else empty."},
        Field{"caller_bytes", &OomNeed::caller_bytes,
              "Live activations of the step that failed which that line made."},
        Field{"changes", &OomNeed::changes,
              "Changes to the program, and whether each would have let the step finish."});
  }
};

// The analysis of each event, in the order of the events.
struct OomDetails {
  std::uint64_t event = 0;
  std::optional<std::int64_t> time_ns;
  std::uint64_t requested_bytes = 0;
  std::optional<std::uint64_t> device_free_bytes;
  std::optional<std::uint64_t> device_total_bytes;
  std::optional<std::uint64_t> limit_bytes;  // the limit of the process
  std::string line;                          // the line that requested it
  std::optional<std::int64_t> requested_allocated_bytes;
  std::optional<std::int64_t> requested_active_bytes;
  std::optional<std::int64_t> reserved_bytes;
  std::uint64_t largest_free_bytes = 0;    // largest gap in the segments at that point
  std::uint64_t largest_usable_bytes = 0;  // largest gap that may serve the request
  std::uint64_t stranded_bytes = 0;        // free in pinned segments, and unusable for the request
  std::uint64_t joinable_bytes = 0;  // of the request's stream and pool; not in the report's JSON
  std::uint64_t grown_bytes = 0;     // part of the live bytes due to lines that grow at every
                                     // step
  bool is_limited = false;  // the driver had enough free memory, and the request failed anyway
  std::string cause;        // one of the classes in cause.h
  std::vector<GroupRow> top_lines;  // what filled the device at that point
  std::vector<PinningLine> pinning_lines;
  std::vector<LoneBlock> lone_blocks;
  std::uint64_t private_idle_bytes = 0;  // free in private pools that the request may not use
  std::string private_pools;             // "(0, 1)"
  OomNeed need;

  std::optional<std::uint64_t> stated_request() const { return known_request(requested_bytes); }

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"event", &OomDetails::event, "Number of the event on its device."},
        Field{"time_ns", &OomDetails::time_ns, "Time of that event; null if unknown."},
        Field{"requested_bytes", &OomDetails::stated_request,
              "Size of the request that failed, after rounding; null if unknown."},
        Field{"device_free_bytes", &OomDetails::device_free_bytes,
              "Free bytes of the device according to the driver; null if unknown."},
        Field{"device_total_bytes", &OomDetails::device_total_bytes,
              "Capacity of the device; null if not recorded."},
        Field{"limit_bytes", &OomDetails::limit_bytes,
              "Limit of the process (set_per_process_memory_fraction). Null if not recorded; the "
              "capacity of the device if there is no limit."},
        Field{"line", &OomDetails::line, "Line that requested the memory."},
        Field{"requested_allocated_bytes", &OomDetails::requested_allocated_bytes,
              "Requested bytes live at that event, counted to free_requested; null if unknown."},
        Field{"requested_active_bytes", &OomDetails::requested_active_bytes,
              "Requested bytes live at that event, counted to free_completed; null if unknown."},
        Field{"reserved_bytes", &OomDetails::reserved_bytes,
              "Reserved bytes at that event; null if unknown."},
        Field{"largest_free_bytes", &OomDetails::largest_free_bytes,
              "Largest free block in a segment at that event."},
        Field{"largest_usable_bytes", &OomDetails::largest_usable_bytes,
              "Largest free block of the request's stream, pool and segment type at that event."},
        Field{"stranded_bytes", &OomDetails::stranded_bytes,
              "Pinned bytes that could not serve the request: too small, or of another stream, "
              "pool or segment type."},
        Field{"grown_bytes", &OomDetails::grown_bytes,
              "Bytes live at that event that belong to lines growing at every step."},
        Field{
            "is_limited", &OomDetails::is_limited,
            "True if the device had enough free memory and the request failed nevertheless: at a "
            "limit of the process if limit_bytes states one, else for a reason that the file does "
            "not record."},
        Field{"cause", &OomDetails::cause,
              "one_large_request, fragmentation, steady_growth, too_big or, on the CPU only, "
              "process_limit; empty for failures that are not examined: beyond the first 200 of a "
              "device, and "
              "those of a message in a text."},
        Field{"top_lines", &OomDetails::top_lines,
              "Lines that used the most memory at that event, in the unit of the tables."},
        Field{"pinning_lines", &OomDetails::pinning_lines,
              "The lines that pin the stranded bytes."},
        Field{"lone_blocks", &OomDetails::lone_blocks,
              "Blocks that alone pin memory, most pinned bytes first."},
        Field{"private_idle_bytes", &OomDetails::private_idle_bytes,
              "Free bytes in private pools (CUDA graphs, MemPool) that the request could not use."},
        Field{"private_pools", &OomDetails::private_pools,
              "The ids of these pools, as in the table by_pool; empty if there are none."},
        Field{"need", &OomDetails::need,
              "What the step needed; estimated for the last failures of a device."});
  }
};

}  // namespace plimsoll::report

// Recording: takes the records of a trace file and puts the events into the model as they come,
// with what is known of them then. What hindsight shows (tags, phases, when something was freed) is
// kept beside each allocation; attribute() writes it into the model at the end.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/column.h"
#include "format/decoder.h"
#include "model/trace_builder.h"
#include "readers/native/besides.h"
#include "readers/native/caches.h"
#include "readers/native/definitions.h"
#include "readers/native/looks.h"
#include "readers/native/serial_index.h"
#include "readers/reader.h"

namespace plimsoll::readers::native {

class Recording : public format::NoRecords {
 public:
  explicit Recording(ReadContext& context)
      : context_(context),
        definitions_(context.builder, context.diagnostics),
        besides_(context.beside, context.diagnostics),
        looks_(context.builder, definitions_) {}

  void on_block(const format::Block& block);
  void on_process(const format::Process& process);
  void on_meta(std::string_view key, std::string_view value);
  void on_name(std::uint32_t id, std::string_view text) { definitions_.name(id, text); }
  void on_stack(std::uint32_t id, std::span<const format::Frame> frames);
  void on_site(std::uint32_t id, const format::Site& site) { definitions_.site(id, site); }
  void on_tensor(std::uint32_t id, const format::Tensor& tensor) {
    definitions_.tensor(id, tensor);
  }
  void on_device(std::uint8_t id, const format::Device& device) { definitions_.device(id, device); }
  void on_setting(const format::Setting& setting) { definitions_.setting(setting); }
  void on_notice(const format::Notice& notice) { definitions_.notice(notice); }
  void on_alloc(const format::Alloc& alloc);
  void on_free(const format::Free& free);
  void on_free_requested(const format::FreeRequested& free);
  void on_segment(const format::Segment& segment);
  void on_out_of_memory(const format::OutOfMemory& failed);
  void on_device_figure(const format::DeviceFigure& figure) { looks_.add(figure); }
  void on_tag(const format::Tag& tag);
  void on_set_phase(const format::SetPhase& set);
  void on_mark(const format::Mark& mark);
  void on_dropped(const format::Dropped& dropped);
  void on_evicted(const format::Evicted& evicted);
  void on_end(const format::End& end);
  void on_file_state(const format::FileState& state) { file_state_ = state; }
  void on_attachment(const format::AttachmentPiece& piece) { besides_.on_piece(piece); }

  // As the recorder left it; none in files of before version 3 and in streams.
  const std::optional<format::FileState>& file_state() const { return file_state_; }
  std::int64_t started_ns() const { return started_ns_; }
  std::uint64_t events_in_blocks() const { return events_in_blocks_; }

  // What makes going on pointless: too many events, too much memory.
  const std::optional<Error>& failure() const { return failure_; }
  // Everything has been read: fills in what hindsight shows.
  void attribute();
  // Whether each allocation is ended by one event, the one that the file says.
  bool frees_at_once() const { return !caches_.are_there(); }

 private:
  struct Counts {
    std::uint64_t unseen_frees = 0, undefined_sites = 0, adopted_unknown = 0;
    std::uint64_t adopted_unknown_bytes = 0;
  };
  struct Words;

  void set_device(std::uint8_t device);
  void end_run();
  std::uint32_t add_free(model::Action action, std::uint32_t index, std::int64_t time_ns);
  void add_placed(model::Event event, std::uint32_t site, std::uint8_t device);
  void set_stream(std::size_t row, const format::Site& site);
  void out_of_memory(const format::Mark& mark);
  model::StringId name_of(const format::Mark& mark);
  void check_limits();
  bool is_saved(std::uint32_t row, std::uint32_t freed_row) const;
  bool is_scratch(std::uint32_t row, std::uint32_t freed_row) const;
  class Columns;
  model::Phase phase_of_allocation(const Allocation& allocation, const Place& place) const;
  model::StringId category(const Allocation& allocation, std::uint64_t size_bytes,
                           const Place& place, const Words& words);
  void tell_counts();

  ReadContext& context_;
  Definitions definitions_;
  Besides besides_;
  SerialIndex serials_;
  base::Column<Allocation> allocations_;
  Caches caches_;
  Looks looks_;
  struct Placed {
    std::uint32_t row = 0;
    std::uint32_t site = 0;
  };
  base::Column<Placed> others_;                // events that are no allocations and have a place
  base::Column<std::uint32_t> backward_rows_;  // rows added before each backward began
  base::Column<std::uint32_t> step_rows_;      // and before each step ended
  std::uint8_t device_ = 0;                    // of the events being added
  std::uint64_t run_first_ = 0;                // the first row of them
  bool is_limited_ = false;                    // by max_events
  Counts counts_;
  std::optional<format::FileState> file_state_;
  std::int64_t started_ns_ = 0;
  std::uint64_t events_in_blocks_ = 0;
  std::optional<Error> failure_;
};

}  // namespace plimsoll::readers::native

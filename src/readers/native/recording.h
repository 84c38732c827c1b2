// Recording takes the records of a trace file and adds the events to the model in order. Until
// attribute() fills in what is only known in hindsight (tags, phases, frees), the sites and tensors
// in the model's columns are ids of the file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/column.h"
#include "format/decoder.h"
#include "model/trace_builder.h"
#include "readers/native/caches.h"
#include "readers/native/definitions.h"
#include "readers/native/device_readings.h"
#include "readers/native/holders.h"
#include "readers/native/last_uses.h"
#include "readers/native/serial_index.h"
#include "readers/native/side_records.h"
#include "readers/reader.h"

namespace plimsoll::readers::native {

class Recording : public format::NoRecords {
 public:
  explicit Recording(ReadContext& context)
      : context_(context),
        definitions_(context.builder, context.diagnostics),
        side_records_(context.side_data, context.diagnostics),
        readings_(context.builder, definitions_) {}

  void on_block(const format::Block& block);
  void on_process(const format::Process& process);
  void on_meta(std::string_view key, std::string_view value);
  void on_name(std::uint32_t id, std::string_view text) { definitions_.name(id, text); }
  void on_stack(std::uint32_t id, std::span<const format::Frame> frames);
  void on_site(std::uint32_t id, const format::Site& site) {
    definitions_.site(id, site);
    has_streams_ = has_streams_ || site.stream != 0 || site.pool != 0;
  }
  void on_tensor(std::uint32_t id, const format::Tensor& tensor) {
    definitions_.tensor(id, tensor);
  }
  void on_device(std::uint8_t id, const format::Device& device);
  void on_setting(const format::Setting& setting) { definitions_.setting(setting); }
  void on_notice(const format::Notice& notice) { definitions_.notice(notice); }
  void on_function(const format::Function& function) { definitions_.function(function); }
  void on_module(const format::Module& module) { definitions_.module(module); }
  void on_source_line(const format::SourceLine& line) { definitions_.source_line(line); }
  void on_alloc(const format::Alloc& alloc);
  void on_free(const format::Free& free);
  void on_free_requested(const format::FreeRequested& free);
  void on_segment(const format::Segment& segment);
  void on_out_of_memory(const format::OutOfMemory& failed);
  void on_device_figure(const format::DeviceFigure& figure) { readings_.add(figure); }
  void on_uses(const format::EndUses& uses) { last_uses_.add(uses); }
  void on_last_use(const format::LastUse& last);
  void on_holder_walk(const format::HolderWalk& walk) { holders_.add(walk); }
  void on_holder_link(const format::HolderLink& link) { holders_.add(link); }
  void on_held(const format::Held& held);
  void on_holder_cut(const format::HolderCut& cut) { holders_.add(cut); }
  void on_tag(const format::Tag& tag);
  void on_set_phase(const format::SetPhase& set);
  void on_mark(const format::Mark& mark);
  void on_dropped(const format::Dropped& dropped);
  void on_evicted(const format::Evicted& evicted);
  void on_end(const format::End& end);
  void on_file_state(const format::FileState& state) { file_state_ = state; }
  void on_attachment(const format::AttachmentPiece& piece) { side_records_.on_piece(piece); }

  // As written by the recorder; nullopt in files before version 3 and in streams.
  const std::optional<format::FileState>& file_state() const { return file_state_; }
  std::int64_t started_ns() const { return started_ns_; }
  std::uint64_t events_in_blocks() const { return events_in_blocks_; }

  // Set if reading further is pointless: too many events, too much memory.
  const std::optional<Error>& failure() const { return failure_; }
  // Call after the last record: fills in what is known in hindsight.
  void attribute();
  // Declares that no event is missing: without a cache, each allocation is ended by the one event
  // that the file names.
  void pairs_known();
  std::int64_t last_event_ns() const;

 private:
  struct Counts {
    std::uint64_t unseen_frees = 0, undefined_sites = 0, adopted_unknown = 0;
    std::uint64_t adopted_unknown_bytes = 0;
  };

  Tables& tables_of(std::uint8_t device);
  std::uint32_t& free_of(const Allocation& allocation);
  std::uint32_t add_free(model::Action action, const Allocation& allocation, std::int64_t time_ns);
  model::SiteId site_of_free(std::uint32_t site);
  void add_placed(const model::Event& event, std::uint32_t site, std::uint8_t device);
  void out_of_memory(const format::Mark& mark);
  model::StringId name_of(const format::Mark& mark);
  void begin_collection(const format::Mark& mark);
  void end_collection(std::uint32_t thread, std::int64_t time_ns);
  void mark_collection(std::int64_t time_ns);
  void note_collector(Allocation& allocation, std::uint32_t thread, std::int64_t time_ns);
  void check_limits();
  class OnDevice;
  void count_unknown(std::uint64_t size_bytes);
  void report_counts();

  ReadContext& context_;
  Definitions definitions_;
  SideRecords side_records_;
  SerialIndex serials_;
  base::Column<Allocation> allocations_;
  Caches caches_;
  DeviceReadings readings_;
  struct Placed {
    std::uint32_t row = 0;
    std::uint32_t site = 0;
    std::uint8_t device = 0;
  };
  base::Column<Placed> others_;  // events that have a site but are not allocations
  DeviceTables tables_;
  LastUses last_uses_{tables_};
  HolderRecords holders_{context_.builder.holders(), definitions_};
  base::Column<std::uint32_t> free_sites_;  // by the allocation's site in the file; kNone: not
                                            // created yet
  // The run of Python's garbage collector that has begun and not ended.
  struct Collection {
    std::uint32_t thread = 0;
    bool is_full = false;
    bool is_marked = false;  // its begin is in the model
  };
  std::optional<Collection> collection_;
  std::uint8_t last_device_ = 0;  // of the last event added
  bool has_streams_ = false;      // some site is not on the default stream or in the
                                  // default pool
  bool is_limited_ = false;       // by max_events
  Counts counts_;
  std::optional<format::FileState> file_state_;
  std::int64_t started_ns_ = 0;
  std::uint64_t events_in_blocks_ = 0;
  std::uint64_t next_block_ = format::kPreludeBytes;  // its offset, unless blocks are damaged
  std::optional<Error> failure_;
};

}  // namespace plimsoll::readers::native

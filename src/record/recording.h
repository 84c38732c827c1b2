// One recording: encodes the ledger's events and writes the blocks to its sink. It has two sides,
// connected by a queue of finished blocks: encoding runs under the recorder's state lock and never
// waits for a file; writing runs outside of it, under the recording's own lock, so blocks keep
// their order whichever thread writes them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/encoder.h"
#include "format/file_state.h"
#include "plimsoll/recorder_c.h"
#include "record/ledger/ledger.h"
#include "record/ledger/peak_spans.h"
#include "record/output/definitions.h"
#include "record/output/file_sink.h"
#include "record/output/kept_blocks.h"
#include "record/output/source_lines.h"

namespace plimsoll::record {

class Recording final : public EventReceiver, private format::BlockOutput {
 public:
  enum class Due : std::uint8_t { kOld, kAll };

  // May throw std::bad_alloc.
  explicit Recording(const plimsoll_recording_options& options);
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() = default;

  // ---- before it is attached ----

  // Returns 0 or the errno. May throw std::bad_alloc.
  int open_file();
  void remove_file() noexcept { file_.remove(); }
  bool writes_same_file(const Recording& other) const noexcept {
    return file_.is_same_as(other.file_);
  }

  // ---- under the state lock ----

  // Begins with all definitions and all live allocations. May throw std::bad_alloc.
  void attach(Definitions& definitions, const Ledger& ledger, std::int64_t time_ns);
  void write_definitions(Definitions& definitions) noexcept {
    if (is_written()) definitions.write_new(cursor_, *encoder_);
  }
  // Queues the blocks that have waited long enough, or all of them.
  void seal(Due due, std::int64_t time_ns) noexcept;
  void add_source_lines(std::span<const SourceText> lines) noexcept;
  void finish(std::int64_t time_ns) noexcept;
  void report_failures() noexcept { reports_failure_ = true; }  // on stderr, when it happens
  void add_attachment(std::string_view format, std::span<const std::byte> bytes) noexcept;
  bool has_blocks() const noexcept { return !ready_.empty(); }  // waiting for write_out()

  void on_alloc(const format::Alloc& event, const LiveTotals& live) noexcept override;
  void on_free(const format::Free& event, const format::EndUse& last) noexcept override;
  void on_free_requested(const format::FreeRequested& event,
                         const format::EndUse& last) noexcept override;
  void on_use(const UseChange& change) noexcept override { spans_.see(change); }
  void on_ended(const Ended& ended) noexcept override { spans_.see(ended); }
  void on_reserved(const LiveTotals& live) noexcept override;
#define PLIMSOLL_EVENT(Struct, method, number, meaning) \
  void on_##method(const format::Struct& event) noexcept override;
#include "format/records.def"

  std::uint64_t peak_bytes() const noexcept { return peak_bytes_; }
  void reset_peak(std::uint64_t live_bytes) noexcept { peak_bytes_ = live_bytes; }
  std::uint64_t begin_span(const Ledger& ledger) noexcept;
  PeakSpans& spans() noexcept { return spans_; }
  // Sets everything except the counts of the tables.
  void fill_state(const Ledger& ledger, plimsoll_recording_state& state) const noexcept;
  // MEMORY: see plimsoll_recording_copy().
  void* copy(std::size_t& size_bytes, std::int64_t time_ns) noexcept;

  // Adds a reading of the process; and from now on none.
  void report_process(std::int64_t time_ns) noexcept;
  void end_process_readings() noexcept { reads_process_ = false; }

  // ---- outside the state lock ----

  // Writes the queued blocks to the sink.
  void write_out(std::mutex& state_mutex, Due due) noexcept;
  // The same at the end; closes the file.
  void write_rest(std::mutex& state_mutex) noexcept;

  // ---- anywhere ----

  void fail(int error) noexcept;
  bool has_failed() const noexcept { return error_.load(std::memory_order_relaxed) != 0; }
  int error() const noexcept { return error_.load(std::memory_order_relaxed); }
  std::uint64_t written_bytes() const noexcept {
    return written_bytes_.load(std::memory_order_relaxed);
  }
  std::uint64_t evicted() const noexcept;  // events that the output lacks; under the state lock
  // The path of the file; "" if there is none.
  const char* path() const noexcept { return file_.path().c_str(); }
  // Reads them; takes the definitions' lock, and reads files.
  std::vector<SourceText> read_sources(Definitions& definitions) const noexcept;
  bool marks_layer_calls() const noexcept { return marks_layer_calls_; }
  bool is_stream() const noexcept { return sink_ == PLIMSOLL_SINK_STREAM; }

  // ---- in a forked child, which lacks the writer thread ----

  bool follows_forks() const noexcept { return sink_ == PLIMSOLL_SINK_FILE && in_children_; }
  void abandon() noexcept;  // gives up the parent's file and locks
  void begin_in_child();
  void open_in_child();  // PATH.PID; both may throw std::bad_alloc

 private:
  bool is_written() const noexcept { return sink_ != PLIMSOLL_SINK_NULL && !has_failed(); }
  bool keeps_newest() const noexcept { return kept_.has_value(); }
  // If the sink cannot replace what it has written, the newest events are written at the end.
  bool is_kept_for_the_end() const noexcept {
    return keeps_newest() && sink_ == PLIMSOLL_SINK_FILE && !has_state_;
  }
  void write(const format::FinishedBlock& block) noexcept override;
  void restart();
  void describe_process(std::int64_t time_ns);
  void report_segments(const Ledger& ledger, std::int64_t time_ns);
  void report_live(const Ledger& ledger, std::int64_t time_ns);
  void define_sites() noexcept;
  void need_site(std::uint32_t site) noexcept {
    if (site > sites_defined_) define_sites();
  }
  template <typename Event>
  void take(const Event& event, void (format::Encoder::*encode)(const Event&) noexcept) noexcept;
  void after_memory_event() noexcept;
  void after_event() noexcept;
  // Which of the recorded events a file has.
  struct Extent {
    std::uint64_t events = 0;          // recorded until then
    std::int64_t until_ns = 0;         // at the end, no event before this time is missing
    std::uint64_t evicted = 0;         // number of those events missing at the beginning
    std::uint64_t evicted_events = 0;  // of those, the ones that a report counts
    std::int64_t evicted_until_ns = 0;
  };

  // Finished blocks on their way to the sink.
  struct Batch {
    std::vector<std::byte> bytes;
    std::vector<std::size_t> ends;       // where each block ends in `bytes`
    std::uint64_t waiting_since_ns = 0;  // by the monotonic clock: no event is older
    Extent extent;                       // of the file, after this batch is written
  };
  Batch take_batch() noexcept;  // under the state lock
  void deliver(const Batch& batch, std::mutex& state_mutex) noexcept;
  void send(std::mutex& state_mutex) noexcept;
  void send_whole(std::mutex& state_mutex) noexcept;
  void shorten(std::mutex& state_mutex) noexcept;
  void report_growth(int error) noexcept;
  Extent extent_of_blocks() const noexcept;  // under the state lock, like the next
  format::FileState file_state(const Extent& extent) const noexcept;
  void write_state(std::mutex& state_mutex, Due due) noexcept;
  void report_failure() noexcept;
  int put(const std::vector<std::byte>& bytes, const std::vector<std::size_t>& ends) noexcept;

  // As the caller requested:
  const std::uint8_t sink_;
  const bool in_children_;
  const bool marks_layer_calls_;
  const bool omits_source_text_;
  const Earlier earlier_;
  std::string path_;        // once the file is open, its actual path
  bool has_state_ = false;  // a regular file, whose state record can be rewritten
  const std::uint64_t max_events_;
  int (*const stream_)(void*, const void*, std::size_t);
  void* const stream_user_;
  std::vector<std::pair<std::string, std::string>> meta_;

  // Under the state lock:
  std::optional<format::Encoder> encoder_;
  const SiteTable* sites_ = nullptr;
  std::size_t sites_defined_ = 0;
  DefinitionCursor cursor_;
  std::optional<KeptBlocks> kept_;
  std::uint64_t kept_at_ = 0;  // events_ at the last block of kept_
  std::vector<std::byte> ready_;
  std::vector<std::size_t> ready_ends_;
  std::int64_t started_ns_ = 0;
  std::int64_t sealed_ns_ = 0;          // all earlier events are in blocks
  std::uint64_t sealed_at_ns_ = 0;      // the same, by the monotonic clock
  std::uint64_t waiting_since_ns_ = 0;  // as in Batch
  bool is_finished_ = false;
  bool reads_process_ = true;
  std::uint64_t events_ = 0;
  std::uint64_t memory_events_ = 0;  // of those, the ones that a report counts: no marks, no names
  std::uint64_t dropped_ = 0;
  std::uint64_t peak_bytes_ = 0;
  PeakSpans spans_;
  std::uint64_t replaced_before_ = 0;
  std::uint64_t unmatched_before_ = 0;

  // Under the writing lock:
  std::mutex writing_;
  FileSink file_;
  std::uint64_t shortened_bytes_ = 0;  // of the file when it was last rewritten
  std::uint64_t state_at_ns_ = 0;      // time of the state in the file, by the monotonic clock
  std::uint64_t state_events_ = 0;
  bool reports_failure_ = false;
  bool reports_growth_ = true;

  // Under both locks; holding either one is enough to read:
  Extent sent_;
  std::uint64_t longest_wait_ns_ = 0;

  std::atomic<std::uint64_t> written_bytes_{0};
  std::atomic<int> error_{0};
};

}  // namespace plimsoll::record

// The recorder of the process: threads' rings on one side, recordings on the other, and the drain
// between them. There is one, created at its first use and never destroyed: threads may free memory
// until process exit. While recordings run it has two threads, one that drains and one that writes,
// so that a slow disk does not let the rings fill up.
//
// Lock order: the control lock (start and stop, one at a time), a recording's writing lock, the
// state lock (the drain's work; its holder may drain), and inside it the locks of the registry and
// the tables. The last three are held around fork(). Threads that the child lacks may have held the
// others, which are recreated there.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "base/worker.h"
#include "plimsoll/last_failure_c.h"
#include "plimsoll/last_use_c.h"
#include "plimsoll/peak_c.h"
#include "plimsoll/recorder_c.h"
#include "record/hot/merge.h"
#include "record/hot/thread_registry.h"
#include "record/hot/ticks.h"
#include "record/hot/uses.h"
#include "record/ledger/ledger.h"
#include "record/output/definitions.h"
#include "record/process_reading.h"
#include "record/recording.h"
#include "record/unrecorded_children.h"

namespace plimsoll::record {

enum class Mode : int {
  kOff,
  kOn,
  kChild,  // a forked child whose first event starts its recordings
};

// The state that every hook reads.
struct Hot {
  std::atomic<Mode> mode{Mode::kOff};
  TickSource ticks = TickSource::kClock;  // set once, before the first recording
  std::atomic<bool> is_quick{false};      // on, and reading the time is one instruction
  std::atomic<Uses*> uses{nullptr};       // null: last uses are not recorded

  void set_mode(Mode now) noexcept {
    mode.store(now, std::memory_order_relaxed);
    is_quick.store(now == Mode::kOn && ticks == TickSource::kTsc, std::memory_order_relaxed);
  }
};

class Recorder {
 public:
  // Creates it if necessary.
  static Recorder& get() noexcept;
  // For hooks, which run only after get() has been called.
  static Recorder& made() noexcept { return *reinterpret_cast<Recorder*>(g_storage); }

  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Returns null on failure and sets *error to a sentence that is valid until this thread's next
  // failure.
  std::shared_ptr<Recording> start(const plimsoll_recording_options& options,
                                   const char** error) noexcept;
  void flush(Recording& recording) noexcept;
  void read_process_now(Recording& recording) noexcept;
  void flush_all() noexcept;
  // Returns 0 or an errno.
  int add_attachment(Recording& recording, std::string_view format,
                     std::span<const std::byte> bytes) noexcept;
  void settle() noexcept;
  void get_state(Recording& recording, plimsoll_recording_state& state) noexcept;
  void stop(Recording& recording, plimsoll_recording_state& state) noexcept;
  void* copy(Recording& recording, std::size_t& size_bytes) noexcept;
  std::uint64_t peak_bytes(Recording& recording, int reset) noexcept;

  std::size_t live(Recording& recording, std::span<plimsoll_live> rows) noexcept;
  std::uint64_t begin_span(Recording& recording) noexcept;
  // Returns false if the span or the recording has ended.
  bool peak(Recording& recording, std::uint64_t span, std::uint8_t device,
            plimsoll_peak& peak) noexcept;
  std::size_t usage(Recording& recording, std::uint64_t span,
                    std::span<plimsoll_usage> rows) noexcept;
  void end_span(Recording& recording, std::uint64_t span) noexcept;

  // The pins of the last failed request on the device.
  std::size_t pins(Recording& recording, std::uint8_t device, plimsoll_stranded& sums,
                   std::span<plimsoll_pin> rows) noexcept;
  // Returns false if no step has ended.
  bool since_step(Recording& recording, std::uint8_t device, std::uint64_t& step, RoleBytes& then,
                  RoleBytes& now) noexcept;

  // Whether holders() is wanted: once for each time that it is.
  plimsoll_holders_wanted wants_holders() noexcept {
    return wanted_holders_.load(std::memory_order_relaxed) == PLIMSOLL_HOLDERS_NOT_WANTED
               ? PLIMSOLL_HOLDERS_NOT_WANTED
               : wanted_holders_.exchange(PLIMSOLL_HOLDERS_NOT_WANTED, std::memory_order_relaxed);
  }
  void want_holders(plimsoll_holders_wanted wanted) noexcept;
  // How often holders() has been called.
  std::uint64_t holder_walks() const noexcept {
    return holder_walks_.load(std::memory_order_acquire);
  }
  // What holds the live memory now, for all recordings.
  void holders(const plimsoll_holders& found) noexcept;

  // Whether uses are observed from now on. Returns false if they cannot be recorded.
  bool observe_uses(bool is_on) noexcept;
  bool is_observing_uses() const noexcept { return use_span_.load(std::memory_order_relaxed) != 0; }
  plimsoll_use_point use_point() const noexcept;
  // The live allocations that no operator has used since the point, as plimsoll_recording_unused().
  std::size_t unused(Recording& recording, const plimsoll_use_point& since,
                     std::span<plimsoll_live> rows) noexcept;

  // In a child whose recordings wait for its first event: begins them. Returns false if no
  // recording runs.
  bool begin_in_child() noexcept;
  // Handles an event of this kind while nothing is recorded.
  void pass_over(Kind kind) noexcept {
    if (kind == Kind::kAlloc || kind == Kind::kAllocBlock) children_.allocates();
  }
  void wake_drain() noexcept { drainer_.waker().nudge(); }
  // Calls visit(begin, size_bytes) for its memory outside the heap: it contains addresses, but
  // refers to nothing.
  template <typename Visit>
  void visit_pages(Visit&& visit) {
    threads.visit_rings(visit);
    uses_.visit_pages(visit);
  }
  // Keeps the rings from being drained, for tests of full rings.
  std::unique_lock<std::mutex> pause_drain() { return std::unique_lock(state_); }

  Hot hot;
  ReadingSteps reading_steps;
  ThreadRegistry threads;
  Definitions definitions;
  // Defines the reserved stacks that wait for their lines (native_stacks/); null: there are none.
  // Called without locks.
  std::atomic<void (*)() noexcept> define_stacks{nullptr};

 private:
  Recorder() noexcept;

  void define_waiting_stacks() noexcept;
  void report_uses(Recording& recording) noexcept;

  using Recordings = std::vector<std::shared_ptr<Recording>>;

  // ---- under the state lock ----
  void drain() noexcept;
  void drain_or_throw();
  plimsoll_live live_row(const Ended& of, std::span<const format::Tensor> tensors) const;
  void list_sources();
  void report_dropped(std::int64_t time_ns);
  void count_if_beyond(const Event& event, const Definitions::Beyond& beyond) noexcept;
  void report_refused() noexcept;
  void report_unrecorded_children() noexcept;
  void discard_events();
  void attach(const std::shared_ptr<Recording>& recording);
  void detach(const Recording& recording) noexcept;
  std::uint64_t count_marking() const noexcept;
  bool is_running(const Recording& recording) const noexcept;
  void break_off() noexcept;
  std::int64_t now_ns() noexcept;
  void fill_state(const Recording& recording, plimsoll_recording_state& state) noexcept;
  const char* obstacle(const Recording& recording) const noexcept;

  // ---- under the control lock ----
  bool begin(const std::shared_ptr<Recording>& recording, const char** error) noexcept;
  void end(Recording& recording, plimsoll_recording_state& state) noexcept;
  void begin_all_in_child() noexcept;
  void attach_all_in_child() noexcept;
  bool start_workers() noexcept;
  void stop_workers() noexcept;

  void drain_until_stopped() noexcept;
  void write_until_stopped() noexcept;

  void install_handlers() noexcept;
  void at_exit() noexcept;
  void before_fork() noexcept;
  void after_fork_in_parent() noexcept;
  void after_fork_in_child() noexcept;

  static unsigned char g_storage[];

  UnrecordedChildren children_;

  std::mutex control_;
  base::Worker drainer_{"plimsoll"};
  base::Worker writer_{"plimsoll-write"};

  Uses uses_;

  std::mutex state_;
  Ledger ledger_;
  TickClock clock_;
  Recordings recordings_;                  // shared with their owners and the writing thread
  std::vector<EventReceiver*> receivers_;  // the same, as receivers
  std::vector<ThreadState*> listed_;       // as of the last drain
  std::vector<Source> sources_;
  std::atomic<std::uint64_t> horizon_{0};
  std::uint64_t since_ticks_ = 0;  // earlier events are discarded
  std::uint64_t lost_reported_ = 0;
  std::uint64_t refused_events_ = 0;  // with a name, stack or tensor beyond the limits
  std::uint64_t refused_before_ = 0;  // the same when the recordings began
  std::uint64_t refused_reported_ = 0;
  std::uint64_t children_before_ = 0;  // count of unrecorded children at that time
  std::uint64_t children_reported_ = 0;
  std::atomic<plimsoll_holders_wanted> wanted_holders_{PLIMSOLL_HOLDERS_NOT_WANTED};
  std::atomic<std::uint64_t> holder_walks_{0};
  std::atomic<std::uint64_t> use_span_{0};  // of plimsoll_use_point; written under the state lock
  std::uint64_t use_spans_ = 0;             // spans so far
  std::uint64_t first_used_serial_ = 0;     // of the first allocation whose uses are all known
  bool is_broken_ = false;                  // memory ran out in the middle of an event
};

}  // namespace plimsoll::record

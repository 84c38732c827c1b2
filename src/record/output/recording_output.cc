// The output side of Recording: writes finished blocks to the sink, without the state lock.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "base/output_file.h"
#include "base/units.h"
#include "record/hot/ticks.h"
#include "record/recording.h"

namespace plimsoll::record {
namespace {

// The time between two state records after a failure of the sink.
constexpr std::uint64_t kFailedStateNs = 1'000'000'000;
// A file of the newest events grows to twice the retained size, plus this, before it is rewritten.
// The rewrite is done piece by piece, so that new events need not wait for all of it.
constexpr std::uint64_t kSpareBytes = 256u << 10;
constexpr std::size_t kPieceBytes = 4u << 20;

}  // namespace

void Recording::fail(int error) noexcept {
  int none = 0;
  error_.compare_exchange_strong(none, error, std::memory_order_relaxed);
}

int Recording::put(const std::vector<std::byte>& bytes,
                   const std::vector<std::size_t>& ends) noexcept {
  if (sink_ == PLIMSOLL_SINK_FILE) return file_.append(bytes);
  if (sink_ != PLIMSOLL_SINK_STREAM) return 0;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    if (stream_(stream_user_, bytes.data() + begin, end - begin) == 0) return EPIPE;
    begin = end;
  }
  return 0;
}

void Recording::write_out(std::mutex& state_mutex, Due due) noexcept {
  const std::lock_guard writing(writing_);
  if (!is_kept_for_the_end()) send(state_mutex);
  const bool has_grown = written_bytes() > 2 * shortened_bytes_ + kSpareBytes;
  if (has_state_ && keeps_newest() && due == Due::kOld && has_grown) shorten(state_mutex);
  write_state(state_mutex, due);
  report_failure();
}

Recording::Batch Recording::take_batch() noexcept {
  Batch batch;
  batch.bytes.swap(ready_);
  batch.ends.swap(ready_ends_);
  batch.waiting_since_ns = std::exchange(waiting_since_ns_, sealed_at_ns_);
  batch.extent = extent_of_blocks();
  return batch;
}

void Recording::deliver(const Batch& batch, std::mutex& state_mutex) noexcept {
  if (has_failed()) return;
  const int error = batch.bytes.empty() ? 0 : put(batch.bytes, batch.ends);
  if (error != 0) return fail(error);
  written_bytes_.fetch_add(batch.bytes.size(), std::memory_order_relaxed);
  const std::lock_guard lock(state_mutex);
  sent_.events = batch.extent.events;
  sent_.until_ns = batch.extent.until_ns;
  if (batch.bytes.empty()) return;
  longest_wait_ns_ = std::max(longest_wait_ns_, clock_ns() - batch.waiting_since_ns);
}

void Recording::send(std::mutex& state_mutex) noexcept {
  Batch batch;
  {
    const std::lock_guard lock(state_mutex);
    batch = take_batch();
  }
  deliver(batch, state_mutex);
}

void Recording::send_whole(std::mutex& state_mutex) noexcept try {
  std::size_t size_bytes = 0;
  std::unique_ptr<std::byte, decltype(&std::free)> whole(nullptr, &std::free);
  Extent extent;
  {
    const std::lock_guard lock(state_mutex);
    if (has_failed()) return;
    extent = extent_of_blocks();
    whole.reset(kept_->assemble(file_state(extent), size_bytes));
  }
  if (whole == nullptr) return fail(ENOMEM);
  const int error = file_.append({whole.get(), size_bytes});
  if (error != 0) return fail(error);
  written_bytes_.store(size_bytes, std::memory_order_relaxed);
  const std::lock_guard lock(state_mutex);
  sent_ = extent;
} catch (...) {
  fail(ENOMEM);
}

// Replaces a file that has grown with the retained blocks. If that fails, the file keeps growing.
void Recording::shorten(std::mutex& state_mutex) noexcept try {
  std::unique_ptr<std::byte, decltype(&std::free)> whole(nullptr, &std::free);
  std::size_t size_bytes = 0;
  Batch batch;
  {
    const std::lock_guard lock(state_mutex);
    if (has_failed() || !kept_->has_forgotten()) return;
    encoder_->flush();
    kept_at_ = events_;
    whole.reset(kept_->assemble(file_state(extent_of_blocks()), size_bytes));
    batch = take_batch();
  }
  deliver(batch, state_mutex);
  shortened_bytes_ = written_bytes();
  if (has_failed()) return;
  if (whole == nullptr) return report_growth(ENOMEM);
  if (const int error = file_.begin_replacement(); error != 0) return report_growth(error);
  const std::span<const std::byte> bytes(whole.get(), size_bytes);
  for (std::size_t at = 0; at < size_bytes; at += kPieceBytes) {
    const auto piece = bytes.subspan(at, std::min(kPieceBytes, size_bytes - at));
    if (const int error = file_.extend_replacement(piece); error != 0) {
      file_.drop_replacement();
      return report_growth(error);
    }
    send(state_mutex);
  }
  const std::uint64_t meanwhile_bytes = written_bytes() - shortened_bytes_;
  if (const int error = file_.end_replacement(); error != 0) return report_growth(error);
  shortened_bytes_ = size_bytes;
  const std::lock_guard lock(state_mutex);
  sent_.evicted = batch.extent.evicted;
  sent_.evicted_events = batch.extent.evicted_events;
  sent_.evicted_until_ns = batch.extent.evicted_until_ns;
  written_bytes_.store(size_bytes + meanwhile_bytes, std::memory_order_relaxed);
} catch (...) {
  return file_.drop_replacement();
}

// Prints once that the file is not limited: it may fill the disk.
void Recording::report_growth(int error) noexcept try {
  if (!std::exchange(reports_growth_, false)) return;
  const char* const why = error == ECANCELED ? "it was renamed or removed" : std::strerror(error);
  base::write_to_stderr("plimsoll: " + path_ + ": earlier events cannot be removed (" + why +
                        "), so the file grows beyond max_events\n");
} catch (...) {
  return;
}

Recording::Extent Recording::extent_of_blocks() const noexcept {
  return {.events = encoder_->events() - encoder_->pending_events(),
          .until_ns = sealed_ns_,
          .evicted = kept_ ? kept_->evicted() : 0,
          .evicted_events = kept_ ? kept_->evicted_events() : 0,
          .evicted_until_ns = kept_ ? kept_->evicted_until_ns() : 0};
}

format::FileState Recording::file_state(const Extent& extent) const noexcept {
  format::FileState state;
  state.time_ns = sealed_ns_;
  state.written_until_ns = extent.until_ns;
  state.events = extent.events;
  state.evicted = extent.evicted;
  state.evicted_until_ns = extent.evicted_until_ns;
  state.longest_wait_ns = longest_wait_ns_;
  if (has_failed()) {
    state.state = format::RecordingState::kFailed;
    state.error = static_cast<std::uint32_t>(error());
    state.events = events_;
    state.missing = events_ - extent.events;
  } else if (is_finished_) {
    state.state = format::RecordingState::kEnded;
  }
  return state;
}

void Recording::write_state(std::mutex& state_mutex, Due due) noexcept {
  if (!has_state_ || !file_.is_open()) return;
  const std::uint64_t now_ns = clock_ns();
  format::FileState state;
  {
    const std::lock_guard lock(state_mutex);
    const bool is_news = has_failed() && reports_failure_;
    const bool is_old = !has_failed() || now_ns - state_at_ns_ >= kFailedStateNs;
    const std::uint64_t events = has_failed() ? events_ : sent_.events;
    if (due == Due::kOld && !is_news && !(is_old && state_events_ != events)) return;
    state_events_ = events;
    state = file_state(sent_);
  }
  state_at_ns_ = now_ns;
  file_.overwrite(format::kFileStateOffset, format::encode_file_state(state));
}

// Prints the failure, because the program may never query the state, as when a disk fills up
// overnight.
void Recording::report_failure() noexcept try {
  if (!has_failed() || !std::exchange(reports_failure_, false)) return;
  const std::int64_t after_ns = std::max<std::int64_t>(0, sent_.until_ns - started_ns_);
  // A monitor's recording has no file.
  const std::string place = path_.empty() ? "" : path_ + ": ";
  base::write_to_stderr("plimsoll: " + place + std::strerror(error()) +
                        ": the recording ends here, " + base::format_duration(after_ns) +
                        " after its start; the program continues\n");
} catch (...) {
  return;  // the recording's state reports it too
}

void Recording::write_rest(std::mutex& state_mutex) noexcept {
  const std::lock_guard writing(writing_);
  if (is_kept_for_the_end()) {
    send_whole(state_mutex);
  } else {
    send(state_mutex);
    if (has_state_ && keeps_newest()) shorten(state_mutex);
  }
  write_state(state_mutex, Due::kAll);
  const int error = file_.close();
  if (error != 0) fail(error);
  report_failure();
}

}  // namespace plimsoll::record

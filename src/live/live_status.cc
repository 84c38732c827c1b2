#include "live/live_status.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "base/output_file.h"
#include "base/worker.h"
#include "live/live_status_folder.h"
#include "probes/process_memory.h"

namespace plimsoll::live {
namespace {

constexpr std::int64_t kLongestWish = 60'000'000'000;
constexpr std::int64_t kTimesTheCost = 50;

Error file_error(const std::string& path, int number) {
  return make_error(ErrorCode::kIo, "cannot use " + path + " for the live status of this run: " +
                                        std::strerror(number));
}

}  // namespace

struct LiveStatusPublisher::State {
  TakeSample take;
  LiveStatusOptions options;
  std::string path;
  base::OutputFile file;
  pid_t owner = 0;
  LiveStatusHeader header;
  std::int64_t holders_asked_ns = 0;  // the newest request that has been passed on
  base::Worker worker{"plimsoll-live"};

  Status make_file();
  void restore_file();
  void run() noexcept;
  bool read_header(LiveStatusHeader& seen) const noexcept;
  bool is_wanted(const LiveStatusHeader& seen) const noexcept;
  void answer(const LiveStatusHeader& seen);
  bool write_header() noexcept;
  bool show();
  void sweep() const noexcept;
};

bool LiveStatusPublisher::State::read_header(LiveStatusHeader& seen) const noexcept {
  return file.read_head(std::as_writable_bytes(std::span(&seen, 1))) == sizeof(seen);
}

bool LiveStatusPublisher::State::is_wanted(const LiveStatusHeader& seen) const noexcept {
  const std::int64_t until_ns = seen.wanted_until_ns;
  const std::int64_t now_ns = live_status_clock_ns();
  return until_ns > now_ns && until_ns - now_ns <= kLongestWish;
}

void LiveStatusPublisher::State::answer(const LiveStatusHeader& seen) {
  if (seen.holders_asked_ns == header.holders_answered_ns || !options.find_holders) return;
  const bool is_new = seen.holders_asked_ns != holders_asked_ns;
  holders_asked_ns = seen.holders_asked_ns;
  if (!options.find_holders(is_new)) return;
  header.holders_answered_ns = holders_asked_ns;
  write_header();
}

// Writes everything except the fields that belong to the watchers.
bool LiveStatusPublisher::State::write_header() noexcept {
  const auto bytes = std::as_bytes(std::span(&header, 1));
  constexpr std::size_t kBehind = kHoldersAskedAt + sizeof(header.holders_asked_ns);
  return file.overwrite(0, bytes.first(kWantedAt)) == 0 &&
         file.overwrite(kBehind, bytes.subspan(kBehind)) == 0;
}

bool LiveStatusPublisher::State::show() {
  const std::vector<std::byte> bytes = encode_sample(take());
  ++header.sample_number;
  header.sample_bytes = bytes.size();
  header.sample_checksum = sample_checksum(header.sample_number, bytes);
  return file.overwrite(sizeof(header), bytes) == 0 && write_header();
}

void LiveStatusPublisher::State::sweep() const noexcept {
  try {
    sweep_live_status_folder(path.substr(0, path.rfind('/')));
  } catch (...) {
    return;  // no memory: another process will clean up
  }
}

// The body of the thread. On any failure, publishing ends and the process continues.
void LiveStatusPublisher::State::run() noexcept {
  if (!write_header()) return;
  sweep();  // even if no watcher ever comes
  std::int64_t next_ns = 0;
  std::int64_t next_file_check_ns = 0;
  while (worker.waker().sleep(options.watcher_check_interval_ns)) {
    const std::int64_t began_ns = live_status_clock_ns();
    try {
      if (options.on_check) options.on_check();
      if (began_ns >= next_file_check_ns) {
        // A cleaner may have just removed the folder; the next attempt may recreate it.
        restore_file();
        next_file_check_ns = began_ns + options.file_check_interval_ns;
      }
      LiveStatusHeader seen;
      if (!read_header(seen)) continue;
      answer(seen);
      if (began_ns < next_ns || !is_wanted(seen)) continue;
      if (!show()) return;
    } catch (...) {  // no memory for a sample, or the caller's function threw
      return;
    }
    const std::int64_t cost_ns = live_status_clock_ns() - began_ns;
    // A check may come slightly early: do not wait for a whole extra period.
    next_ns = began_ns - options.watcher_check_interval_ns / 10 +
              std::max(options.show_every_ns, kTimesTheCost * cost_ns);
  }
}

// Uses the first usable folder. An earlier process with this pid, or an earlier publisher, may have
// left a file.
Status LiveStatusPublisher::State::make_file() {
  Status status = make_error(ErrorCode::kInvalidArgument, "no folder is given for the live status");
  for (const std::string& folder : options.folders) {
    status = make_live_status_folder(folder);
    if (!status) continue;
    path = folder + "/" + std::to_string(owner);
    ::unlink(path.c_str());
    const int error = file.create(path.c_str());
    if (error == 0) return {};
    status = file_error(path, error);
  }
  return status;
}

// Creates a file only if none exists: a later publisher of this process may have its own there.
void LiveStatusPublisher::State::restore_file() {
  struct stat there{};
  if (::lstat(path.c_str(), &there) != 0 && make_file().ok()) write_header();
}

Result<std::unique_ptr<LiveStatusPublisher>> LiveStatusPublisher::start(TakeSample take,
                                                                        LiveStatusOptions options) {
  auto state = std::make_unique<State>();
  state->owner = ::getpid();
  state->take = std::move(take);
  state->options = std::move(options);
  state->header.pid = state->owner;
  state->header.start_ticks = probes::read_start_ticks(state->owner).value_or(0);
  state->header.pid_namespace = probes::own_pid_namespace();
  PLIMSOLL_TRY(state->make_file());
  std::unique_ptr<LiveStatusPublisher> made(new LiveStatusPublisher(std::move(state)));
  State& running = *made->state_;
  const auto body = [](void* argument) noexcept -> void* {
    static_cast<State*>(argument)->run();
    return nullptr;
  };
  if (!running.worker.start(body, &running)) return file_error(running.path, EAGAIN);
  return made;
}

LiveStatusPublisher::LiveStatusPublisher(std::unique_ptr<State> state) : state_(std::move(state)) {}

LiveStatusPublisher::~LiveStatusPublisher() {
  if (state_->owner != ::getpid()) {
    // In a forked child, the thread and its locks are the parent's, and `take` may own objects that
    // must not be freed here.
    [[maybe_unused]] State* const of_the_parent = state_.release();
    return;
  }
  state_->worker.stop();
  if (state_->file.is_at(state_->path.c_str())) ::unlink(state_->path.c_str());
}

Result<LiveStatusReader> LiveStatusReader::open(const LiveStatusPlace& place) {
  const auto& [pid, folder] = place;
  PLIMSOLL_TRY(check_live_status_folder(folder));
  const int fd = open_live_status_file(folder, pid);
  LiveStatusHeader header;
  const LiveStatusHeader expected;
  LiveStatusReader reader(pid, fd, 0);  // closes fd
  const ssize_t size = fd < 0 ? 0 : ::pread(fd, &header, sizeof(header), 0);
  if (size == 0) {  // also a file that was just created
    return make_error(ErrorCode::kNotFound,
                      "process " + std::to_string(pid) + " publishes no live status");
  }
  const bool is_ours = size == sizeof(header) &&
                       std::memcmp(header.magic, expected.magic, sizeof(header.magic)) == 0 &&
                       header.pid == pid;
  if (!is_ours || header.version != expected.version) {
    return make_error(ErrorCode::kCorrupt, folder + "/" + std::to_string(pid) +
                                               " is not a live status that this version can read");
  }
  reader.start_ticks_ = header.start_ticks;
  return reader;
}

LiveStatusReader::LiveStatusReader(LiveStatusReader&& other) noexcept
    : pid_(other.pid_), fd_(std::exchange(other.fd_, -1)), start_ticks_(other.start_ticks_) {}

LiveStatusReader& LiveStatusReader::operator=(LiveStatusReader&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(fd_, other.fd_);
  std::swap(start_ticks_, other.start_ticks_);
  return *this;
}

LiveStatusReader::~LiveStatusReader() {
  if (fd_ >= 0) ::close(fd_);
}

Status LiveStatusReader::ask_for(std::int64_t duration_ns) {
  const std::int64_t until_ns =
      live_status_clock_ns() + std::clamp<std::int64_t>(duration_ns, 0, kLongestWish);
  if (::pwrite(fd_, &until_ns, sizeof(until_ns), kWantedAt) == sizeof(until_ns)) return {};
  return make_error(ErrorCode::kIo, "cannot ask process " + std::to_string(pid_) +
                                        " for its live status: " + std::strerror(errno));
}

Result<std::int64_t> LiveStatusReader::ask_for_holders() {
  const std::int64_t request = live_status_clock_ns();
  if (::pwrite(fd_, &request, sizeof(request), kHoldersAskedAt) == sizeof(request)) return request;
  return make_error(ErrorCode::kIo, "cannot ask process " + std::to_string(pid_) +
                                        " for holders: " + std::strerror(errno));
}

bool LiveStatusReader::has_holders(std::int64_t request) const {
  std::int64_t answered = 0;
  const auto at = static_cast<off_t>(offsetof(LiveStatusHeader, holders_answered_ns));
  return ::pread(fd_, &answered, sizeof(answered), at) == sizeof(answered) && answered >= request;
}

std::optional<MemorySample> LiveStatusReader::read() {
  constexpr int kTries = 3;  // the process may be in the middle of writing it
  for (int i = 0; i < kTries; ++i) {
    LiveStatusHeader header;
    if (::pread(fd_, &header, sizeof(header), 0) != sizeof(header)) return std::nullopt;
    if (header.sample_number == 0 || header.sample_bytes > kMostSampleBytes) return std::nullopt;
    std::vector<std::byte> bytes(static_cast<std::size_t>(header.sample_bytes));
    const ssize_t size = ::pread(fd_, bytes.data(), bytes.size(), sizeof(header));
    if (size != static_cast<ssize_t>(bytes.size())) continue;
    if (sample_checksum(header.sample_number, bytes) != header.sample_checksum) continue;
    return decode_sample(bytes);
  }
  return std::nullopt;
}

bool LiveStatusReader::is_alive() const { return probes::read_start_ticks(pid_) == start_ticks_; }

std::vector<LiveStatusPlace> find_live_statuses(const std::vector<std::string>& folders) {
  std::vector<LiveStatusPlace> found;
  for (const std::string& folder : folders) {
    for (const int pid : sweep_live_status_folder(folder)) found.push_back({pid, folder});
  }
  std::ranges::stable_sort(found, {}, &LiveStatusPlace::pid);
  return found;
}

}  // namespace plimsoll::live

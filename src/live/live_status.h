// How a running process publishes its memory use (`plimsoll top`), and how watchers read it. The
// process does work only while it is watched: a watcher writes a deadline into the process's file,
// and the process checks it four times a second.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "live/live_status_file.h"
#include "plimsoll/memory_sample.h"
#include "plimsoll/result.h"

namespace plimsoll::live {

// $PLIMSOLL_LIVE_FOLDER alone if it is set, else $XDG_RUNTIME_DIR/plimsoll and other folders of the
// user.
std::vector<std::string> live_status_folders();

struct LiveStatusOptions {
  std::vector<std::string> folders = live_status_folders();  // the first usable one is used
  std::int64_t watcher_check_interval_ns = 250'000'000;      // how often to check for a watcher
  std::int64_t show_every_ns = 500'000'000;                  // shortest interval between samples
  std::int64_t file_check_interval_ns = 10'000'000'000;  // how often to check that the file exists
  // Called on the publisher's thread before each check for a watcher, for tests.
  std::function<void()> on_check = {};
  // Called on the publisher's thread at each check while a watcher waits for what holds the memory
  // (docs/holders.md), with true the first time. Returns whether the recording has it.
  std::function<bool(bool)> find_holders = {};
};

// Owns a thread that calls `take` while a watcher is present, at most every show_every_ns and for
// at most a fiftieth of the time; `take` must not wait for the thread that destroys this. The
// destructor removes the file; a killed process leaves a stale one. In a forked child this
// publishes nothing and frees nothing. A file that was removed (a runtime folder is deleted when
// its user logs out) is recreated within ten seconds.
class LiveStatusPublisher {
 public:
  using TakeSample = std::function<MemorySample()>;

  static Result<std::unique_ptr<LiveStatusPublisher>> start(TakeSample take,
                                                            LiveStatusOptions options = {});
  LiveStatusPublisher(const LiveStatusPublisher&) = delete;
  LiveStatusPublisher& operator=(const LiveStatusPublisher&) = delete;
  ~LiveStatusPublisher();

 private:
  struct State;
  explicit LiveStatusPublisher(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

struct LiveStatusPlace {
  int pid = 0;
  std::string folder;
};
// Returns the processes that publish, by pid, and removes the files of dead processes.
std::vector<LiveStatusPlace> find_live_statuses(
    const std::vector<std::string>& folders = live_status_folders());

// Reads one process's file, which is untrusted.
class LiveStatusReader {
 public:
  static Result<LiveStatusReader> open(const LiveStatusPlace& place);
  LiveStatusReader(LiveStatusReader&& other) noexcept;
  LiveStatusReader& operator=(LiveStatusReader&& other) noexcept;
  ~LiveStatusReader();

  int pid() const { return pid_; }
  // Requests samples from the process for this long, at most for a minute.
  Status ask_for(std::int64_t duration_ns);
  // Asks for the holders of the live memory, which the process looks for at the end of its next
  // step. Returns the number of the request.
  Result<std::int64_t> ask_for_holders();
  // Whether they are in the process's recordings.
  bool has_holders(std::int64_t request) const;
  // The newest sample; nullopt if there is none yet or it is unreadable.
  std::optional<MemorySample> read();
  // Whether the process that created the file is still running.
  bool is_alive() const;

 private:
  LiveStatusReader(int pid, int fd, std::uint64_t start_ticks)
      : pid_(pid), fd_(fd), start_ticks_(start_ticks) {}

  int pid_;
  int fd_;
  std::uint64_t start_ticks_;
};

}  // namespace plimsoll::live

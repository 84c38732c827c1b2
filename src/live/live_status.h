// How a running process shows others what its memory holds (`plimsoll top`), and how they look.
// The process works only while somebody watches: a watcher writes into the process's file until
// when it wants to see something, and the process looks at that four times a second.
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

// $PLIMSOLL_LIVE_FOLDER alone, or else $XDG_RUNTIME_DIR/plimsoll and others that the user may have.
std::vector<std::string> live_status_folders();

struct LiveStatusOptions {
  std::vector<std::string> folders = live_status_folders();  // the first that can be used is
  std::int64_t look_every_ns = 250'000'000;                  // whether somebody watches
  std::int64_t show_every_ns = 500'000'000;                  // at most, while somebody does
  std::int64_t care_every_ns = 10'000'000'000;               // whether the file is still there
};

// Owns a thread that calls `take` while somebody watches, at most every show_every_ns and for at
// most a fiftieth of the time; `take` must not wait for the thread that destroys this. The file is
// gone when this is; a process that is killed leaves it to be found stale. In the child of a fork
// it is silent, and what it holds there is not freed. A file that somebody has cleaned away (a
// runtime folder goes when its user logs out) is made again within ten seconds.
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
// The processes that can be looked at, by pid; files that the dead have left are removed.
std::vector<LiveStatusPlace> find_live_statuses(
    const std::vector<std::string>& folders = live_status_folders());

// Looks at one process's file. Never trusts it.
class LiveStatusReader {
 public:
  static Result<LiveStatusReader> open(const LiveStatusPlace& place);
  LiveStatusReader(LiveStatusReader&& other) noexcept;
  LiveStatusReader& operator=(LiveStatusReader&& other) noexcept;
  ~LiveStatusReader();

  int pid() const { return pid_; }
  // Asks the process to show what it has for so long; at most a minute counts.
  Status ask_for(std::int64_t duration_ns);
  // What it showed last; nullopt: nothing yet, or nothing that can be read.
  std::optional<MemorySample> read();
  // Whether the process lives that made the file.
  bool is_alive() const;

 private:
  LiveStatusReader(int pid, int fd, std::uint64_t start_ticks)
      : pid_(pid), fd_(fd), start_ticks_(start_ticks) {}

  int pid_;
  int fd_;
  std::uint64_t start_ticks_;
};

}  // namespace plimsoll::live

// Shows the progress of a long job in one line on stderr, if that is a terminal: from one second
// on, ten times a second, and erased at the end. Use it only on the thread of the job.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll::cli {

// "reading big.pickle  [#######             ]  35%  372.0 MiB of 1.0 GiB, 3 s left"
std::string progress_line(std::string_view stage, std::string_view name, std::uint64_t done,
                          std::uint64_t total, std::chrono::milliseconds elapsed);

class ProgressBar {
 public:
  explicit ProgressBar(const std::string& name);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Like ProgressCallback: returns false if the user has pressed Ctrl-C.
  bool advance(std::string_view stage, std::uint64_t done, std::uint64_t total);
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  std::string name_;
  bool is_visible_ = false;
  bool is_wanted_;
  Clock::time_point began_;
  Clock::time_point drawn_;
  std::string stage_;
  Clock::time_point stage_began_;
};

}  // namespace plimsoll::cli

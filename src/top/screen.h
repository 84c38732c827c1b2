// The terminal as a page that is redrawn repeatedly, on the alternate screen, with single keys as
// input. However this ends (return, Ctrl-C, kill, Ctrl-Z, crash), the shell's screen is restored.
// One instance per process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plimsoll/result.h"

namespace plimsoll::top {

struct ScreenSize {
  std::size_t columns = 80;
  std::size_t rows = 24;
};

enum class ScreenEvent : std::uint8_t { kTimeout, kKey, kResized, kSignal };

struct ScreenNews {
  ScreenEvent event = ScreenEvent::kTimeout;
  char key = 0;    // arrow keys are 'k' and 'j', the escape key is 'q'
  int signal = 0;  // asks the process to end
};

class TopScreen {
 public:
  static Result<TopScreen> open();
  TopScreen(TopScreen&& other) noexcept;
  TopScreen& operator=(TopScreen&&) = delete;
  ~TopScreen();

  ScreenSize size() const;
  // Draws as many lines as fit; returns false if the terminal is gone.
  bool draw(const std::vector<std::string>& lines);
  ScreenNews wait(std::int64_t time_ns);

 private:
  TopScreen() = default;
  bool is_open_ = true;
};

}  // namespace plimsoll::top

// The terminal as a page that is redrawn repeatedly: the alternate screen, with keys read one by
// one. The shell's screen is restored however this ends: by return, Ctrl-C, kill, Ctrl-Z or a
// crash. One per process.
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
  char key = 0;    // arrows as 'k' and 'j', the escape key as 'q'
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

#include "cli/line/progress_bar.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/path_text.h"
#include "base/units.h"
#include "cli/line/interruption.h"
#include "cli/line/terminal.h"
#include "text/layout.h"

namespace plimsoll::cli {
namespace {

using namespace std::chrono_literals;

std::string amount_text(std::string_view stage, std::uint64_t done, std::uint64_t total) {
  if (stage != "reading") return {};  // other stages count events
  const auto bytes = [](std::uint64_t size) { return base::bytes_text(size); };
  return "  " + bytes(done) + (total > 0 ? " of " + bytes(total) : "");
}

}  // namespace

std::string progress_line(std::string_view stage, std::string_view name, std::uint64_t done,
                          std::uint64_t total, std::chrono::milliseconds elapsed) {
  constexpr std::size_t kBar = 20;
  std::string text = std::string(stage) + " " + text::shorten_place(name, 24);
  if (total == 0) return text + amount_text(stage, done, total);
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const auto filled = static_cast<std::size_t>(share * kBar);
  text += "  [" + std::string(filled, '#') + std::string(kBar - filled, ' ') + "] " +
          text::pad_left(std::to_string(static_cast<int>(share * 100)) + "%", 4) +
          amount_text(stage, done, total);
  if (share > 0.01) {
    const double left_s = static_cast<double>(elapsed.count()) / 1000 * (1 - share) / share;
    text += ", " + std::to_string(std::lround(left_s)) + " s left";
  }
  return text;
}

ProgressBar::ProgressBar(const std::string& name)
    : name_(text::printable(base::file_name(name))),
      is_wanted_(can_show_progress()),
      began_(Clock::now()) {}

ProgressBar::~ProgressBar() { clear(); }

bool ProgressBar::advance(std::string_view stage, std::uint64_t done, std::uint64_t total) {
  if (is_interrupted()) return false;
  if (!is_wanted_) return true;
  const Clock::time_point now = Clock::now();
  if (stage != stage_) {
    stage_ = stage;
    stage_began_ = now;
  }
  if (now - began_ < 1s || now - drawn_ < 100ms) return true;
  drawn_ = now;
  is_visible_ = true;
  const auto elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(now - stage_began_);
  const std::string text = progress_line(stage, name_, done, total, elapsed);
  const std::string line = "\r\x1b[K" + text::shorten_place(text, progress_width() - 1);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
  return true;
}

void ProgressBar::clear() {
  if (is_visible_) std::fputs("\r\x1b[K", stderr);
  is_visible_ = false;
}

}  // namespace plimsoll::cli

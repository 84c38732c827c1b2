// plimsoll top: shows the memory of this machine, live.

#include <signal.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/line/common_options.h"
#include "cli/line/exit_code.h"
#include "cli/line/interruption.h"
#include "cli/line/terminal.h"
#include "top/frame.h"
#include "top/probe.h"
#include "top/screen.h"
#include "top/text.h"

namespace plimsoll::cli {
namespace {

constexpr double kShortest = 0.1;
constexpr double kLongest = 3600;
constexpr std::int64_t kFirstAnswerNs = 1'500'000'000;
constexpr std::int64_t kFirstGlanceNs = 400'000'000;
constexpr std::int64_t kPatienceNs = 5'000'000'000;  // how long to wait for the driver

std::int64_t nanoseconds(double seconds) { return static_cast<std::int64_t>(seconds * 1e9); }

Result<double> interval_of(const std::string& text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || !(seconds >= kShortest) ||
      seconds > kLongest) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--interval " + text + " is not a number of seconds from 0.1 to 3600");
  }
  return seconds;
}

Result<int> pid_of(const std::string& text) {
  int pid = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid);
  if (error != std::errc() || end != text.data() + text.size() || pid <= 0) {
    return make_error(ErrorCode::kInvalidArgument, "--pid " + text + " is not a process id");
  }
  if (!probes::read_start_ticks(pid)) {
    return make_error(ErrorCode::kInvalidArgument, "there is no process " + text);
  }
  return pid;
}

Result<top::TopSettings> settings_of(const Arguments& arguments) {
  top::TopSettings settings;
  settings.color = chosen_color(arguments);
  constexpr std::size_t kWidestTop = 400;
  settings.width = output_width(kWidestTop);
  PLIMSOLL_TRY_ASSIGN(settings.interval_s, interval_of(arguments.value("--interval", "2")));
  if (arguments.has("--pid")) {
    PLIMSOLL_TRY_ASSIGN(settings.pid, pid_of(arguments.value("--pid")));
  }
  if (settings.pid && arguments.has("--line")) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--line shows whole devices: it cannot be used with --pid");
  }
  return settings;
}

// Sleeps until the next update. Returns false if the command should end.
bool sleep_between(const top::TopSettings& settings) {
  const std::int64_t ns = nanoseconds(settings.interval_s);
  timespec rest{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
  while (!is_interrupted() && ::nanosleep(&rest, &rest) != 0 && errno == EINTR) {
  }
  return !is_interrupted();
}

Status print_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return print(text);
}

// Prints once why the following lines are about the host.
void explain(const top::TopView& view) {
  if (!view.gpu_is_known) {
    complain("the NVIDIA driver does not answer; these lines show the host's memory");
  } else if (!view.why_no_gpu.empty()) {
    complain("no GPU: " + view.why_no_gpu + "; these lines show the host's memory");
  } else {
    complain("the NVIDIA driver does not report the GPU's memory; these lines show the host's");
  }
}

int print_one_liners(top::TopProbe& probe, const top::TopSettings& settings, bool is_once) {
  probe.wait_for_answers(kPatienceNs);
  bool is_explained = false;
  do {
    const top::TopView view = probe.sample_devices();
    const bool is_of_a_gpu = std::ranges::any_of(view.gpus, [](const top::TopGpu& gpu) {
      return gpu.device.used_bytes && gpu.device.total_bytes;
    });
    if (!is_of_a_gpu && !is_explained) explain(view);
    is_explained = is_explained || !is_of_a_gpu;
    const Status status = print_lines(top::top_one_liners(view));
    if (!status) return complain(status.error());
  } while (std::ferror(stdout) == 0 && !is_once && sleep_between(settings));
  return is_interrupted() ? kInterrupted : kFine;
}

int print_frames(top::TopProbe& probe, const top::TopSettings& settings, bool is_once) {
  probe.wait_for_answers(kFirstAnswerNs);
  bool is_first = true;
  do {
    std::vector<std::string> lines = top::top_lines(probe.sample(), settings);
    if (!is_first) lines.insert(lines.begin(), "");
    is_first = false;
    const Status status = print_lines(lines);
    if (!status) return complain(status.error());
  } while (std::ferror(stdout) == 0 && !is_once && sleep_between(settings));
  return is_interrupted() ? kInterrupted : kFine;
}

// The settings of the screen, and the scroll position.
class Page {
 public:
  explicit Page(top::TopSettings settings) : settings_(std::move(settings)) {}

  bool is_paused() const { return is_paused_; }
  bool has_quit() const { return has_quit_; }

  void press(char key, const top::TopView& view) {
    if (shows_help_) {  // any key closes the help
      shows_help_ = false;
      return;
    }
    if (key == 'q') has_quit_ = true;
    if (key == '?' || key == 'h') shows_help_ = true;
    if (key == 's') next_sort();
    if (key == 'd') next_device(view);
    if (key == 'p' || key == ' ') is_paused_ = !is_paused_;
    if (key == 'j') ++scrolled_;
    if (key == 'k') scrolled_ -= scrolled_ > 0 ? 1 : 0;
    if (key == 'g') scrolled_ = 0;
  }

  std::vector<std::string> lines(const top::TopView& view, top::ScreenSize size) {
    settings_.width = size.columns;
    std::vector<std::string> all = shows_help_ ? top::top_help() : top::top_lines(view, settings_);
    const std::size_t room = size.rows > 1 ? size.rows - 1 : 1;
    scrolled_ = std::min(scrolled_, all.size() > room ? all.size() - room : 0);
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(scrolled_));
    all.resize(room);
    const std::string footer = top::top_footer(settings_, is_paused_);
    all.push_back(
        top::cut_columns(text::styled(footer, text::Style::kDim, settings_.color), size.columns));
    return all;
  }

 private:
  void next_sort() {
    switch (settings_.sort) {
      case top::TopSort::kMemory:
        settings_.sort = top::TopSort::kPid;
        break;
      case top::TopSort::kPid:
        settings_.sort = top::TopSort::kName;
        break;
      case top::TopSort::kName:
        settings_.sort = top::TopSort::kMemory;
        break;
    }
  }
  // Selects in turn: all devices, each GPU, the host.
  void next_device(const top::TopView& view) {
    std::vector<std::string> choices = {""};
    for (const top::TopGpu& gpu : view.gpus) {
      if (gpu.device.index.find(':') == std::string::npos) choices.push_back(gpu.device.index);
    }
    choices.emplace_back("cpu");
    const auto now = std::ranges::find(choices, settings_.device);
    settings_.device =
        now == choices.end() || std::next(now) == choices.end() ? "" : *std::next(now);
  }

  top::TopSettings settings_;
  bool is_paused_ = false;
  bool has_quit_ = false;
  bool shows_help_ = false;
  std::size_t scrolled_ = 0;
};

// After restoring the screen: lets the signal end this process, as it would have without a screen.
int end_by(int signal) {
  if (signal == SIGINT) return kInterrupted;
  ::raise(signal);
  return 128 + signal;
}

// Runs until the user quits. Returns 0, or the signal that ended it. Restores the terminal.
Result<int> watch(top::TopProbe& probe, const top::TopSettings& settings) {
  PLIMSOLL_TRY_ASSIGN(top::TopScreen screen, top::TopScreen::open());
  Page page(settings);
  const std::int64_t interval_ns = nanoseconds(settings.interval_s);
  probe.wait_for_answers(kFirstGlanceNs);
  top::TopView view = probe.sample();
  std::int64_t next_ns = live::live_status_clock_ns() + interval_ns;
  while (!page.has_quit()) {
    if (!screen.draw(page.lines(view, screen.size()))) break;
    const std::int64_t left_ns = next_ns - live::live_status_clock_ns();
    const top::ScreenNews news = screen.wait(std::max<std::int64_t>(left_ns, 0));
    if (news.event == top::ScreenEvent::kSignal) return news.signal;
    if (news.event == top::ScreenEvent::kKey) page.press(news.key, view);
    if (live::live_status_clock_ns() < next_ns) continue;
    next_ns = live::live_status_clock_ns() + interval_ns;
    if (!page.is_paused()) view = probe.sample();
  }
  return 0;
}

int run_top(const Arguments& arguments) {
  const auto settings = settings_of(arguments);
  if (!settings) return complain(settings.error());
  top::TopSources sources;
  sources.pid = settings->pid;
  sources.interval_ns = nanoseconds(settings->interval_s);
  top::TopProbe probe(std::move(sources));
  const bool is_once = arguments.has("--once");
  if (arguments.has("--line")) return print_one_liners(probe, *settings, is_once);
  if (is_once || !can_draw_pages()) return print_frames(probe, *settings, is_once);
  const auto signal = watch(probe, *settings);
  if (!signal) return complain(signal.error());
  return *signal == 0 ? kFine : end_by(*signal);
}

}  // namespace

Command top_command() {
  Command command;
  command.name = "top";
  command.summary = "Show live what fills the memory of this machine";
  command.description =
      "Shows all GPUs, the processes on them, the host's memory, and what uses the memory of your "
      "recorded runs: categories, layers, the peak and the last minute of each. Piped, it prints a "
      "page each interval.";
  command.options = {
      {"--line", "", "", "One line each interval: GPU Memory: 15.6 GB / 16.0 GB (97%)."},
      {"--once", "", "", "Print once and exit."},
      {"--interval", "", "SECONDS", "Time between two readings. Default: 2."},
      {"--pid", "", "PID", "Only this process and its children, with their PSS."},
      color_option(),
  };
  command.sections = {{"keys", {}}, {"examples", {}}};
  command.sections[0].rows = {{"q", "quit"},
                              {"s", "sort processes by memory, pid, name"},
                              {"d", "all devices, only one GPU, only the host"},
                              {"p", "pause and continue"},
                              {"j k", "scroll"},
                              {"?", "help"}};
  command.sections[1].rows = {
      {"plimsoll top", "next to a training run that plimsoll run records"},
      {"plimsoll top --once --pid 4711", "one process and its DataLoader workers"}};
  command.run = run_top;
  return command;
}

}  // namespace plimsoll::cli

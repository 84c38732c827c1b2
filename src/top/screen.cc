#include "top/screen.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

namespace plimsoll::top {
namespace {

constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l";  // alternate screen, no cursor
constexpr std::string_view kLeave = "\x1b[0m\x1b[?25h\x1b[?1049l";

constexpr std::array kEndings = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
constexpr std::array kCrashes = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

// Read and written by signal handlers.
volatile sig_atomic_t ending_signal = 0;
volatile sig_atomic_t is_resized = 0;
volatile sig_atomic_t is_stopping = 0;
volatile sig_atomic_t is_entered = 0;
termios before_us{};

// Calls only async-signal-safe functions.
void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t size = ::write(STDOUT_FILENO, text.data(), text.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(size));
  }
}

void leave() {
  if (is_entered == 0) return;
  is_entered = 0;
  write_all(kLeave);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &before_us);
}

void enter() {
  termios raw = before_us;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);  // Ctrl-C and Ctrl-Z remain signals
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  is_entered = 1;
  write_all(kEnter);
}

extern "C" void note_ending(int signal) { ending_signal = signal; }
extern "C" void note_resize(int /*signal*/) { is_resized = 1; }
extern "C" void note_stop(int /*signal*/) { is_stopping = 1; }
extern "C" void leave_and_crash(int signal) {
  leave();
  ::raise(signal);  // with the previous action: SA_RESETHAND
}

void handle(int signal, void (*handler)(int), int flags) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

// The signals that only wait() unblocks, so that none is missed between two waits.
sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kEndings) sigaddset(&set, signal);
  sigaddset(&set, SIGWINCH);
  sigaddset(&set, SIGTSTP);
  return set;
}

void stop_as_asked() {
  is_stopping = 0;
  leave();
  ::raise(SIGSTOP);
  enter();  // the process was continued
}

// The key at the front of `bytes`. Escape sequences are translated; 0 for an unknown one.
char key_of(std::string_view bytes) {
  if (bytes.size() >= 3 && bytes[0] == '\x1b' && (bytes[1] == '[' || bytes[1] == 'O')) {
    return bytes[2] == 'A' ? 'k' : bytes[2] == 'B' ? 'j' : '\0';
  }
  return bytes[0] == '\x1b' ? 'q' : bytes[0];
}

}  // namespace

Result<TopScreen> TopScreen::open() {
  if (::tcgetattr(STDIN_FILENO, &before_us) != 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      "standard input is not a terminal, so there are no keys; use --once");
  }
  const sigset_t watched = watched_signals();
  ::sigprocmask(SIG_BLOCK, &watched, nullptr);
  for (const int signal : kEndings) handle(signal, note_ending, 0);
  for (const int signal : kCrashes) {
    handle(signal, leave_and_crash, static_cast<int>(SA_RESETHAND | SA_NODEFER));
  }
  handle(SIGWINCH, note_resize, 0);
  handle(SIGTSTP, note_stop, 0);
  enter();
  return TopScreen();
}

TopScreen::TopScreen(TopScreen&& other) noexcept : is_open_(std::exchange(other.is_open_, false)) {}

TopScreen::~TopScreen() {
  if (!is_open_) return;
  leave();
  for (const int signal : kEndings) handle(signal, SIG_DFL, 0);
  for (const int signal : kCrashes) handle(signal, SIG_DFL, 0);
  handle(SIGWINCH, SIG_DFL, 0);
  handle(SIGTSTP, SIG_DFL, 0);
  const sigset_t watched = watched_signals();
  ::sigprocmask(SIG_UNBLOCK, &watched, nullptr);
}

ScreenSize TopScreen::size() const {
  winsize reported{};
  ScreenSize size;
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &reported) != 0) return size;
  if (reported.ws_col > 0) size.columns = reported.ws_col;
  if (reported.ws_row > 0) size.rows = reported.ws_row;
  return size;
}

bool TopScreen::draw(const std::vector<std::string>& lines) {
  std::string page = "\x1b[H";
  const std::size_t rows = size().rows;
  for (std::size_t i = 0; i < lines.size() && i < rows; ++i) {
    if (i > 0) page += "\r\n";
    page += lines[i] + "\x1b[K";
  }
  page += "\x1b[J";
  errno = 0;
  write_all(page);
  return errno != EIO && errno != EPIPE;
}

ScreenNews TopScreen::wait(std::int64_t time_ns) {
  if (is_resized == 0 && ending_signal == 0 && is_stopping == 0) {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    const timespec timeout{static_cast<time_t>(time_ns / 1'000'000'000),
                           static_cast<long>(time_ns % 1'000'000'000)};
    sigset_t none;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &none);
    const sigset_t watched = watched_signals();
    for (int signal = 1; signal < NSIG; ++signal) {
      if (sigismember(&watched, signal) == 1) sigdelset(&none, signal);
    }
    if (::ppoll(&input, 1, &timeout, &none) > 0) {
      std::array<char, 16> bytes{};
      const ssize_t size = ::read(STDIN_FILENO, bytes.data(), bytes.size());
      if (size == 0 || (size < 0 && errno == EIO)) return {ScreenEvent::kSignal, 0, SIGHUP};
      if (size > 0) {
        return {ScreenEvent::kKey, key_of({bytes.data(), static_cast<std::size_t>(size)}), 0};
      }
    }
  }
  if (ending_signal != 0) return {ScreenEvent::kSignal, 0, ending_signal};
  if (is_stopping != 0) {
    stop_as_asked();
    return {ScreenEvent::kResized, 0, 0};
  }
  if (is_resized == 0) return {};
  is_resized = 0;
  return {ScreenEvent::kResized, 0, 0};
}

}  // namespace plimsoll::top

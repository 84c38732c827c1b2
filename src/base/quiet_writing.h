// Writing inside the user's program without raising a signal. A pipe without a reader sends SIGPIPE
// to the writing thread, and a file limit sends SIGXFSZ; either ends a program that does not handle
// it. Everything that Plimsoll writes in that program is written inside a QuietWriting.
#pragma once

namespace plimsoll::base {

// Blocks both signals in this thread and, at its end, discards those that were not pending before.
// Must end on the thread where it began. Preserves errno.
class QuietWriting {
 public:
  QuietWriting() noexcept : state_(begin()) {}
  QuietWriting(const QuietWriting&) = delete;
  QuietWriting& operator=(const QuietWriting&) = delete;
  ~QuietWriting() { end(state_); }

  // The same as two calls, for the C interface. Pairs may be nested.
  static int begin() noexcept;
  static void end(int state) noexcept;

 private:
  int state_;
};

}  // namespace plimsoll::base

// WindowStream implements RapidJSON's input stream concept over a ByteSource, with one 64 KiB
// window at a time. A failure (of the source, the user's interrupt, an oversized token) ends the
// stream early; failure() returns it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/progress.h"
#include "plimsoll/result.h"
#include "readers/byte_source.h"

namespace plimsoll::readers::kineto {

class WindowStream {
 public:
  using Ch = char;  // RapidJSON's name, as are Peek, Take, Tell and those below

  WindowStream(ByteSource& source, base::Progress& progress)
      : source_(source), progress_(progress), total_(source.size_hint()), window_(kWindow + 1) {
    refill();
    skip_byte_order_mark();
  }
  WindowStream(const WindowStream&) = delete;
  WindowStream& operator=(const WindowStream&) = delete;

  Ch Peek() const { return *at_; }  // NUL at the end
  Ch Take() {
    const char taken = *at_;
    if (at_ == end_) return taken;
    ++at_;
    if (at_ == end_) refill();
    return taken;
  }
  std::size_t Tell() const {
    return static_cast<std::size_t>(before_window_ + static_cast<std::uint64_t>(at_ - first()));
  }

  // Required by RapidJSON, but called only when it parses in place, which never happens here.
  Ch* PutBegin() { return nullptr; }
  void Put(Ch) {}
  std::size_t PutEnd(Ch*) { return 0; }

  // A token ended here. A token longer than kLongestToken is an error.
  void mark_token() { token_end_ = Tell(); }
  bool at_end() const { return at_ == end_; }
  const std::optional<Error>& failure() const { return failure_; }

 private:
  static constexpr std::size_t kWindow = 1 << 16;
  static constexpr std::uint64_t kLongestToken = 1 << 26;

  const char* first() const { return window_.data(); }

  void refill() {
    before_window_ = window_end();
    std::size_t got = 0;
    if (progress_.interrupted()) {
      failure_ = make_error(ErrorCode::kInterrupted, "stopped while reading the trace");
    } else if (before_window_ - token_end_ > kLongestToken) {
      failure_ =
          make_error(ErrorCode::kLimit, "a single string of more than 64 MiB begins near byte " +
                                            std::to_string(token_end_));
    } else {
      auto result = source_.read(std::as_writable_bytes(std::span(window_.data(), kWindow)));
      if (result) {
        got = *result;
      } else {
        failure_ = std::move(result).error();
      }
    }
    at_ = first();
    end_ = first() + got;
    window_[got] = '\0';
    progress_.advance("reading the trace", before_window_, total_);
  }

  std::uint64_t window_end() const {
    return before_window_ + static_cast<std::uint64_t>(end_ == nullptr ? 0 : end_ - first());
  }

  void skip_byte_order_mark() {
    for (const char mark : {'\xEF', '\xBB', '\xBF'}) {
      if (Peek() != mark) return;
      Take();
    }
  }

  ByteSource& source_;
  base::Progress& progress_;
  std::uint64_t total_;
  std::vector<char> window_;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  std::uint64_t before_window_ = 0;  // bytes in earlier windows
  std::uint64_t token_end_ = 0;
  std::optional<Error> failure_;
};

}  // namespace plimsoll::readers::kineto

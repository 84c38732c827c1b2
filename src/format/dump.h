// What a trace file says, as text: one line a record, nothing resolved, nothing left out. Meant for
// looking at what a writer wrote; tests compare whole files with it.
//
//   block 3 at 512: events, 42 events, 310 bytes
//   alloc serial=7 time=1700000000000000123 thread=1 site=3 address=0x7f0000001000 size=4096
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll::format {

class Dump {
 public:
  // Takes whole lines, some at a time.
  using Output = std::function<void(std::string_view)>;

  explicit Dump(Output output);
  ~Dump();
  Dump(const Dump&) = delete;
  Dump& operator=(const Dump&) = delete;

  // The next piece of the file. False: it is none that can be read, and error() says why.
  bool push(std::span<const std::byte> piece);
  // No more will come: the last lines, and what was wrong.
  bool finish();
  const std::string& error() const { return error_; }

 private:
  class Lines;
  bool check_kind();

  std::unique_ptr<Lines> lines_;
  std::string error_;
};

}  // namespace plimsoll::format

// Prints a trace file as text: one line per record, nothing resolved and nothing left out. For
// inspecting what a writer wrote. Tests compare whole files with it.
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
  // Receives whole lines, one or more per call.
  using Output = std::function<void(std::string_view)>;

  explicit Dump(Output output);
  ~Dump();
  Dump(const Dump&) = delete;
  Dump& operator=(const Dump&) = delete;

  // Passes the next piece of the file. Returns false if it is not readable; error() says why.
  bool push(std::span<const std::byte> piece);
  // Call this after the last piece: prints the last lines and any damage.
  bool finish();
  const std::string& error() const { return error_; }

 private:
  class Lines;
  bool check_kind();

  std::unique_ptr<Lines> lines_;
  std::string error_;
};

}  // namespace plimsoll::format

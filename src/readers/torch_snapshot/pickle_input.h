// PickleInput: a window over a ByteSource. The machine reads between `cursor` and `limit` and
// requests more when necessary. The window only grows by bytes that have arrived, so a false length
// field costs nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plimsoll/result.h"
#include "readers/byte_source.h"

namespace plimsoll::readers::torch_snapshot {

class PickleInput {
 public:
  explicit PickleInput(ByteSource& source, std::size_t window_bytes = std::size_t{1} << 18);

  const std::uint8_t* cursor;
  const std::uint8_t* limit;

  std::size_t available() const { return static_cast<std::size_t>(limit - cursor); }
  // Makes at least `need` bytes available; returns false if the input ends first.
  Result<bool> fill(std::size_t need);
  // Position of `cursor` from the start of the pickle.
  std::uint64_t offset() const {
    return passed_ + static_cast<std::uint64_t>(cursor - window_.data());
  }
  std::uint64_t bytes_left_hint() const { return source_.size_hint(); }

 private:
  ByteSource& source_;
  std::vector<std::uint8_t> window_;
  std::uint64_t passed_ = 0;  // bytes before the window
  bool ended_ = false;
};

}  // namespace plimsoll::readers::torch_snapshot

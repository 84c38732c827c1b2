#include "readers/torch_snapshot/pickle_input.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace plimsoll::readers::torch_snapshot {

PickleInput::PickleInput(ByteSource& source, std::size_t window_bytes)
    : source_(source), window_(std::max<std::size_t>(window_bytes, 64)) {
  cursor = limit = window_.data();
}

Result<bool> PickleInput::fill(std::size_t need) {
  std::size_t have = available();
  if (have >= need) return true;
  passed_ += static_cast<std::uint64_t>(cursor - window_.data());
  std::memmove(window_.data(), cursor, have);
  while (!ended_ && have < need) {
    if (have == window_.size()) window_.resize(window_.size() * 2);
    const std::span<std::uint8_t> room(window_.data() + have, window_.size() - have);
    auto got = source_.read(std::as_writable_bytes(room));
    cursor = window_.data();
    limit = cursor + have;
    if (!got) return std::move(got).error();
    ended_ = *got == 0;
    have += *got;
  }
  cursor = window_.data();
  limit = cursor + have;
  return have >= need;
}

}  // namespace plimsoll::readers::torch_snapshot

#include "readers/torch_snapshot/run_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace plimsoll::readers::torch_snapshot {

const Value* RunCache::find(std::span<const std::uint8_t> run, std::uint64_t hash) const {
  if (slots_.empty()) return nullptr;
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash & mask; slots_[at].len != 0; at = (at + 1) & mask) {
    const Entry& entry = slots_[at];
    if (entry.hash == hash && entry.len == run.size() &&
        std::memcmp(bytes_.data() + entry.start, run.data(), run.size()) == 0) {
      return &entry.value;
    }
  }
  return nullptr;
}

void RunCache::insert(std::span<const std::uint8_t> run, std::uint64_t hash, const Value& value) {
  if ((used_ + 1) * 2 > slots_.size()) grow();
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash & mask;
  while (slots_[at].len != 0) at = (at + 1) & mask;
  slots_[at] = Entry{hash, bytes_.size(), static_cast<std::uint32_t>(run.size()), value};
  bytes_.append(run);
  ++used_;
}

void RunCache::grow() {
  std::vector<Entry> old(std::max<std::size_t>(1024, slots_.size() * 2));
  old.swap(slots_);
  const std::size_t mask = slots_.size() - 1;
  for (const Entry& entry : old) {
    if (entry.len == 0) continue;
    std::size_t at = entry.hash & mask;
    while (slots_[at].len != 0) at = (at + 1) & mask;
    slots_[at] = entry;
  }
}

void RunCache::clear() {
  slots_.clear();
  bytes_.clear();
  used_ = 0;
}

std::uint64_t RunCache::memory_bytes() const {
  return slots_.capacity() * sizeof(Entry) + bytes_.memory_bytes();
}

}  // namespace plimsoll::readers::torch_snapshot

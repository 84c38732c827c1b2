#include "model/strings.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/hash.h"

namespace plimsoll::model {
namespace {

constexpr std::size_t kChunkBytes = 1 << 16;

}  // namespace

std::size_t StringTable::Hash::operator()(std::string_view text) const {
  return base::hash_bytes(text.data(), text.size());
}

std::string_view StringTable::keep(std::string_view text) {
  if (text.empty()) return {};
  if (text.size() > chunk_size_ - chunk_used_) {
    chunk_size_ = std::max(kChunkBytes, text.size());
    chunks_.push_back(std::make_unique_for_overwrite<char[]>(chunk_size_));
    chunk_used_ = 0;
    text_bytes_ += chunk_size_;
  }
  char* place = chunks_.back().get() + chunk_used_;
  std::memcpy(place, text.data(), text.size());
  chunk_used_ += text.size();
  return {place, text.size()};
}

StringId StringTable::intern(std::string_view text) {
  if (auto found = ids_.find(text); found != ids_.end()) return StringId{found->second};
  const std::string_view kept = keep(text);
  const auto id = static_cast<std::uint32_t>(views_.size());
  views_.push_back(kept);
  ids_.emplace(kept, id);
  return StringId{id};
}

void StringTable::replace(const std::vector<std::string>& texts) {
  StringTable replaced;
  for (std::uint32_t row = 1; row < texts.size(); ++row) {
    const std::string_view kept = replaced.keep(texts[row]);
    replaced.views_.push_back(kept);
    replaced.ids_.emplace(kept, row);
  }
  *this = std::move(replaced);
}

std::size_t StringTable::memory_bytes() const {
  return text_bytes_ + views_.capacity() * sizeof(std::string_view) +
         ids_.bucket_count() * (sizeof(std::string_view) + 16);
}

}  // namespace plimsoll::model

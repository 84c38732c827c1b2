#include "cpp_heap.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace plimsoll::libtorch::cpp_holders {
namespace {

constexpr std::uintptr_t kPage = 4096;
constexpr std::uintptr_t kArena = 64u << 20;  // other arenas than the first are aligned to it
constexpr std::size_t kWindow = 1u << 20;
constexpr std::uintptr_t kInUse = 1, kMapped = 2, kFlags = 7;  // of a chunk's size; InUse: the
                                                               // chunk before it
constexpr std::size_t kHeader = 16;
constexpr std::size_t kSeen = 5;  // words that are read of each chunk: its header, and three more

std::uintptr_t end_of_heap() { return reinterpret_cast<std::uintptr_t>(sbrk(0)); }

// The second word of a freed block in malloc's cache of a thread.
std::uintptr_t find_cache_key() {
  void* const block = std::malloc(kHeader);
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  std::free(block);
  return read_value<std::uintptr_t>(address + 8);
}

}  // namespace

bool read_memory(std::uintptr_t address, void* to, std::size_t size_bytes) {
  const iovec here{to, size_bytes};
  const iovec there{reinterpret_cast<void*>(address), size_bytes};
  return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == static_cast<ssize_t>(size_bytes);
}

std::vector<Mapping> writable_memory() {
  std::string text;
  const int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  char buffer[4096];
  for (ssize_t count = 0; (count = read(file, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(count));
  }
  close(file);
  std::vector<Mapping> found;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string line(rest.substr(0, rest.find('\n')));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    Mapping mapping;
    char rights[5] = "";
    int name_at = 0;
    if (std::sscanf(line.c_str(), "%zx-%zx %4s %*s %*s %*s %n", &mapping.begin, &mapping.end,
                    rights, &name_at) != 3 ||
        std::string_view(rights) != "rw-p") {
      continue;
    }
    const std::string_view name = std::string_view(line).substr(static_cast<std::size_t>(name_at));
    using Use = Mapping::Use;
    mapping.use = name.empty()                 ? Use::kAnonymous
                  : name == "[heap]"           ? Use::kHeap
                  : name.starts_with("[stack") ? Use::kStack
                  : name.starts_with("[anon:") ? Use::kAnonymous
                                               : Use::kFile;
    found.push_back(mapping);
  }
  return found;
}

void Heap::find(const std::vector<Mapping>& mappings, Found found, void* user) {
  blocks_.reserve(kMostBlocks);
  pages_.reserve(16u << 20);  // of 64 GiB
  reserve(window_, kWindow + kSeen * 8);
  found_ = found;
  user_ = user;
  cache_key_ = find_cache_key();
  for (const Mapping& each : mappings) {
    if (each.use == Mapping::Use::kHeap) {
      add_region(each.begin, each.begin, std::max(each.end, end_of_heap()));
    }
    if (each.use != Mapping::Use::kAnonymous) continue;
    // Large blocks have mappings of their own, which the kernel may join.
    std::uintptr_t at = each.begin;
    while (at + kPage <= each.end) {
      const std::uintptr_t aligned = (at + kArena - 1) / kArena * kArena;
      const auto header = read_value<std::uintptr_t>(at + 8);
      const std::uintptr_t size = header & ~kFlags;
      if ((header & kFlags) == kMapped && size % kPage == 0 && size > 0 && size <= each.end - at) {
        std::uintptr_t words[kSeen] = {};
        if (!read_memory(at, words, sizeof words)) break;
        Block block{.begin = at + kHeader,
                    .words = static_cast<std::uint32_t>(
                        std::min<std::uintptr_t>((size - kHeader) / 8, UINT32_MAX))};
        block.last = block.words;
        found_(user_, block, words + 2);
        is_full_ = is_full_ || !blocks_.push_back(block);
        if (is_full_) return;
        regions_.push_back({at, at + size, this->size() - 1, 1, 0});
        at += size;
      } else if (at == aligned) {
        add_arena(at, each.end);
        at += kArena;
      } else {
        // Threads' stacks and other memory begin anywhere.
        at = aligned < each.end && aligned > at ? aligned : each.end;
      }
    }
  }
}

// Reads the chunks from the first header to the end of an arena's memory. A trial adds nothing.
bool Heap::read_chunks(std::uintptr_t begin, std::uintptr_t end, bool is_trial) {
  auto* const window = static_cast<std::uintptr_t*>(window_.data());
  std::uintptr_t from = 0, until = 0;  // what the window has
  const auto words_at = [&](std::uintptr_t at) -> const std::uintptr_t* {
    const std::size_t wanted = std::min<std::size_t>(kSeen * 8, end - at);
    if (at < from || at + wanted > until) {
      from = at;
      until = std::min(end, at + (is_trial ? kPage : kWindow));
      if (!read_memory(from, window, until - from)) return nullptr;
      std::fill_n(window + (until - from) / 8, kSeen, 0);
    }
    return window + (at - from) / 8;
  };
  Block before;  // whether it is in use, the next header says
  std::uintptr_t seen[3] = {};
  for (std::uintptr_t at = begin; at + kHeader <= end;) {
    const std::uintptr_t* const words = words_at(at);
    if (words == nullptr) return false;
    const std::uintptr_t size = words[1] & ~kFlags;
    if (size < 2 * kHeader || size % kHeader != 0 || size > end - at) {
      // The first arena may have grown since its end was read: then this was its last one.
      is_broken_ = is_broken_ || (!is_trial && end_of_heap() <= end);
      return !is_trial;
    }
    const bool is_cached = seen[1] == cache_key_ && cache_key_ != 0;
    if (!is_trial && before.begin != 0 && (words[1] & kInUse) != 0 && !is_cached) {
      found_(user_, before, seen);
      if (!blocks_.push_back(before)) return is_full_ = true;
    }
    before = {.begin = at + kHeader, .words = static_cast<std::uint32_t>((size - 8) / 8)};
    before.last = before.words;
    std::copy_n(words + 2, 3, seen);
    at += size;
    if (at == end) return true;  // the last one is free
  }
  return !is_trial;
}

// `chunk`: the first header in the region.
void Heap::add_region(std::uintptr_t chunk, std::uintptr_t begin, std::uintptr_t end) {
  Region region{begin, end, size(), 0, pages_.size()};
  read_chunks(chunk, end, false);
  region.blocks = size() - region.first_block;
  std::uint32_t block = region.first_block;
  for (std::uintptr_t page = begin; page < end; page += kPage) {
    while (block < size() && blocks_[block].begin < page) ++block;
    if (!pages_.push_back(block)) return;
  }
  pages_.push_back(size());
  regions_.push_back(region);
}

std::uint32_t Heap::at(std::uintptr_t address) const {
  // Most are where the last one was.
  if (address < last_.begin || address >= last_.end) {
    const auto after = std::ranges::upper_bound(regions_, address, {}, &Region::begin);
    if (after == regions_.begin() || address >= std::prev(after)->end) return kNoBlock;
    last_ = *std::prev(after);
  }
  const Region& region = last_;
  if (region.blocks == 0) return kNoBlock;
  std::uint32_t low = region.first_block, high = low + region.blocks;
  if (region.blocks > 1) {
    const std::size_t page = region.first_page + (address - region.begin) / kPage;
    low = std::max(low + 1, pages_[page]) - 1;  // it may begin in an earlier page
    high = pages_[page + 1];
  }
  const Block* const block =
      std::upper_bound(blocks_.begin() + low, blocks_.begin() + high, address,
                       [](std::uintptr_t each, const Block& of) { return each < of.begin; });
  const auto number = static_cast<std::uint32_t>(block - blocks_.begin());
  if (number == low || address >= block[-1].end()) return kNoBlock;
  return number - 1;
}

// Where the first chunk begins depends on the version of glibc.
void Heap::add_arena(std::uintptr_t address, std::uintptr_t end) {
  struct Info {
    std::uintptr_t arena, before, size, readable;
  };
  const auto info = read_value<Info>(address);
  if (info.size == 0 || info.size % kPage != 0 || info.size > kArena || info.arena == 0) return;
  if (info.size > end - address || info.arena % 16 != 0) return;
  for (std::uintptr_t at = address + sizeof(Info); at < address + kPage; at += kHeader) {
    const auto header = read_value<std::uintptr_t>(at + 8);
    if ((header & kInUse) == 0 || (header & kMapped) != 0) continue;
    if (!read_chunks(at, address + info.size, true)) continue;
    return add_region(at, address, address + info.size);
  }
}

}  // namespace plimsoll::libtorch::cpp_holders

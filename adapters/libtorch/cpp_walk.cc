#include "cpp_walk.h"

#include <c10/core/StorageImpl.h>
#include <dirent.h>
#include <sys/uio.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <type_traits>

#include "plimsoll/native_stacks_c.h"

namespace plimsoll::libtorch::cpp_holders {
namespace {

constexpr std::size_t kBufferBytes = 1u << 20;
constexpr std::size_t kMostTogether = 256;  // blocks that are read at a time
constexpr std::size_t kMostReferences = 4'000'000;

// A copy of an object, whose virtual functions are not called.
template <typename T>
struct Copy {
  alignas(T) std::array<std::byte, sizeof(T)> bytes{};
  bool is_read;
  explicit Copy(std::uintptr_t address)
      : is_read(read_memory(address, bytes.data(), bytes.size())) {}
  T& get() { return *reinterpret_cast<T*>(bytes.data()); }
};

// The word of an AutogradMeta that refers weakly.
std::size_t weak_word_of_meta() {
  static const std::size_t kWord = [] {
    const Copy<torch::autograd::AutogradMeta> meta(0);
    auto& copy = const_cast<Copy<torch::autograd::AutogradMeta>&>(meta).get();
    return static_cast<std::size_t>(reinterpret_cast<const char*>(&copy.grad_accumulator_) -
                                    reinterpret_cast<const char*>(&copy)) /
           8;
  }();
  return kWord;
}

// Of this thread: on a busy machine, a walk of the same memory takes several times as long.
std::chrono::nanoseconds cpu_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

struct Frame {
  std::uintptr_t begin, code;
};

_Unwind_Reason_Code add_frame(_Unwind_Context* context, void* to) {
  auto& frames = *static_cast<std::vector<Frame>*>(to);
  if (frames.size() >= 1000) return _URC_END_OF_STACK;
  frames.push_back({_Unwind_GetCFA(context), _Unwind_GetIP(context) - 1});
  return _URC_NO_REASON;
}

// Where the stack of a thread that waits ends; 0: unknown.
std::uintptr_t stack_pointer_of(const char* thread) {
  char path[64], text[256] = "";
  std::snprintf(path, sizeof path, "/proc/self/task/%.20s/syscall", thread);
  std::FILE* const file = std::fopen(path, "re");
  if (file == nullptr) return 0;
  const char* const line = std::fgets(text, sizeof text, file);
  std::fclose(file);
  std::uintptr_t pointer = 0;
  if (line == nullptr) return 0;
  return std::sscanf(line, "%*s %*s %*s %*s %*s %*s %*s %zx", &pointer) == 1 ? pointer : 0;
}

}  // namespace

Walk::Walk(std::chrono::milliseconds time, std::uintptr_t stack)
    : stack_(stack), most_time_(time), began_(cpu_time()) {}

bool Walk::is_late() {
  if (end == PLIMSOLL_WALK_COMPLETE && cpu_time() - began_ > most_time_) end = PLIMSOLL_WALK_TIME;
  return end != PLIMSOLL_WALK_COMPLETE;
}

std::uint64_t Walk::uses_of(std::uint32_t number) const {
  const Block& block = heap[number];
  if ((block.flags & kIsShared) != 0) return read_value<std::uint32_t>(block.begin + 8);
  constexpr bool kNodesAreCounted =
      std::is_base_of_v<c10::intrusive_ptr_target, torch::autograd::Node>;
  if (!kNodesAreCounted && kind_of(number) == Kind::kNode) return 0;  // in a std::shared_ptr
  Copy<c10::intrusive_ptr_target> copy(block.begin);
  return copy.is_read ? c10::raw::intrusive_ptr::use_count(&copy.get()) : 0;
}

// ---- what there is ------------------------------------------------------------------------------

void Walk::see(Block& block, const std::uintptr_t* words) {
  block.type = types.of(words[0]);
  const Kind kind = types[block.type].kind;
  const std::uint32_t number = heap.size();
  if (kind == Kind::kShared) {
    block.flags = kIsShared | kCounted;
    // An object of std::make_shared follows the counts.
    if (block.words > 2) block.type = types.of(words[2]);
    if (types[block.type].kind != Kind::kObject) block.type = 0;
  }
  if (kind == Kind::kOwn) block.flags = kSkipped;
  if (kind == Kind::kStorage) storage_blocks_.push_back(number);
  if (kind == Kind::kTensor) tensors_.push_back(number);
  if (kind == Kind::kStorage || kind == Kind::kTensor || kind == Kind::kNode) {
    block.flags = kCounted;
  }
}

void Walk::read_storages() {
  for (const std::uint32_t number : storage_blocks_) {
    Copy<c10::StorageImpl> copy(heap[number].begin);
    if (!copy.is_read || uses_of(number) == 0) continue;
    const c10::StorageImpl& storage = copy.get();
    const c10::DataPtr& data = copy.get()._mutable_data_ptr_no_checks();
    const auto address = reinterpret_cast<std::uintptr_t>(data.get());
    if (address == 0) continue;
    storages.push_back({number, address, storage.nbytes(),
                        data.device().type() == c10::DeviceType::CUDA, data.device().index()});
    const std::uint32_t block = heap.at(address);
    if (block != kNoBlock) heap[block].flags |= kSkipped;
  }
}

void Walk::add_stacks() {
  std::vector<Frame> frames;
  _Unwind_Backtrace(add_frame, &frames);
  const auto mapping_of = [&](std::uintptr_t address) {
    return std::ranges::find_if(mappings_, [&](const Mapping& each) {
      return address >= each.begin && address < each.end;
    });
  };
  const auto own = mapping_of(stack_);
  if (own == mappings_.end()) return;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const std::uintptr_t next = i + 1 < frames.size() ? frames[i + 1].begin : own->end;
    if (frames[i].begin < stack_ || next < frames[i].begin || next > own->end) continue;
    roots.push_back({.kind = Root::Kind::kLocal,
                     .begin = frames[i].begin,
                     .end = next,
                     .code = frames[i].code});
  }
  own->use = Mapping::Use::kStack;
  DIR* const threads = opendir("/proc/self/task");
  if (threads == nullptr) return;
  while (const dirent* const each = readdir(threads)) {
    const std::uintptr_t pointer = stack_pointer_of(each->d_name);
    const auto mapping = mapping_of(pointer);
    if (mapping == mappings_.end() || mapping == own) continue;
    roots.push_back({.kind = Root::Kind::kLocal,
                     .begin = (pointer + 7) & ~std::uintptr_t{7},
                     .end = mapping->end,
                     .name = std::string("thread ") + each->d_name});
    mapping->use = Mapping::Use::kStack;
  }
  closedir(threads);
}

void Walk::add_roots() {
  struct Static {
    std::uintptr_t begin, end;
  };
  struct Found {
    Walk& walk;
    std::vector<Static> memory;
  } found{*this, {}};
  plimsoll_variables(
      [](void* to, const plimsoll_variable* variable) {
        auto& [walk, memory] = *static_cast<Found*>(to);
        memory.push_back({variable->begin, variable->end});
        const bool has_name = variable->name != nullptr;
        if (has_name && variable->name[0] == '\0') {
          return walk.skip_own(variable->begin, variable->end);
        }
        walk.roots.push_back({.kind = has_name ? Root::Kind::kVariable : Root::Kind::kNative,
                              .begin = (variable->begin + 7) & ~std::uintptr_t{7},
                              .end = variable->end,
                              .name = has_name ? variable->name : "",
                              .object = variable->object});
      },
      &found);
  add_stacks();
  heap.for_each_region(
      [&](std::uintptr_t begin, std::uintptr_t end) { found.memory.push_back({begin, end}); });
  std::ranges::sort(found.memory, {}, &Static::begin);
  for (const Mapping& mapping : mappings_) {
    std::uintptr_t at = mapping.use == Mapping::Use::kStack ? mapping.end : mapping.begin;
    const auto add = [&](std::uintptr_t end) {
      if (at < end) roots.push_back({.begin = at, .end = end});
    };
    for (const Static& each : found.memory) {
      if (each.end <= at || each.begin >= mapping.end) continue;
      add(each.begin);
      at = (each.end + 7) & ~std::uintptr_t{7};
    }
    add(mapping.end);
  }
}

// Plimsoll's variable: skips the blocks that it refers to, unless they are of a class, which may be
// one of the program.
void Walk::skip_own(std::uintptr_t begin, std::uintptr_t end) {
  constexpr std::uintptr_t kMost = 64u << 10;  // larger ones contain no pointers to blocks
  if (end - begin > kMost) return;
  auto* const words = static_cast<std::uintptr_t*>(buffer_.data());
  begin = (begin + 7) & ~std::uintptr_t{7};
  if (end < begin + 8 || !read_memory(begin, words, end - begin)) return;
  for (std::size_t i = 0; i < (end - begin) / 8; ++i) {
    const std::uint32_t number = heap.at(words[i]);
    if (number == kNoBlock || heap[number].flags != 0) continue;
    const auto first = read_value<std::uintptr_t>(heap[number].begin);
    if (!types.is_constant(first)) heap[number].flags = kSkipped;
  }
}

// ---- the walk -----------------------------------------------------------------------------------

void Walk::run() {
  mappings_ = writable_memory();  // without what this walk needs
  order.reserve(kMostBlocks);
  of_libraries_.reserve(kMostBlocks);
  references.reserve(kMostReferences);
  reserve(buffer_, kBufferBytes);
  // With another malloc, or a part of memory that was read wrong, it is in no block.
  const std::unique_ptr<void, decltype(&std::free)> probe(std::malloc(100), &std::free);
  heap.find(
      mappings_,
      [](void* self, Block& block, const std::uintptr_t* words) {
        static_cast<Walk*>(self)->see(block, words);
      },
      this);
  if (heap.is_full()) end = PLIMSOLL_WALK_OBJECTS;
  is_of_glibc = heap.at(reinterpret_cast<std::uintptr_t>(probe.get())) != kNoBlock;
  if (heap.is_full() || !is_of_glibc) return;
  lowest_ = heap[0].begin;
  highest_ = heap[heap.size() - 1].end();
  read_storages();
  add_roots();
  follow_roots(Root::Kind::kVariable);
  mark_libraries();
  for (stage_ = 0; stage_ < kStages; ++stage_) follow_roots(Root::Kind::kLocal);
  follow_all();
  const auto is_missing = [&](const Storage& each) { return heap[each.block].parent == 0; };
  if (std::ranges::none_of(storages, is_missing)) return;
  follow_roots(Root::Kind::kNative);
  follow_all();
  follow_lost();
}

void Walk::follow_roots(Root::Kind kind) {
  auto* const words = static_cast<std::uintptr_t*>(buffer_.data());
  for (std::uint32_t i = 1; i < roots.size() && !is_late(); ++i) {
    if (roots[i].kind != kind || (is_marking_ && roots[i].object.empty())) continue;
    for (std::uintptr_t at = roots[i].begin; at + 8 <= roots[i].end && !is_late();
         at += kBufferBytes) {
      const std::size_t count = std::min(kBufferBytes, roots[i].end - at) / 8;
      if (!read_memory(at, words, count * 8)) break;
      visit(words, count, kRootBit | i, i, SIZE_MAX);
    }
  }
  follow_blocks();
}

// Blocks, then graphs, and then what only a pointer into the middle of a block leads to, which
// seldom owns it.
void Walk::follow_all() {
  do {
    while (next_node_ < pending_nodes_.size() && !is_late()) {
      ++nodes;
      order.push_back(pending_nodes_[next_node_++]);
      follow_blocks();
    }
    while (!interiors_.empty() && next_node_ == pending_nodes_.size() && !is_late()) {
      const Interior each = interiors_.back();
      interiors_.pop_back();
      if (heap[each.block].parent == 0) add(each.block, each.from, each.owner);
      follow_blocks();
    }
  } while (next_node_ < pending_nodes_.size() && !is_late());
}

void Walk::follow_lost() {
  if (is_late() || heap.is_broken()) return;
  roots.push_back({.kind = Root::Kind::kLost});
  const auto owner = static_cast<std::uint32_t>(roots.size() - 1);
  for (const std::vector<std::uint32_t>* all : {&tensors_, &storage_blocks_}) {
    for (const std::uint32_t each : *all) {
      if (heap[each].parent != 0 || uses_of(each) == 0) continue;
      add(each, kRootBit | owner, owner);
      follow_blocks();
      follow_all();
    }
  }
}

void Walk::follow_blocks() {
  while (next_ < order.size() && !is_late()) follow_batch(order, next_);
}

// Libraries have hundreds of thousands of blocks, some of whose words are left from earlier uses of
// the memory. A pointer on a stack that leads to one of them leads to all: they hold no tensor of a
// local variable.
void Walk::mark_libraries() {
  is_marking_ = true;
  follow_roots(Root::Kind::kNative);
  for (std::size_t next = 0; next < of_libraries_.size() && !is_late();) {
    follow_batch(of_libraries_, next);
  }
  is_marking_ = false;
}

// Reads several blocks with one call, and follows their references.
void Walk::follow_batch(const Array<std::uint32_t>& queue, std::size_t& next) {
  const std::size_t count = std::min(queue.size() - next, kMostTogether);
  auto* const words = static_cast<std::uintptr_t*>(buffer_.data());
  std::array<iovec, kMostTogether> there;
  std::size_t taken = 0, size_bytes = 0;
  for (; taken < count; ++taken) {
    const Block& block = heap[queue[next + taken]];
    const bool is_leaf = kind_of(queue[next + taken]) == Kind::kStorage;
    const std::size_t bytes = is_leaf ? 0 : block.count() * 8;
    if (size_bytes + bytes > kBufferBytes) break;
    there[taken] = {reinterpret_cast<void*>(block.begin + std::uintptr_t{block.first} * 8), bytes};
    size_bytes += bytes;
  }
  const auto follow = [&](std::size_t i, const std::uintptr_t* of, std::size_t words_of) {
    const std::uint32_t number = queue[next + i];
    const Block& block = heap[number];
    const bool is_meta = kind_of(number) == Kind::kMeta;
    visit(of, words_of, number + 1, block.owner, is_meta ? weak_word_of_meta() : SIZE_MAX);
  };
  if (taken == 0) {  // a large one
    const Block& block = heap[queue[next]];
    const std::size_t all = block.count();
    for (std::size_t from = 0; from < all && !is_late(); from += kBufferBytes / 8) {
      const std::size_t part = std::min(all - from, kBufferBytes / 8);
      if (!read_memory(block.begin + (block.first + from) * 8, words, part * 8)) break;
      follow(0, words, part);
    }
    ++next;
    return;
  }
  const iovec here{words, size_bytes};
  const bool is_read = size_bytes == 0 || process_vm_readv(getpid(), &here, 1, there.data(), taken,
                                                           0) == static_cast<ssize_t>(size_bytes);
  const std::uintptr_t* at = words;
  for (std::size_t i = 0; i < taken; ++i) {
    // Some of it may no longer be mapped.
    const std::size_t bytes = there[i].iov_len;
    const bool is_whole =
        is_read || read_memory(reinterpret_cast<std::uintptr_t>(there[i].iov_base), words, bytes);
    if (is_whole) follow(i, is_read ? at : words, bytes / 8);
    at += bytes / 8;
  }
  next += taken;
}

void Walk::visit(const std::uintptr_t* words, std::size_t count, std::uint32_t from,
                 std::uint32_t owner, std::size_t skipped) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uintptr_t word = words[i];
    if (word < lowest_ || word >= highest_ || word % 8 != 0 || i == skipped) continue;
    const std::uint32_t number = heap.at(word);
    if (number == kNoBlock) continue;
    Block& block = heap[number];
    const char* type = "";
    if (block.begin == word) {
      if (i + 3 <= count && limit_vector(words + i, block)) type = "std::vector";
      if (i + 10 <= count && limit_deque(words + i)) type = "std::deque";
    }
    if (roots[owner].kind == Root::Kind::kLocal && from == (kRootBit | owner)) {
      if (stage_of(number, type) != stage_) continue;
      const std::uint32_t local = local_of(owner, *type == '\0' ? 0 : i * 8, type);
      reach(number, word, kRootBit | local, local);
      continue;
    }
    if (from == (kRootBit | owner) && i == 0) roots[owner].type = type;
    reach(number, word, from, owner);
  }
}

// A container on a stack owns its elements, and an object its members. Other words there may be
// copies of pointers to both, so they come last.
int Walk::stage_of(std::uint32_t number, const char* type) const {
  if (*type != '\0') return 0;
  return kind_of(number) == Kind::kObject || (heap[number].flags & kIsShared) != 0 ? 1 : 2;
}

// A container at an offset in a frame, or all other local variables of the frame.
std::uint32_t Walk::local_of(std::uint32_t frame, std::size_t offset, const char* type) {
  const auto [known, is_new] =
      locals_.try_emplace({frame, offset}, static_cast<std::uint32_t>(roots.size()));
  if (is_new) {
    Root local = roots[frame];
    local.begin = local.end;
    local.frame = frame;
    local.offset = offset;
    local.type = type;
    roots.push_back(local);
  }
  return known->second;
}

void Walk::reach(std::uint32_t number, std::uintptr_t address, std::uint32_t from,
                 std::uint32_t owner) {
  Block& block = heap[number];
  if ((block.flags & kSkipped) != 0 || from == number + 1) return;
  const bool is_exact = address == block.begin;
  if (is_marking_) {
    const Kind kind = kind_of(number);
    const bool is_plain = kind == Kind::kNone && (block.flags & ~kIsShared & ~kCounted) == 0;
    if (!is_exact || !is_plain || block.parent != 0) return;
    block.flags |= kOfLibrary;
    of_libraries_.push_back(number);
    return;
  }
  if ((block.flags & kOfLibrary) != 0 && roots[owner].kind == Root::Kind::kLocal) return;
  if ((block.flags & kCounted) != 0) {
    // Only pointers to its beginning own a reference.
    if (!is_exact) return;
    references.push_back({number, from});
  }
  if (block.parent != 0) {
    using enum Root::Kind;
    if (block.owner == owner || (block.flags & kCounted) != 0 || !is_exact) return;
    if (roots[owner].kind != kVariable || roots[block.owner].kind != kVariable) return;
    block.flags |= kSharedBy;
    other_owners.emplace(number, owner);
    return;
  }
  // An array of objects with destructors begins with its size.
  if (is_exact || address == block.begin + 8) return add(number, from, owner);
  interiors_.push_back({number, from, owner});
}

void Walk::add(std::uint32_t number, std::uint32_t from, std::uint32_t owner) {
  Block& block = heap[number];
  block.parent = from;
  block.owner = is_part(number, from, owner) ? part_of(owner) : owner;
  if (kind_of(number) == Kind::kNode) {
    pending_nodes_.push_back(number);
  } else {
    order.push_back(number);
  }
}

// Whether the program knows it as a thing of its own: an object of a class, the hooks of a tensor.
bool Walk::is_part(std::uint32_t number, std::uint32_t from, std::uint32_t owner) const {
  const Root::Kind kind = roots[owner].kind;
  if (kind != Root::Kind::kVariable && kind != Root::Kind::kLocal) return false;
  if (kind_of(number) == Kind::kObject) return true;
  const bool is_of_meta = (from & kRootBit) == 0 && kind_of(from - 1) == Kind::kMeta;
  return is_of_meta && kind_of(number) == Kind::kNone;
}

std::uint32_t Walk::part_of(std::uint32_t owner) {
  Root part = roots[owner];
  part.begin = part.end;
  part.whole = owner;
  roots.push_back(part);
  return static_cast<std::uint32_t>(roots.size() - 1);
}

// A std::vector has the begin, end and capacity of its elements. What is behind the end was freed.
bool Walk::limit_vector(const std::uintptr_t* words, Block& block) const {
  const std::uintptr_t end = words[1], capacity = words[2];
  if (end < block.begin || capacity < end || capacity > block.end() || capacity == block.begin) {
    return false;
  }
  const auto last = static_cast<std::uint32_t>((end - block.begin + 7) / 8);
  if (block.last == block.words || last > block.last) block.last = last;
  return true;
}

// A std::deque has an array of pointers to its parts, the array's size, and two iterators: the
// element, begin and end of its part, and where the array refers to that part.
bool Walk::limit_deque(const std::uintptr_t* words) const {
  struct Iterator {
    std::uintptr_t element, begin, end, place;
  };
  const auto& first = *reinterpret_cast<const Iterator*>(words + 2);
  const auto& last = *reinterpret_cast<const Iterator*>(words + 6);
  const std::uint32_t array = heap.at(words[0]);
  Block& places = heap[array];
  const auto is_in = [](std::uintptr_t address, std::uintptr_t begin, std::uintptr_t end) {
    return address >= begin && address < end;
  };
  if (words[1] == 0 || words[1] > places.words || first.place > last.place) return false;
  for (const Iterator& each : {first, last}) {
    if (!is_in(each.place, places.begin, places.end()) ||
        !is_in(each.element, each.begin, each.end)) {
      return false;
    }
  }
  const std::uint32_t front = heap.at(first.begin), back = heap.at(last.begin);
  if (front == kNoBlock || back == kNoBlock) return false;
  places.first = static_cast<std::uint32_t>((first.place - places.begin) / 8);
  places.last = static_cast<std::uint32_t>((last.place - places.begin) / 8 + 1);
  heap[front].first = static_cast<std::uint32_t>((first.element - heap[front].begin) / 8);
  heap[back].last = static_cast<std::uint32_t>((last.element - heap[back].begin + 7) / 8);
  return true;
}

}  // namespace plimsoll::libtorch::cpp_holders

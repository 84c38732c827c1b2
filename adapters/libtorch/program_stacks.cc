// The stacks of a C++ program. Unwinding a stack costs about 10 µs, so each stack is unwound only
// once: where an operator allocates with the same frame address as before, and every return address
// of the earlier stack is still in its place, the stack is the earlier one. If it contains code of
// a library that can be unloaded, no library may have been unloaded since.
#include "program_stacks.h"

#include <pthread.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plimsoll/native_stacks_c.h"
#include "thread_state.h"

namespace plimsoll::libtorch {

struct ReturnAddress {
  const std::uintptr_t* at;
  std::uintptr_t value;
  bool operator==(const ReturnAddress&) const = default;
};

struct KnownStack {
  std::uint32_t begin = 0;  // in StackCache::places
  std::uint32_t end = 0;
  std::uint32_t id = 0;
  std::uint64_t unloads = 0;  // see plimsoll_native_stack()
  std::uint32_t next = 0;     // with the same frame address and operator; a ring
};

struct Place {
  std::uintptr_t frame;
  std::uint32_t op;
  bool operator==(const Place&) const = default;
};

struct PlaceHash {
  std::size_t operator()(const Place& place) const noexcept {
    return (place.frame ^ std::uint64_t{place.op} << 40U) * 0x9E3779B97F4A7C15U;
  }
};

// Stacks that this thread has met.
struct StackCache {
  std::unordered_map<Place, std::uint32_t, PlaceHash> newest;  // the stack that was met last
  std::vector<KnownStack> known;
  std::vector<ReturnAddress> places;
  std::uintptr_t stack_begin = 0;  // of the thread; other stacks (coroutines) are not cached
  std::uintptr_t stack_end = 0;
};

namespace {

constexpr std::size_t kMostFrames = 96;
constexpr std::size_t kMostKnown = 1u << 12;
constexpr int kMostTried = 64;  // costs less than unwinding

struct Unwound {
  std::uintptr_t from;       // the frame address of capture(); lower frames are ours
  std::uintptr_t stack_end;  // of the thread
  std::array<std::uintptr_t, kMostFrames> addresses{};
  std::array<ReturnAddress, kMostFrames> places{};  // of the addresses
  std::size_t count = 0;
  bool is_cacheable = true;
};

_Unwind_Reason_Code take_frame(_Unwind_Context* context, void* to) {
  Unwound& unwound = *static_cast<Unwound*>(to);
  const std::uintptr_t frame = _Unwind_GetCFA(context);
  int is_interrupted = 0;
  const std::uintptr_t address = _Unwind_GetIPInfo(context, &is_interrupted);
  if (address == 0 || unwound.count == kMostFrames) return _URC_END_OF_STACK;
  if (frame <= unwound.from) return _URC_NO_REASON;
  const auto* const at = reinterpret_cast<const std::uintptr_t*>(frame) - 1;
  unwound.is_cacheable =
      unwound.is_cacheable && is_interrupted == 0 && frame <= unwound.stack_end && *at == address;
  unwound.places[unwound.count] = {at, address};
  unwound.addresses[unwound.count++] = address - (is_interrupted == 0 ? 1 : 0);
  return _URC_NO_REASON;
}

[[gnu::no_sanitize_address]] bool is_still_there(const StackCache& cache, const KnownStack& known) {
  for (std::uint32_t i = known.begin; i < known.end; ++i) {
    if (*cache.places[i].at != cache.places[i].value) return false;
  }
  return true;
}

bool is_same_code(const KnownStack& known) {
  return known.unloads == PLIMSOLL_NEVER_UNLOADED || known.unloads == plimsoll_unloads();
}

void find_stack_bounds(StackCache& cache) {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  void* begin = nullptr;
  std::size_t size_bytes = 0;
  if (pthread_attr_getstack(&attributes, &begin, &size_bytes) == 0) {
    cache.stack_begin = reinterpret_cast<std::uintptr_t>(begin);
    cache.stack_end = cache.stack_begin + size_bytes;
  }
  pthread_attr_destroy(&attributes);
}

StackCache& cache_of(ThreadState& thread) {
  if (thread.stacks == nullptr) {
    auto cache = std::make_shared<StackCache>();
    find_stack_bounds(*cache);
    thread.stacks = cache.get();
    thread.stacks_owner = std::move(cache);
  }
  return *thread.stacks;
}

void remember(StackCache& cache, const Place& place, const Unwound& unwound, std::uint32_t id,
              std::uint64_t unloads) {
  if (cache.known.size() == kMostKnown) {
    cache.newest.clear();
    cache.known.clear();
    cache.places.clear();
  }
  const auto begin = static_cast<std::uint32_t>(cache.places.size());
  cache.places.insert(cache.places.end(), unwound.places.begin(),
                      unwound.places.begin() + static_cast<std::ptrdiff_t>(unwound.count));
  const auto row = static_cast<std::uint32_t>(cache.known.size());
  cache.known.push_back({.begin = begin,
                         .end = static_cast<std::uint32_t>(cache.places.size()),
                         .id = id,
                         .unloads = unloads,
                         .next = row});
  const auto [newest, is_first] = cache.newest.try_emplace(place, row);
  if (!is_first) std::swap(cache.known[row].next, cache.known[newest->second].next);
  newest->second = row;
}

// The known stack with these return addresses, or null. A loop meets its lines in the order in
// which it met them before.
KnownStack* find_known(StackCache& cache, const Place& place) {
  const auto newest = cache.newest.find(place);
  if (newest == cache.newest.end()) return nullptr;
  std::uint32_t row = newest->second;
  for (int tried = 0; tried < kMostTried; ++tried) {
    row = cache.known[row].next;
    if (is_still_there(cache, cache.known[row])) {
      newest->second = row;
      return &cache.known[row];
    }
    if (row == newest->second) break;
  }
  return nullptr;
}

bool has_places_of(const StackCache& cache, const KnownStack& known, const Unwound& unwound) {
  return std::equal(cache.places.begin() + known.begin, cache.places.begin() + known.end,
                    unwound.places.begin(),
                    unwound.places.begin() + static_cast<std::ptrdiff_t>(unwound.count));
}

[[gnu::noinline]] std::uint32_t capture(ThreadState& thread) noexcept try {
  StackCache& cache = cache_of(thread);
  const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  const Place place{.frame = frame, .op = thread.context->outer_op};
  const bool is_cached = frame - cache.stack_begin < cache.stack_end - cache.stack_begin;
  KnownStack* const known = is_cached ? find_known(cache, place) : nullptr;
  if (known != nullptr && is_same_code(*known)) return known->id;
  Unwound unwound{.from = frame, .stack_end = cache.stack_end};
  _Unwind_Backtrace(take_frame, &unwound);
  if (unwound.count == 0) return 0;
  std::uint64_t unloads = 0;
  const std::uint32_t id = plimsoll_native_stack(unwound.addresses.data(), unwound.count, &unloads);
  if (!is_cached || !unwound.is_cacheable || id == 0) return id;
  if (known != nullptr && has_places_of(cache, *known, unwound)) {
    known->id = id;
    known->unloads = unloads;
  } else {
    remember(cache, place, unwound, id, unloads);
  }
  return id;
} catch (const std::exception&) {
  count_lost_detail();
  return 0;
}

}  // namespace

const StackSource& program_stacks() {
  static constexpr StackSource kStacks = {.capture = capture};
#if defined(__x86_64__)
  constexpr bool kKeepsReturnAddressesOnTheStack = true;
#else
  constexpr bool kKeepsReturnAddressesOnTheStack = false;  // every stack would be unwound
#endif
  return kKeepsReturnAddressesOnTheStack ? kStacks : kNoStacks;
}

}  // namespace plimsoll::libtorch

#include "call_stack.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <unwind.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lookup.h"
#include "plimsoll/recorder_c.h"

namespace plimsoll::cuda_driver {
namespace {

constexpr std::size_t kMostFrames = 64;
constexpr std::size_t kSlots = 1u << 15;  // number of stacks whose ids are cached
constexpr std::size_t kProbes = 16;

struct Addresses {
  std::array<std::uintptr_t, kMostFrames> at{};
  std::size_t count = 0;
};

_Unwind_Reason_Code take_frame(_Unwind_Context* context, void* to) {
  Addresses& addresses = *static_cast<Addresses*>(to);
  int is_before = 0;
  std::uintptr_t at = _Unwind_GetIPInfo(context, &is_before);
  if (at == 0) return _URC_END_OF_STACK;
  if (is_before == 0) --at;  // a return address may belong to the next function
  if (addresses.count == 0 && is_our_code(reinterpret_cast<void*>(at))) return _URC_NO_REASON;
  addresses.at[addresses.count++] = at;
  return addresses.count == kMostFrames ? _URC_END_OF_STACK : _URC_NO_REASON;
}

std::uint64_t hash_of(std::span<const std::uintptr_t> addresses) {
  std::uint64_t hash = 0x9E37'79B9'7F4A'7C15u;
  for (const std::uintptr_t at : addresses) {
    hash = (hash ^ at) * 0xFF51'AFD7'ED55'8CCDu;
    hash ^= hash >> 32;
  }
  return hash | 1;  // 0 is a free slot
}

// Stacks by their hash. A slot is filled once and never freed. A reader that finds a hash without
// its id defines the stack again, which gives the same id.
struct Slot {
  std::atomic<std::uint64_t> hash{0};
  std::atomic<std::uint32_t> id{0};
};
constinit std::array<Slot, kSlots> slots;

std::uint32_t name_id(std::string_view text) {
  return plimsoll_recorder()->name(text.data(), text.size());
}

std::string function_name(const Dl_info& info, std::uintptr_t at) {
  if (info.dli_sname == nullptr) {
    std::array<char, 32> text{};
    const std::uintptr_t base = reinterpret_cast<std::uintptr_t>(info.dli_fbase);
    std::snprintf(text.data(), text.size(), "+0x%zx", static_cast<std::size_t>(at - base));
    return text.data();
  }
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> plain(
      abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status), &std::free);
  return plain != nullptr ? plain.get() : info.dli_sname;
}

plimsoll_frame frame_of(std::uintptr_t at) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(at), &info) == 0) return {0, name_id("[made at run time]"), 0};
  const std::string_view path = info.dli_fname != nullptr ? info.dli_fname : "";
  return {name_id(path.substr(path.rfind('/') + 1)), name_id(function_name(info, at)), 0};
}

std::uint32_t make_stack(std::span<const std::uintptr_t> addresses) {
  std::vector<plimsoll_frame> frames;
  frames.reserve(addresses.size());
  for (const std::uintptr_t at : addresses) frames.push_back(frame_of(at));
  return plimsoll_recorder()->stack(frames.data(), frames.size());
}

}  // namespace

std::uint32_t call_stack() noexcept try {
  Addresses found;
  _Unwind_Backtrace(take_frame, &found);
  if (found.count == 0) return 0;
  const std::span<const std::uintptr_t> addresses(found.at.data(), found.count);
  const std::uint64_t hash = hash_of(addresses);
  for (std::size_t probe = 0; probe < kProbes; ++probe) {
    Slot& slot = slots[(hash + probe) & (kSlots - 1)];
    std::uint64_t there = slot.hash.load(std::memory_order_relaxed);
    if (there == 0 && slot.hash.compare_exchange_strong(there, hash)) there = hash;
    if (there != hash) continue;
    std::uint32_t id = slot.id.load(std::memory_order_relaxed);
    if (id != 0) return id;
    id = make_stack(addresses);
    slot.id.store(id, std::memory_order_relaxed);
    return id;
  }
  return make_stack(addresses);
} catch (...) {
  return 0;  // no memory: report the allocation without its stack
}

}  // namespace plimsoll::cuda_driver

// Stacks of C++ programs. A hook only stores the addresses of a new stack; a thread of its own
// finds their names and lines and passes them to the recorder.
#include "plimsoll/native_stacks_c.h"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/process_singleton.h"
#include "base/worker.h"
#include "native_stacks/library_code.h"
#include "native_stacks/source_lines.h"
#include "plimsoll/recorder_c.h"
#include "record/recorder.h"

namespace plimsoll::native_stacks {
namespace {

using Addresses = std::vector<std::uintptr_t>;

struct AddressesHash {
  std::size_t operator()(const Addresses& addresses) const noexcept {
    return base::hash_bytes(addresses.data(), addresses.size() * sizeof(std::uintptr_t));
  }
};

class NativeStacks {
 public:
  std::uint32_t id_of(std::span<const std::uintptr_t> addresses) {
    constexpr std::size_t kMostStacks = 1u << 18;
    std::uint32_t id = 0;
    {
      const std::lock_guard lock(ids_mutex_);
      Addresses key(addresses.begin(), addresses.end());
      if (const auto known = ids_.find(key); known != ids_.end()) return known->second;
      if (ids_.size() >= kMostStacks) return 0;
      const auto added = ids_.emplace(std::move(key), plimsoll_recorder()->reserve_stack()).first;
      waiting_.push_back(&*added);
      id = added->second;
    }
    wake_worker();
    return id;
  }

  // Defines all stacks that have an id.
  void settle() noexcept {
    const std::lock_guard lock(worker_mutex_);
    worker_.stop();
    define_waiting();
  }

 private:
  using Ids = std::unordered_map<Addresses, std::uint32_t, AddressesHash>;

  void wake_worker() noexcept {
    const std::unique_lock lock(worker_mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return;  // settle() is running: a hook never waits for it
    record::Recorder::made().define_stacks.store(&settle_all, std::memory_order_release);
    worker_.start(&run, this);
    worker_.waker().wake();
  }
  static void* run(void* self) noexcept {
    auto& stacks = *static_cast<NativeStacks*>(self);
    do {
      stacks.define_waiting();
    } while (stacks.worker_.waker().sleep(kIdleNs));
    return nullptr;
  }
  static void settle_all() noexcept { base::process_singleton<NativeStacks>().settle(); }

  void define_waiting() noexcept try {
    std::vector<const Ids::value_type*> waiting;
    {
      const std::lock_guard lock(ids_mutex_);
      waiting.swap(waiting_);
    }
    for (const Ids::value_type* stack : waiting) define(stack->first, stack->second);
  } catch (const std::exception&) {
    // No memory: these stacks stay without lines.
  }

  void define(const Addresses& addresses, std::uint32_t stack) {
    std::vector<plimsoll_frame> frames;
    bool is_in_adapter = true;
    for (const std::uintptr_t address : addresses) {
      const Code& code = code_at(address);
      is_in_adapter = is_in_adapter && code.may_be_adapter;
      if (is_in_adapter) continue;
      frames.insert(frames.end(), code.user_frames.begin(), code.user_frames.end());
    }
    if (!frames.empty()) plimsoll_recorder()->define_stack(stack, frames.data(), frames.size());
  }

  // What is known of an address.
  struct Code {
    std::vector<plimsoll_frame> user_frames;  // innermost first
    bool may_be_adapter = false;  // of Plimsoll, or without a name, in a stripped program
  };

  const Code& code_at(std::uintptr_t address) {
    const auto known = known_.find(address);
    if (known != known_.end()) return known->second;
    Code code;
    if (!is_library_object(lines_.object_at(address))) {
      const std::vector<CodeFrame> frames = lines_.frames_at(address);
      code.may_be_adapter = frames.back().linker_name.empty() || is_plimsoll(frames.back());
      for (const CodeFrame& frame : frames) {
        if (is_library_code(frame)) continue;
        code.user_frames.push_back(
            {.file = name_id(frame.file), .function = name_id(frame.function), .line = frame.line});
      }
    }
    return known_.emplace(address, std::move(code)).first->second;
  }
  static std::uint32_t name_id(std::string_view text) {
    return plimsoll_recorder()->name(text.data(), text.size());
  }

  static constexpr std::int64_t kIdleNs = 3'600'000'000'000;

  std::mutex ids_mutex_;
  Ids ids_;
  std::vector<const Ids::value_type*> waiting_;  // not defined yet

  std::mutex worker_mutex_;
  base::Worker worker_{"plimsoll-lines"};

  // Used by the worker, and by settle() once the worker has stopped.
  SourceLines lines_;
  std::unordered_map<std::uintptr_t, Code> known_;
};

}  // namespace
}  // namespace plimsoll::native_stacks

extern "C" uint32_t plimsoll_native_stack(const uintptr_t* addresses, size_t count) try {
  using plimsoll::native_stacks::NativeStacks;
  return plimsoll::base::process_singleton<NativeStacks>().id_of({addresses, count});
} catch (...) {
  return 0;
}

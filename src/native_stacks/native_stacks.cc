// Stacks of C++ programs. A hook only stores the addresses of a new stack; a thread of its own
// finds their names and lines and passes them to the recorder.
#include "plimsoll/native_stacks_c.h"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>
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
#include "native_stacks/loaded_objects.h"
#include "native_stacks/seccomp_filters.h"
#include "native_stacks/source_lines.h"
#include "plimsoll/recorder_c.h"
#include "record/recorder.h"

namespace plimsoll::native_stacks {
namespace {

// Addresses, each followed by the number of the library that contains it if another library can be
// loaded there later.
using StackKey = std::vector<std::uintptr_t>;

struct StackKeyHash {
  std::size_t operator()(const StackKey& key) const noexcept {
    return base::hash_bytes(key.data(), key.size() * sizeof(std::uintptr_t));
  }
};

struct CodeAddressHash {
  std::size_t operator()(const CodeAddress& code) const noexcept {
    return base::hash_bytes(&code, sizeof code);
  }
};

// Whether a stack waits until its lines can be read.
enum class WithoutLines : bool { kWaits, kIsDefined };

class NativeStacks {
 public:
  std::uint32_t id_of(std::span<const std::uintptr_t> addresses, std::uint64_t& unloads) {
    constexpr std::size_t kMostStacks = 1u << 18;
    std::uint32_t id = 0;
    {
      const std::lock_guard lock(ids_mutex_);
      loaded_.refresh();
      unloads = PLIMSOLL_NEVER_UNLOADED;
      StackKey key;
      std::list<WaitingStack> stack(1);
      std::vector<CodeAddress>& code = stack.front().code;
      code.reserve(addresses.size());
      for (const std::uintptr_t address : addresses) {
        const CodeAddress& at = code.emplace_back(loaded_.at(address));
        key.push_back(at.address);
        if (at.object == nullptr || at.object->is_lasting()) continue;
        key.push_back(at.object->number);
        unloads = loaded_.unloads_at_refresh();
      }
      if (const auto known = ids_.find(key); known != ids_.end()) return known->second;
      if (ids_.size() >= kMostStacks) return 0;
      id = ids_.emplace(std::move(key), plimsoll_recorder()->reserve_stack()).first->second;
      stack.front().id = id;
      waiting_.splice(waiting_.end(), stack);
    }
    wake_worker();
    return id;
  }

  // The frames of the user at an address, innermost first.
  std::vector<CodeFrame> user_frames(std::uintptr_t address) {
    CodeAddress at;
    {
      const std::lock_guard lock(ids_mutex_);
      loaded_.refresh();
      at = loaded_.at(address);
    }
    if (at.object == nullptr || at.object->is_library) return {};
    const std::lock_guard lock(worker_mutex_);
    worker_.stop();  // it uses lines_, too; the next new stack starts it again
    auto frames = lines_.frames_at(*at.object, at.address);
    if (!frames) frames = {lines_.function_at(*at.object, at.address)};
    if (is_plimsoll(frames->back())) return {};
    std::erase_if(*frames, is_library_code);
    return *frames;
  }

  // Defines all stacks that have an id.
  void settle() noexcept {
    const std::lock_guard lock(worker_mutex_);
    worker_.stop();
    define_waiting(WithoutLines::kIsDefined);
  }

 private:
  struct WaitingStack {
    std::vector<CodeAddress> code;
    std::uint32_t id = 0;
  };

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
      stacks.define_waiting(WithoutLines::kWaits);
    } while (stacks.worker_.waker().sleep(kIdleNs));
    return nullptr;
  }
  static void settle_all() noexcept { base::process_singleton<NativeStacks>().settle(); }

  void define_waiting(WithoutLines without_lines) noexcept {
    std::list<WaitingStack> waiting;
    {
      const std::lock_guard lock(ids_mutex_);
      waiting.swap(waiting_);
    }
    while (!waiting.empty() && define_or_drop(waiting.front(), without_lines)) waiting.pop_front();
    const std::lock_guard lock(ids_mutex_);
    waiting_.splice(waiting_.begin(), waiting);
  }

  // Returns false if the stack waits for its lines.
  bool define_or_drop(const WaitingStack& stack, WithoutLines without_lines) noexcept try {
    return define(stack, without_lines);
  } catch (const std::exception&) {
    return true;  // no memory: the stack stays without frames
  }

  bool define(const WaitingStack& stack, WithoutLines without_lines) {
    std::vector<plimsoll_frame> frames;
    bool is_in_adapter = true;
    for (const CodeAddress& at : stack.code) {
      const Code* const code = code_at(at, without_lines);
      if (code == nullptr) return false;
      is_in_adapter = is_in_adapter && code->may_be_adapter;
      if (is_in_adapter) continue;
      frames.insert(frames.end(), code->user_frames.begin(), code->user_frames.end());
    }
    if (!frames.empty()) plimsoll_recorder()->define_stack(stack.id, frames.data(), frames.size());
    return true;
  }

  // What is known of an address.
  struct Code {
    std::vector<plimsoll_frame> user_frames;  // innermost first
    bool may_be_adapter = false;  // of Plimsoll, or without a name, in a stripped program
    bool waits_for_lines = false;
  };

  // Null if the lines cannot be read right now, and the stack waits for them.
  const Code* code_at(const CodeAddress& at, WithoutLines without_lines) {
    const bool waits = without_lines == WithoutLines::kWaits;
    const auto known = known_.find(at);
    if (known != known_.end() && !(waits && known->second.waits_for_lines)) return &known->second;
    Code code;
    if (at.object == nullptr) {
      code.user_frames.push_back(
          {.file = name_id("[generated code]"), .function = name_id("?"), .line = 0});
      code.may_be_adapter = true;
    } else if (!at.object->is_library) {
      auto frames = lines_.frames_at(*at.object, at.address);
      code.waits_for_lines = !frames.has_value();
      if (code.waits_for_lines && waits) return nullptr;
      if (!frames) frames = {lines_.function_at(*at.object, at.address)};
      code.may_be_adapter = frames->back().linker_name.empty() || is_plimsoll(frames->back());
      for (const CodeFrame& frame : *frames) {
        if (is_library_code(frame)) continue;
        code.user_frames.push_back(
            {.file = name_id(frame.file), .function = name_id(frame.function), .line = frame.line});
      }
    }
    return &known_.insert_or_assign(at, std::move(code)).first->second;
  }
  static std::uint32_t name_id(std::string_view text) {
    return plimsoll_recorder()->name(text.data(), text.size());
  }

  static constexpr std::int64_t kIdleNs = 3'600'000'000'000;

  std::mutex ids_mutex_;
  LoadedObjects loaded_;
  std::unordered_map<StackKey, std::uint32_t, StackKeyHash> ids_;
  std::list<WaitingStack> waiting_;  // not defined yet

  std::mutex worker_mutex_;
  base::Worker worker_{"plimsoll-lines"};

  // Used by the worker, and by settle() once the worker has stopped.
  SourceLines lines_;
  std::unordered_map<CodeAddress, Code, CodeAddressHash> known_;
};

}  // namespace
}  // namespace plimsoll::native_stacks

extern "C" uint32_t plimsoll_native_stack(const uintptr_t* addresses, size_t count,
                                          uint64_t* unloads) try {
  using plimsoll::native_stacks::NativeStacks;
  return plimsoll::base::process_singleton<NativeStacks>().id_of({addresses, count}, *unloads);
} catch (...) {
  return 0;
}

extern "C" void plimsoll_user_code(uintptr_t address,
                                   void (*visit)(void* user, const char* function, const char* file,
                                                 uint32_t line),
                                   void* user) try {
  using plimsoll::native_stacks::NativeStacks;
  for (const auto& frame : plimsoll::base::process_singleton<NativeStacks>().user_frames(address)) {
    return visit(user, frame.function.c_str(), frame.file.c_str(), frame.line);
  }
} catch (...) {
  return;  // no memory for the names
}

extern "C" int plimsoll_has_added_filter(void) {
  return plimsoll::native_stacks::has_added_seccomp_filter() ? 1 : 0;
}

extern "C" uint64_t plimsoll_unloads(void) {
  return plimsoll::native_stacks::LoadedObjects::unloads();
}

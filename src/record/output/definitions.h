// The values of ids: names, stacks, tensors and devices, each interned once for the life of the
// process; and facts that apply until they change: allocator settings and notices. Any thread may
// add values; the drain copies new ones into the files. Nothing is evicted, because hooks store ids
// for the life of the process. The tables are bounded: beyond its limits a table returns a
// placeholder name or stack, or a tensor with only the role; without memory it returns 0. Both
// cases are counted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "format/encoder.h"
#include "format/records.h"
#include "record/ledger/id_index.h"

namespace plimsoll::record {

struct DefinitionLimits {
  std::size_t names = 1u << 20;
  std::size_t name_bytes = 256u << 20;         // all names together
  std::size_t longest_name_bytes = 64u << 10;  // longer ones are truncated
  std::size_t stacks = 1u << 20;
  std::size_t frames = 32u << 20;  // all stacks together
  std::size_t tensors = 1u << 20;
  std::size_t settings = 1u << 10;
  std::size_t notices = 1u << 10;
  std::size_t functions = 1u << 20;
  std::size_t modules = 1u << 20;
};

// How far a file has received the definitions.
struct DefinitionCursor {
  std::size_t names = 0;
  std::size_t stacks = 0;
  std::size_t tensors = 0;
  std::size_t devices = 0;
  std::size_t functions = 0;
  std::uint64_t facts = 0;  // settings, notices and modules
};

class Definitions {
 public:
  static constexpr std::uint8_t kCpu = 0;  // the id of the device

  explicit Definitions(const DefinitionLimits& limits = {}) noexcept;
  Definitions(const Definitions&) = delete;
  Definitions& operator=(const Definitions&) = delete;

  std::uint32_t name(std::string_view text) noexcept;
  std::uint32_t stack(std::span<const format::Frame> frames) noexcept;
  std::uint32_t reserve_stack() noexcept;
  void define_stack(std::uint32_t stack, std::span<const format::Frame> frames) noexcept;
  std::uint32_t tensor(const format::Tensor& tensor) noexcept;
  std::uint8_t device(const format::Device& device) noexcept;
  void setting(const format::Setting& setting) noexcept;
  void notice(const format::Notice& notice) noexcept;
  void function(const format::Function& function) noexcept;
  void module(const format::Module& module) noexcept;
  // Notices and modules: the recordings have ended.
  void forget_facts_of_recordings() noexcept;

  // The placeholders for names and stacks beyond the limits; 0 before any is needed.
  struct Beyond {
    std::uint32_t name = 0;
    std::uint32_t stack = 0;
    std::uint32_t tensor = 0;  // tensors from this id on are beyond the limits
  };
  Beyond beyond() noexcept;
  bool is_beyond(std::uint32_t tensor) noexcept;
  std::uint64_t refused() const noexcept { return refused_.load(std::memory_order_relaxed); }

  // Writes everything added since the cursor, and advances it.
  void write_new(DefinitionCursor& cursor, format::Encoder& encoder) noexcept;
  // Appends the roles of the tensors after the first `roles.size()`.
  void copy_roles(std::vector<std::uint8_t>& roles);

  // Returns the text of a name, valid forever; "" for an unknown id.
  std::string_view text(std::uint32_t name) noexcept;
  // Passes all tensors so far, in order of id from 1, to `visit`, under the lock.
  template <typename Visit>
  void visit_tensors(Visit&& visit) {
    const std::lock_guard lock(mutex_);
    visit(std::span<const format::Tensor>(tensors_));
  }
  format::Device device_of(std::uint8_t id) noexcept;
  // Copies the first frames of a stack and returns its number of frames, 0 for an unknown id.
  std::size_t copy_frames(std::uint32_t stack, std::span<format::Frame> frames) noexcept;
  // Copies frames of all stacks from number `first` on and returns how many.
  std::size_t copy_all_frames(std::size_t first, std::span<format::Frame> frames) noexcept;

  // Called around fork().
  void lock() noexcept { mutex_.lock(); }
  void unlock() noexcept { mutex_.unlock(); }

 private:
  struct Stack {
    std::size_t first = 0;
    std::uint32_t count = 0;
    bool is_defined = false;
  };

  // The current value, and the number of facts when it was reported.
  template <typename Fact>
  struct Reported {
    Fact fact;
    std::uint64_t at = 0;
  };

  std::uint32_t refuse() noexcept;
  std::uint32_t name_beyond();
  std::uint32_t stack_beyond();
  template <typename Fact, typename IsSame>
  void define(std::vector<Reported<Fact>>& facts, std::size_t limit, const Fact& fact,
              IsSame is_same);
  std::uint32_t find_or_add(const format::Tensor& tensor, std::size_t most);
  std::string_view keep(std::string_view text);
  std::span<const format::Frame> frames_of(std::uint32_t stack) const noexcept;
  void fill(std::uint32_t stack, std::span<const format::Frame> frames);

  const DefinitionLimits limits_;
  std::mutex mutex_;
  std::atomic<std::uint64_t> refused_{0};
  Beyond beyond_;

  std::vector<std::string_view> names_;  // id - 1
  IdIndex name_index_;
  std::vector<std::unique_ptr<char[]>> text_chunks_;
  std::size_t chunk_left_ = 0;
  char* chunk_at_ = nullptr;
  std::size_t name_bytes_ = 0;

  std::vector<Stack> stacks_;  // id - 1
  IdIndex stack_index_;
  std::vector<format::Frame> frames_;
  std::vector<std::uint32_t> defined_stacks_;  // in the order in which they were defined

  std::vector<format::Tensor> tensors_;  // id - 1
  IdIndex tensor_index_;

  std::vector<format::Device> devices_;  // id

  std::vector<format::Function> functions_;
  IdIndex function_index_;

  std::vector<Reported<format::Setting>> settings_;  // by name
  std::vector<Reported<format::Notice>> notices_;    // by kind and device
  std::vector<Reported<format::Module>> modules_;    // by path
  IdIndex module_index_;
  std::uint64_t modules_changed_at_ = 0;  // the last of their facts
  std::uint64_t facts_ = 0;
};

}  // namespace plimsoll::record
